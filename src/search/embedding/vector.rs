//! Directions of meaning in bytes: 384 numbers of one byte each keep 99 % of the order that 4 bytes each give.

use rten_simd::{Isa, SimdOp};

/// A direction, one byte for each dimension, and its length in those units.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector {
    bytes: Vec<i8>,
    length: f32,
}

impl Vector {
    /// The nearest direction that bytes can say.
    pub fn new(values: &[f32]) -> Self {
        let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let scale = if largest > 0.0 && largest.is_finite() { 127.0 / largest } else { 0.0 };
        Self::of_bytes(values.iter().map(|value| (value * scale).round() as i8).collect())
    }

    fn of_bytes(bytes: Vec<i8>) -> Self {
        let length = (dot(&bytes, &bytes) as f32).sqrt();
        Self { bytes, length }
    }

    /// From how it is stored.
    pub fn from_blob(blob: &[u8]) -> Self {
        let bytes = blob.get(4..).unwrap_or_default();
        Self::of_bytes(bytes.iter().map(|byte| byte.cast_signed()).collect())
    }

    /// As it is stored: its length, then its bytes.
    pub fn to_blob(&self) -> Vec<u8> {
        let mut blob = self.length.to_le_bytes().to_vec();
        blob.extend(self.bytes.iter().map(|byte| byte.cast_unsigned()));
        blob
    }

    /// The same, to compare outlines with.
    pub fn beside_outlines(&self) -> Beside {
        let length = self.bytes.len().div_ceil(4);
        let mut numbers = vec![[[0; LANES]; 4]; length.div_ceil(LANES)];
        for (at, byte) in self.bytes.iter().enumerate() {
            let (quarter, place) = (at / length, at % length);
            numbers[place / LANES][quarter][place % LANES] = i16::from(*byte);
        }
        Beside { numbers, sum: self.bytes.iter().map(|byte| i32::from(*byte)).sum() }
    }

    /// The likeness of a stored direction: 1 the same, 0 nothing in common. Nothing if it is not one of ours.
    pub fn likeness(&self, blob: &[u8]) -> Option<f32> {
        let (length, bytes) = blob.split_first_chunk::<4>()?;
        let length = f32::from_le_bytes(*length) * self.length;
        (bytes.len() == self.bytes.len() && length > 0.0)
            .then(|| Dot { ours: &self.bytes, stored: bytes }.dispatch() as f32 / length)
    }
}

/// A direction to compare outlines with.
#[derive(Debug)]
pub struct Beside {
    /// Its numbers, in the order of the bytes of an outline that stand for them.
    numbers: Vec<[[i16; LANES]; 4]>,
    /// All of them together.
    sum: i32,
}

/// As many bytes of an outline are looked at together.
const LANES: usize = 16;
/// Sums of that many products of a byte's four steps, at their largest, fit into two bytes.
const FIT: usize = 20;

impl Beside {
    /// The nearness of a stored outline, in units of its own: more is nearer.
    pub fn nearness(&self, outline: &[u8]) -> i32 {
        // 0 to 3 stand for -3, -1, 1 and 3.
        2 * Steps { numbers: &self.numbers, outline }.dispatch() - 3 * self.sum
    }
}

/// Numbers times the steps of an outline.
struct Steps<'a> {
    numbers: &'a [[[i16; LANES]; 4]],
    outline: &'a [u8],
}

impl SimdOp for Steps<'_> {
    type Output = i32;

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) -> i32 {
        let mut sum = 0;
        for (outline, numbers) in self.outline.chunks(FIT * LANES).zip(self.numbers.chunks(FIT)) {
            let mut lanes = [0_i16; LANES];
            let mut add = |bytes: &[u8; LANES], [a, b, c, d]: &[[i16; LANES]; 4]| {
                for at in 0..LANES {
                    let byte = i16::from(bytes[at]);
                    lanes[at] += a[at] * (byte & 3)
                        + b[at] * (byte >> 2 & 3)
                        + c[at] * (byte >> 4 & 3)
                        + d[at] * (byte >> 6);
                }
            };
            let (whole, rest) = outline.as_chunks::<LANES>();
            whole.iter().zip(numbers).for_each(|(bytes, numbers)| add(bytes, numbers));
            if let Some(numbers) = numbers.get(whole.len()).filter(|_| !rest.is_empty()) {
                let mut last = [0; LANES];
                last[..rest.len()].copy_from_slice(rest);
                add(&last, numbers);
            }
            sum += lanes.iter().map(|lane| i32::from(*lane)).sum::<i32>();
        }
        sum
    }
}

fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

/// The same on the widest registers that this machine has: the loop is compiled for each, and the choice is made when it
/// runs.
struct Dot<'a> {
    ours: &'a [i8],
    stored: &'a [u8],
}

impl SimdOp for Dot<'_> {
    type Output = i32;

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) -> i32 {
        let mut sum = 0;
        for (a, b) in self.ours.iter().zip(self.stored) {
            // The product fits into two bytes, and twice as many of those fit into a register.
            sum += i32::from(i16::from(*a) * i16::from(b.cast_signed()));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likeness_in_bytes_is_close_to_that_of_numbers() {
        let wave = |step: f32| -> Vec<f32> { (0..384).map(|at| (at as f32 * step).sin()).collect() };
        let (a, b) = (wave(0.1), wave(0.103));
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let exact = product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt();
        let ours = Vector::new(&a).likeness(&Vector::new(&b).to_blob()).unwrap();
        assert!((exact - ours).abs() < 0.01, "{exact} {ours}");
        assert!((Vector::new(&a).likeness(&Vector::new(&a).to_blob()).unwrap() - 1.0).abs() < 1e-5);
        assert_eq!(Vector::from_blob(&Vector::new(&a).to_blob()), Vector::new(&a));
    }

    #[test]
    fn outlines_tell_what_is_near() {
        use crate::store::index::vectors::outline;
        let wave = |step: f32| -> Vec<f32> { (0..385).map(|at| (at as f32 * step).sin()).collect() };
        let asked = Vector::new(&wave(0.1)).beside_outlines();
        let nearness = |step: f32| asked.nearness(&outline(&Vector::new(&wave(step)).to_blob()));
        assert!(nearness(0.1) > nearness(0.101) && nearness(0.101) > nearness(0.105));
        assert!(nearness(0.105) > nearness(0.2).abs());
        // By hand: far above zero, and a little below it.
        let beside = Vector::new(&[127.0, 10.0]).beside_outlines();
        assert_eq!(beside.nearness(&outline(&[0, 0, 0, 0, 9, 0xFF])), 127 * 3 - 10);
        // As large as numbers can be, and more of them than any model has.
        let large = Vector::new(&[1.0; 5_000]);
        assert_eq!(large.beside_outlines().nearness(&vec![0xFF; 1_250]), 127 * 3 * 5_000);
    }

    #[test]
    fn blobs_of_others_have_no_likeness() {
        let vector = Vector::new(&[1.0, 2.0, 3.0]);
        for blob in [&[][..], &[0, 0, 0], &[0; 7], &[0; 8], &[255; 7]] {
            assert!(vector.likeness(blob).is_none_or(f32::is_finite), "{blob:?}");
        }
        assert_eq!(Vector::from_blob(&[]).likeness(&vector.to_blob()), None);
        assert_eq!(Vector::new(&[0.0; 3]).likeness(&vector.to_blob()), None);
        assert_eq!(Vector::new(&[f32::NAN; 3]).likeness(&vector.to_blob()), None);
    }
}
