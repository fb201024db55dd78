//! How a quantity is spread: always the same, or by one of three laws.
//!
//! ```text
//! fixed         mean
//! exponential   -mean * ln u                             what has no memory
//! lognormal     exp(m + sigma * z), m = ln mean - sigma^2 / 2      most are small, some are not
//! pareto        scale / u^(1 / alpha), scale = mean * (alpha - 1) / alpha    a heavy tail
//! ```
//!
//! `u` is drawn evenly from (0, 1], `z` from the standard normal distribution (Box and Muller's way). A draw above the
//! cap is the cap, so that the mean of what is drawn is below the one that is given.

use fastrand::Rng;

/// A law with its figures, in whatever unit the mean has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    /// Its form.
    pub form: Form,
    /// The mean before the cap.
    pub mean: f64,
    /// The cap.
    pub most: f64,
}

/// The form of a law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// Always the mean.
    Fixed,
    /// Without memory.
    Exponential,
    /// With this standard deviation of the logarithm.
    Lognormal(f64),
    /// With this exponent; above 1, where there is a mean.
    Pareto(f64),
}

impl Law {
    /// One draw; never negative.
    pub(super) fn draw(&self, rng: &mut Rng) -> f64 {
        let Law { form, mean, most } = *self;
        // Never zero, whose logarithm there is none of.
        let mut even = || 1.0 - rng.f64();
        let drawn = match form {
            Form::Fixed => mean,
            Form::Exponential => -mean * even().ln(),
            Form::Lognormal(sigma) => {
                let normal = (-2.0 * even().ln()).sqrt() * (std::f64::consts::TAU * even()).cos();
                (mean.ln() - sigma * sigma / 2.0 + sigma * normal).exp()
            }
            Form::Pareto(alpha) => mean * (alpha - 1.0) / alpha / even().powf(1.0 / alpha),
        };
        drawn.clamp(0.0, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_law_has_its_mean_and_its_cap() {
        for form in [Form::Fixed, Form::Exponential, Form::Lognormal(1.0), Form::Pareto(2.5)] {
            let mut rng = Rng::with_seed(1);
            let law = Law { form, mean: 8.0, most: f64::MAX };
            let mean = (0..200_000).map(|_| law.draw(&mut rng)).sum::<f64>() / 200_000.0;
            assert!((mean - 8.0).abs() < 0.2, "{form:?} has a mean of {mean}");
            let capped = Law { most: 9.0, ..law };
            assert!((0..1000).all(|_| (0.0..=9.0).contains(&capped.draw(&mut rng))), "{form:?}");
        }
    }
}
