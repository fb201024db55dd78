//! How a run went, as pictures: demand against slots, the age of the queue by class, memory against its limit.
//!
//! Each is one SVG that stands by itself: a title, axes with their units, a legend, and a line for each figure that
//! has the highest value of each stretch of the run. Equal runs give equal bytes.

use std::fmt::Write as _;
use std::time::Duration;

use super::tally::{Point, Series};
use super::workload::in_float;
use crate::profile::ClassName;
use crate::quantity::Bytes;

/// The picture and the part of it inside the axes, in pixels.
const SIZE: (f64, f64) = (960.0, 380.0);
const LEFT: f64 = 70.0;
const RIGHT: f64 = 940.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 324.0;
/// Told apart by most eyes that see few colours (the palette of Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"];
/// About so many marks an axis.
const MARKS: f64 = 6.0;

/// One picture: the name of its file and the SVG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// The file's name.
    pub file: &'static str,
    /// The SVG.
    pub svg: String,
}

/// One line of a picture; where nothing was seen it is broken.
struct Line {
    name: String,
    values: Vec<Option<f64>>,
}

/// The pictures of a run.
pub fn plots(series: &Series) -> Vec<Plot> {
    let count = |name: &str, of: fn(&Point) -> u32| line(series, name, |point| f64::from(of(point)));
    let demand = [
        count("demand: lent and waiting", |point| point.demand),
        count("slots: starting, warm and lent", |point| point.slots),
    ];
    let seen = || series.points.iter().flatten();
    let most = |of: fn(&Point) -> Bytes| seen().map(of).max().unwrap_or_default();
    let most = most(|point| point.held.max(point.promised).max(point.limit));
    let (unit, size) = if most >= Bytes::mib(4096) { ("GiB", 1 << 30) } else { ("MiB", 1 << 20) };
    let memory = |name: &str, of: fn(&Point) -> Bytes| {
        line(series, name, |point| in_float(of(point).get()) / in_float(size))
    };
    let memory = [
        memory("held by instances", |point| point.held),
        memory("promised to them", |point| point.promised),
        memory("limit of all together", |point| point.limit),
    ];
    let classes: Vec<ClassName> =
        seen().next().map_or(Vec::new(), |point| point.ages.keys().cloned().collect());
    let age = |class: &ClassName| {
        line(series, class.as_str(), |point| point.ages.get(class).map_or(0.0, Duration::as_secs_f64))
    };
    let ages: Vec<Line> = classes.iter().map(age).collect();
    vec![
        Plot { file: "demand.svg", svg: draw(series, ("Demand against slots", "instances"), &demand) },
        Plot {
            file: "queue-age.svg",
            svg: draw(series, ("Age of the oldest waiting request, by class", "s"), &ages),
        },
        Plot { file: "memory.svg", svg: draw(series, ("Memory against the budget", unit), &memory) },
    ]
}

fn line(series: &Series, name: &str, of: impl Fn(&Point) -> f64) -> Line {
    Line {
        name: name.to_owned(),
        values: series.points.iter().map(|point| point.as_ref().map(&of)).collect(),
    }
}

fn draw(series: &Series, (title, unit): (&str, &str), lines: &[Line]) -> String {
    let seconds = series.every.as_secs_f64() * in_float(series.points.len() as u64);
    let highest = lines.iter().flat_map(|line| line.values.iter().flatten()).copied().fold(0.0, f64::max);
    let step = nice_step(highest.max(1.0));
    let top = (highest / step).ceil().max(1.0) * step;
    let x = |time: f64| LEFT + (RIGHT - LEFT) * time / seconds.max(1.0);
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * value / top;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"16\">{title}</text>\n",
        SIZE.0, SIZE.1,
    );
    // Writing to a text never fails.
    let mut add = |text: String| svg.write_str(&text).expect("a text takes all");
    let mut value = 0.0;
    while value <= top + step / 2.0 {
        let at = y(value);
        add(format!(
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 8.0,
            at + 4.0,
            number(value),
        ));
        value += step;
    }
    add(format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{unit}</text>\n", LEFT - 8.0, TOP - 14.0));
    let (step, each, name) = time_step(seconds);
    let mut time = 0.0;
    while time <= seconds + 0.5 {
        let at = x(time);
        add(format!(
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{BOTTOM}\" y2=\"{:.1}\" stroke=\"#333\"/>\n\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            BOTTOM + 5.0,
            BOTTOM + 20.0,
            number(time / each),
        ));
        time += step;
    }
    add(format!(
        "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\" stroke=\"#333\"/>\n\
         <text x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">time [{name}], the highest of each {}</text>\n",
        BOTTOM + 42.0,
        crate::quantity::show_duration(series.every),
    ));
    let mut legend = LEFT;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        add(format!(
            "<line x1=\"{legend:.1}\" x2=\"{:.1}\" y1=\"44\" y2=\"44\" stroke=\"{colour}\" stroke-width=\"3\"/>\n\
             <text x=\"{:.1}\" y=\"48\">{}</text>\n",
            legend + 20.0,
            legend + 26.0,
            line.name,
        ));
        legend += 60.0 + 7.0 * in_float(line.name.chars().count() as u64);
        let path = path(&line.values, |at| x(series.every.as_secs_f64() * in_float(at as u64)), y);
        add(format!("<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.4\"/>\n"));
    }
    add("</svg>\n".to_owned());
    svg
}

/// The line through the values that there are.
fn path(values: &[Option<f64>], x: impl Fn(usize) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut path = String::new();
    let mut word = 'M';
    for (at, value) in values.iter().enumerate() {
        if let Some(value) = value {
            write!(path, "{word}{:.1} {:.1}", x(at), y(*value)).expect("a text takes all");
        }
        word = if value.is_some() { 'L' } else { 'M' };
    }
    path
}

/// A step of 1, 2 or 5 times a power of ten that makes some marks up to here.
fn nice_step(highest: f64) -> f64 {
    let rough = highest / MARKS;
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power).find(|step| *step >= rough).unwrap_or(rough)
}

/// The step of the axis of time, and its unit: how many seconds it has, and its name.
fn time_step(seconds: f64) -> (f64, f64, &'static str) {
    const STEPS: [f64; 15] = [
        1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14_400.0, 21_600.0, 43_200.0,
        86_400.0, 432_000.0,
    ];
    let step = STEPS.into_iter().find(|step| *step >= seconds / 12.0).unwrap_or(432_000.0);
    match step {
        _ if step < 60.0 => (step, 1.0, "s"),
        _ if step < 3600.0 => (step, 60.0, "min"),
        _ if step < 86_400.0 => (step, 3600.0, "h"),
        _ => (step, 86_400.0, "days"),
    }
}

/// Without digits that say nothing.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
