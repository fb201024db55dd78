//! A scale of sizes below a limit, in eighths of doublings: as fine for small ones as for large ones, and of few places.

/// Eight doublings, in eighths.
pub(super) const BUCKETS: usize = LAST as usize + 1;
/// The last of them ends at the limit.
pub(super) const LAST: u8 = 63;
/// What an eighth of a doubling less comes to, in thousandths: `1000 * 2^(-n/8)`.
const EIGHTHS: [u64; 8] = [1000, 917, 841, 771, 707, 648, 595, 545];

/// The most that a bucket stands for.
pub(super) fn edge(max: u64, bucket: usize) -> u64 {
    let below = BUCKETS - 1 - bucket.min(BUCKETS - 1);
    let whole = u128::from(max) * u128::from(EIGHTHS[below % 8]) / 1000;
    u64::try_from(whole >> (below / 8)).unwrap_or(u64::MAX)
}

/// The bucket of this size; the last one for whatever is beyond the limit.
pub(super) fn bucket(max: u64, size: u64) -> u8 {
    let place = (0..BUCKETS).find(|bucket| size <= edge(max, *bucket));
    place.and_then(|place| u8::try_from(place).ok()).map_or(LAST, within)
}

pub(super) fn within(bucket: u8) -> u8 {
    bucket.min(LAST)
}

/// This part of a weight.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of it is within its range"
)]
pub(super) fn scaled(weight: u64, share: f64) -> u64 {
    ((weight as f64 * share) as u64).min(weight)
}
