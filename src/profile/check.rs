//! Being built.
/// Check.
pub fn check() {}
/// Read.
pub fn read() {}
