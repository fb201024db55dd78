//! One figure: what was measured, against what, and whether it is good enough.

use anyhow::Context;
use serde::Serialize;

/// A line of the table, and an object of the results.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// What it is compared with, and how that was measured.
    pub(crate) against: Option<String>,
    /// In the same unit.
    pub(crate) against_value: Option<f64>,
    /// How many times the value the other one is.
    pub(crate) ratio: Option<f64>,
    pub(crate) bar: Option<String>,
    pub(crate) holds: bool,
    pub(crate) runs: usize,
    pub(crate) spread: Option<Spread>,
}

/// How far single runs lie apart.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// In the value's unit.
    pub(crate) unit: &'static str,
    /// Between which runs: `p10..p90` or `min..max`.
    pub(crate) of: &'static str,
}

/// What a figure must keep.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    /// The value is below this.
    Below(f64),
    /// The other is at least so many times the value.
    Times(f64),
}

/// Single runs, in one unit.
#[derive(Debug, Clone)]
pub(crate) struct Runs {
    sorted: Vec<f64>,
    unit: &'static str,
}

impl Runs {
    pub(crate) fn new(mut runs: Vec<f64>, unit: &'static str) -> anyhow::Result<Runs> {
        anyhow::ensure!(!runs.is_empty(), "nothing was measured");
        runs.sort_by(f64::total_cmp);
        Ok(Runs { sorted: runs, unit })
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The smallest run that at least so many of a hundred do not exceed.
    pub(crate) fn percentile(&self, hundredths: usize) -> f64 {
        let rank = (self.sorted.len() * hundredths).div_ceil(100).max(1);
        self.sorted[rank - 1]
    }

    pub(crate) fn largest(&self) -> f64 {
        self.percentile(100)
    }

    /// A figure of these runs: their median, unless [`Figure::value`] is set to something else.
    pub(crate) fn figure(&self, name: impl Into<String>) -> Figure {
        // Of fewer than ten runs the tenth part is none.
        let (low, high, of) = match self.sorted.len() {
            0..10 => (self.sorted[0], self.largest(), "min..max"),
            _ => (self.percentile(10), self.percentile(90), "p10..p90"),
        };
        Figure {
            name: name.into(),
            value: self.median(),
            unit: self.unit,
            against: None,
            against_value: None,
            ratio: None,
            bar: None,
            holds: true,
            runs: self.sorted.len(),
            spread: Some(Spread { low, high, unit: self.unit, of }),
        }
    }
}

impl Figure {
    /// One that could not be measured, which holds no bar.
    pub(crate) fn missing(name: &str) -> Figure {
        Figure {
            name: format!("{name}: could not be measured"),
            value: 0.0,
            unit: "",
            against: None,
            against_value: None,
            ratio: None,
            bar: Some("to be measured".into()),
            holds: false,
            runs: 0,
            spread: None,
        }
    }

    /// Compares it with something else in the same unit.
    pub(crate) fn against(mut self, what: impl Into<String>, value: f64) -> Figure {
        self.against = Some(what.into());
        self.against_value = Some(value);
        self.ratio = Some(value / self.value);
        self
    }

    /// Holds it to a bar; last, as it looks at the rest.
    pub(crate) fn bar(mut self, bar: Bar) -> Figure {
        self.holds = match bar {
            Bar::Below(most) => self.value < most,
            Bar::Times(least) => self.ratio.is_some_and(|ratio| ratio >= least),
        };
        self.bar = Some(match bar {
            Bar::Below(most) => format!("< {most} {}", self.unit),
            Bar::Times(least) => format!(">= {least} times"),
        });
        self
    }
}

pub(crate) fn json(figures: &[Figure]) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(figures).context("a figure is no number")?;
    Ok(format!("{text}\n"))
}

/// A line a figure, and below each what it was compared with.
pub(crate) fn table(figures: &[Figure]) -> String {
    let head = ["", "value", "against", "ratio", "bar", "", "runs", "spread"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    for figure in figures {
        let number = |value: f64| with_unit(value, figure.unit);
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        rows.push(vec![
            figure.name.clone(),
            number(figure.value),
            or_none(figure.against_value.map(number)),
            or_none(figure.ratio.map(short)),
            or_none(figure.bar.clone()),
            if figure.bar.is_none() {
                ""
            } else if figure.holds {
                "holds"
            } else {
                "MISSED"
            }
            .into(),
            figure.runs.to_string(),
            or_none(
                figure
                    .spread
                    .as_ref()
                    .map(|s| format!("{} .. {} {} ({})", short(s.low), short(s.high), s.unit, s.of)),
            ),
        ]);
    }
    let widths: Vec<usize> =
        (0..head.len()).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
        if let Some(what) = at.checked_sub(1).and_then(|at| figures[at].against.as_ref()) {
            text.push_str(&format!("  against {what}\n"));
        }
    }
    text
}

/// A value as people read it: a time in the unit that suits its size.
fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "µs" if value >= 1e3 => with_unit(value / 1e3, "ms"),
        "ms" if value >= 1e3 => with_unit(value / 1e3, "s"),
        _ => format!("{} {unit}", short(value)),
    }
}

/// Three digits, or all of a large number's whole ones.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
