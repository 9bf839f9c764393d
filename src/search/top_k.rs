//! The best of many, without keeping them all.

use std::cmp::Ordering;

/// The best `most` of what it is offered.
#[derive(Debug)]
pub struct TopK<T, C> {
    most: usize,
    /// The best so far, and others.
    kept: Vec<T>,
    /// The last of the best, below which nothing is kept.
    worst: Option<T>,
    /// Which of two comes first.
    order: C,
}

impl<T: Copy, C: Fn(&T, &T) -> Ordering> TopK<T, C> {
    pub fn new(most: usize, order: C) -> Self {
        Self { most, kept: Vec::new(), worst: None, order }
    }

    pub fn offer(&mut self, item: T) {
        let is_beaten = |worst: &T| (self.order)(&item, worst) != Ordering::Less;
        if self.most == 0 || self.worst.as_ref().is_some_and(is_beaten) {
            return;
        }
        self.kept.push(item);
        if self.kept.len() >= 2 * self.most {
            self.kept.select_nth_unstable_by(self.most - 1, &self.order);
            self.kept.truncate(self.most);
            self.worst = self.kept.last().copied();
        }
    }

    /// All of them, the best first.
    pub fn in_order(mut self) -> Vec<T> {
        self.kept.sort_unstable_by(&self.order);
        self.kept.truncate(self.most);
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_those_of_a_full_sort() {
        let numbers: Vec<u32> =
            (0..1_000_u32).map(|number| number.wrapping_mul(2_654_435_761) % 307).collect();
        for most in [0, 1, 7, 500, 999, 1_000, 5_000] {
            let mut best = TopK::new(most, u32::cmp);
            numbers.iter().for_each(|number| best.offer(*number));
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            sorted.truncate(most);
            assert_eq!(best.in_order(), sorted, "{most}");
        }
    }
}
