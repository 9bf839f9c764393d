//! A seeded random generator, so that a failure can be reproduced.

pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// True once in `times` on average.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    #[allow(dead_code, reason = "not every test binary needs it")]
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}
