//! Evidence that memory helps: sessions that were chosen to get none, and the comparison with the others.
//!
//! Pure. The hook decides with it whether a session is withheld; the report compares the two groups.

use xxhash_rust::xxh3::xxh3_64;

#[cfg(feature = "service")]
use crate::api::Measure;

/// True if a session gets no memory, so that others can be compared with it. The choice depends on the session's id alone, which
/// is random: a session that is resumed or compacted stays in its group.
pub fn is_withheld(session: &str, percent: u64) -> bool {
    xxh3_64(format!("holdout {session}").as_bytes()) % 100 < percent
}

/// Minimum sessions of each group for a comparison.
pub const LEAST_SESSIONS: usize = 20;

/// Normal quantile for intervals that hold together: 95 % for three measures (Bonferroni).
#[cfg(feature = "service")]
const QUANTILE: f64 = 2.394;

/// Compares a measure between sessions with memory and sessions without: the relative change of the mean, with an interval by the
/// delta method on the logarithm of the ratio. None if there are too few sessions or nothing was counted.
#[cfg(feature = "service")]
pub fn compare(name: &str, shown: &[f64], withheld: &[f64]) -> Measure {
    let (one, other) = (Moments::of(shown), Moments::of(withheld));
    let mut measure =
        Measure { name: name.to_owned(), shown: one.mean, withheld: other.mean, ..Measure::default() };
    let is_enough = shown.len() >= LEAST_SESSIONS && withheld.len() >= LEAST_SESSIONS;
    if is_enough && one.mean > 0.0 && other.mean > 0.0 {
        let (first, second) = (one.relative_variance(), other.relative_variance());
        let error = (first + second).sqrt();
        // Welch's degrees of freedom, and the quantile of Student's distribution for them.
        let freedom = (first + second).powi(2)
            / (first.powi(2) / (one.count - 1.0) + second.powi(2) / (other.count - 1.0))
                .max(f64::MIN_POSITIVE);
        let reach = student(freedom) * error;
        let ratio = (one.mean / other.mean).ln();
        let percent = |ratio: f64| 100.0 * (ratio.exp() - 1.0);
        measure.change = Some(percent(ratio));
        measure.interval = Some([percent(ratio - reach), percent(ratio + reach)]);
    }
    measure
}

/// The quantile of Student's distribution, by the expansion of Cornish and Fisher.
#[cfg(feature = "service")]
fn student(freedom: f64) -> f64 {
    let z = QUANTILE;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + first / freedom + second / freedom.powi(2)
}

#[cfg(feature = "service")]
struct Moments {
    count: f64,
    mean: f64,
    variance: f64,
}

#[cfg(feature = "service")]
impl Moments {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { count, mean, variance: squares / (count - 1.0).max(1.0) }
    }

    /// The variance of the mean, relative to the mean.
    fn relative_variance(&self) -> f64 {
        self.variance / self.count / self.mean.powi(2)
    }
}

#[cfg(all(test, feature = "service"))]
mod tests {
    use super::*;

    /// A generator with a fixed seed: SplitMix64.
    struct Random(u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = self.0;
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }

        /// Tool calls per prompt of a session: skewed, as in real histories.
        fn session(&mut self, mean: f64) -> f64 {
            let normal =
                (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos();
            mean * (0.6 * normal - 0.18).exp()
        }
    }

    /// Share of 1,000 simulated histories in which a difference is claimed, and claimed in the right direction.
    fn claimed(effect: f64, sessions: usize) -> (f64, f64) {
        let mut random = Random(25);
        let (mut any, mut right) = (0, 0);
        for _ in 0..1000 {
            let shown: Vec<f64> = (0..9 * sessions).map(|_| random.session(12.0)).collect();
            let withheld: Vec<f64> = (0..sessions).map(|_| random.session(12.0 * effect)).collect();
            let interval = compare("calls", &shown, &withheld).interval;
            let [low, high] = interval.unwrap_or([f64::NAN; 2]);
            any += u32::from(low > 0.0 || high < 0.0);
            right += u32::from(high < 0.0);
        }
        (f64::from(any) / 1000.0, f64::from(right) / 1000.0)
    }

    #[test]
    fn an_effect_of_thirty_percent_is_found_and_none_is_not_claimed() {
        let (_, found) = claimed(1.3, 120);
        assert!(found >= 0.95, "{found}");
        let (claimed, _) = claimed(1.0, 120);
        assert!(claimed <= 0.05, "{claimed}");
    }

    #[test]
    fn too_few_sessions_are_not_compared() {
        let few = compare("calls", &[1.0; 500], &[2.0; LEAST_SESSIONS - 1]);
        assert_eq!((few.change, few.interval), (None, None));
        let nothing = compare("calls", &[0.0; 50], &[0.0; 50]);
        assert_eq!(nothing.change, None);
        assert_eq!(compare("calls", &[], &[]).shown, 0.0);
    }

    #[test]
    fn the_share_of_withheld_sessions_is_the_one_asked_for() {
        let withheld = (0..10_000).filter(|id| is_withheld(&format!("session-{id}"), 20)).count();
        assert!((1_850..=2_150).contains(&withheld), "{withheld}");
        assert!(!(0..1000).any(|id| is_withheld(&format!("{id}"), 0)));
        assert_eq!(is_withheld("a", 50), is_withheld("a", 50));
    }
}
