//! Token buckets: so many commands at once, so many a second after that. One a session, one an identity, one for
//! handshakes. Plain arithmetic on a clock that the caller reads.

/// A bucket; full at first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    tokens: f32,
    filled_ms: u64,
}

impl Bucket {
    /// A full bucket.
    pub(super) const fn full(burst: u32, now_ms: u64) -> Self {
        Self { tokens: burst as f32, filled_ms: now_ms }
    }

    /// Takes one token.
    ///
    /// # Errors
    /// How long until there is one, in milliseconds.
    pub(super) fn spend(&mut self, burst: u32, per_s: u32, now_ms: u64) -> Result<(), u64> {
        let passed_ms = now_ms.saturating_sub(self.filled_ms);
        self.tokens = (self.tokens + passed_ms as f32 * per_s as f32 / 1_000.0).min(burst as f32);
        self.filled_ms = now_ms;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(((1.0 - self.tokens) * 1_000.0 / per_s as f32).ceil().max(1.0) as u64)
    }

    /// Whether nobody has spent for so long that the bucket is full again.
    pub(super) const fn is_idle(&self, full_after_ms: u64, now_ms: u64) -> bool {
        now_ms >= self.filled_ms + full_after_ms
    }

    /// Whole tokens left.
    pub(super) fn left(&self) -> u32 {
        self.tokens as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::full(3, 1_000);
        for left in [2, 1, 0] {
            assert_eq!(bucket.spend(3, 5, 1_000), Ok(()));
            assert_eq!(bucket.left(), left);
        }
        assert_eq!(bucket.spend(3, 5, 1_000), Err(200));
        assert_eq!(bucket.spend(3, 5, 1_100), Err(100));
        assert_eq!(bucket.spend(3, 5, 1_200), Ok(()));
        assert_eq!(bucket.spend(3, 5, 61_200), Ok(()));
        assert_eq!(bucket.left(), 2, "never more than the burst");
    }
}
