//! A small generator of repeatable chance.

/// A reproducible random number generator (splitmix64): the same seed gives the same cuts.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that depends on `seed` alone. Print the seed when a check fails.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from `0` to `end - 1`; zero if `end` is zero.
    pub fn below(&mut self, end: usize) -> usize {
        // The bias of the remainder is far below what any check here could notice.
        (self.next_u64() % (end as u64).max(1)) as usize
    }

    /// True for half of the calls.
    pub fn coin(&mut self) -> bool {
        self.next_u64() >> 63 == 1
    }

    /// How many of `count` consecutive items survive: none, all, or any number.
    ///
    /// The two ends are drawn as often as everything between them, because most bugs are there.
    pub(super) fn prefix(&mut self, count: usize) -> usize {
        match self.below(4) {
            0 => 0,
            1 => count,
            _ => self.below(count + 1),
        }
    }
}
