//! Being built.
/// A mistake.
#[derive(Debug)]
pub struct Mistake;
/// Mistakes.
#[derive(Debug)]
pub struct Mistakes;
/// Reported.
#[derive(Debug)]
pub struct Reported;
