//! What single values look like: sizes, times, shares, counts, words, lists.
//!
//! Each function takes the range a key allows and gives what reads one value. Quantities are text with a
//! unit; a bare number is refused with the text that was probably meant, because its unit would be a guess.
//!
//! Not here: keys and their defaults, and rules between values.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::profile::Amount;
use crate::profile::check::fields::nearest;
use crate::profile::mistake::Wrong;
use crate::profile::tree::{Data, Value, quote};
use crate::quantity::{Bytes, DURATION_EXPECTED, MilliCpu, Permille, Rate, parse_duration};

/// A size in this range.
pub(super) fn size(range: RangeInclusive<Bytes>) -> impl Fn(&Value) -> Result<Bytes, Wrong> {
    move |value| {
        let text = quantity(value, Bytes::EXPECTED, size_hint)?;
        let size = Bytes::parse(text).map_err(|_| unread(value, Bytes::EXPECTED, size_hint))?;
        within(size, &range, |size| spell_size(*size))
    }
}

/// A time in this range.
pub(super) fn time(range: RangeInclusive<Duration>) -> impl Fn(&Value) -> Result<Duration, Wrong> {
    move |value| {
        let text = quantity(value, DURATION_EXPECTED, time_hint)?;
        let time = parse_duration(text).map_err(|_| unread(value, DURATION_EXPECTED, time_hint))?;
        within(time, &range, |time| spell_time(*time))
    }
}

/// A rate.
pub(super) fn rate(value: &Value) -> Result<Rate, Wrong> {
    let text = quantity(value, Rate::EXPECTED, rate_hint)?;
    Rate::parse(text).map_err(|_| unread(value, Rate::EXPECTED, rate_hint))
}

/// A number of cores in this range.
pub(super) fn cores(range: RangeInclusive<MilliCpu>) -> impl Fn(&Value) -> Result<MilliCpu, Wrong> {
    move |value| {
        let text = quantity(value, MilliCpu::EXPECTED, cores_hint)?;
        let cores = MilliCpu::parse(text).map_err(|_| unread(value, MilliCpu::EXPECTED, no_hint))?;
        within(cores, &range, MilliCpu::to_string)
    }
}

/// A share in this range.
pub(super) fn share(range: RangeInclusive<Permille>) -> impl Fn(&Value) -> Result<Permille, Wrong> {
    move |value| {
        let text = quantity(value, Permille::EXPECTED, share_hint)?;
        let share = Permille::parse(text).map_err(|_| unread(value, Permille::EXPECTED, share_hint))?;
        within(share, &range, Permille::to_string)
    }
}

/// A size up to `most`, or a share in a range.
pub(super) fn amount(
    most: Bytes,
    shares: RangeInclusive<Permille>,
) -> impl Fn(&Value) -> Result<Amount, Wrong> {
    const EXPECTED: &str = "a share or a size with a unit, such as \"6%\" or \"4GiB\"";
    move |value| {
        let text = quantity(value, EXPECTED, amount_hint)?;
        if text.trim_end().ends_with('%') {
            return share(shares.clone())(value).map(Amount::Share);
        }
        let size = Bytes::parse(text).map_err(|_| unread(value, EXPECTED, amount_hint))?;
        within(size, &(Bytes::ZERO..=most), |size| spell_size(*size)).map(Amount::Bytes)
    }
}

/// A whole number in this range.
pub(super) fn count(range: RangeInclusive<u32>) -> impl Fn(&Value) -> Result<u32, Wrong> {
    move |value| match &value.data {
        Data::Whole(number) => {
            let range = i64::from(*range.start())..=i64::from(*range.end());
            let number = within(*number, &range, i64::to_string)?;
            Ok(u32::try_from(number).expect("the range is one of u32"))
        }
        Data::Text(text) => {
            let plain = text.trim().parse::<u32>().ok();
            let hint = plain.map(|number| format!("write it without quotes: {number}"));
            Err(unexpected(value, "a whole number").hint(hint))
        }
        Data::Number(_) | Data::Flag(_) | Data::Date | Data::List(_) | Data::Table(_) | Data::Broken => {
            Err(unexpected(value, "a whole number"))
        }
    }
}

/// `true` or `false`.
pub(super) fn flag(value: &Value) -> Result<bool, Wrong> {
    if let Data::Flag(flag) = value.data {
        return Ok(flag);
    }
    Err(unexpected(value, "true or false"))
}

/// One of these words.
pub(super) fn word<T: Copy>(words: &[(&str, T)]) -> impl Fn(&Value) -> Result<T, Wrong> {
    move |value| {
        let expected = words.iter().map(|(word, _)| quote(word)).collect::<Vec<_>>().join(" or ");
        let Data::Text(text) = &value.data else { return Err(unexpected(value, &expected)) };
        if let Some((_, meant)) = words.iter().find(|(word, _)| word == text) {
            return Ok(*meant);
        }
        let hint = nearest(text, words.iter().map(|(word, _)| *word));
        Err(unexpected(value, &expected).hint(hint.map(|near| format!("did you mean \"{near}\"?"))))
    }
}

/// A text that keeps a rule; `expected` says what it is to be.
pub(super) fn text(expected: &str, rule: impl Fn(&str) -> bool) -> impl Fn(&Value) -> Result<String, Wrong> {
    move |value| match &value.data {
        Data::Text(text) if rule(text) => Ok(text.clone()),
        Data::Text(_)
        | Data::Whole(_)
        | Data::Number(_)
        | Data::Flag(_)
        | Data::Date
        | Data::List(_)
        | Data::Table(_)
        | Data::Broken => Err(unexpected(value, expected)),
    }
}

/// A command: a list of at least one text, the first of which is the program. `expected` says so.
pub(super) fn command(expected: &str) -> impl Fn(&Value) -> Result<Vec<String>, Wrong> {
    move |value| {
        let Data::List(items) = &value.data else { return Err(unexpected(value, expected)) };
        if items.is_empty() {
            return Err(Wrong::new(format!("expected {expected}, found an empty list")));
        }
        let item = |item: &Value| match &item.data {
            Data::Text(text) if !has_nul(text) => Ok(text.clone()),
            Data::Text(_)
            | Data::Whole(_)
            | Data::Number(_)
            | Data::Flag(_)
            | Data::Date
            | Data::List(_)
            | Data::Table(_)
            | Data::Broken => {
                let found = item.found();
                Err(Wrong::new(format!("expected {expected}, found {found} in it")).at(&item.place))
            }
        };
        items.iter().map(item).collect()
    }
}

/// Whether a text has a NUL in it, which neither a command nor the environment can carry.
pub(super) fn has_nul(text: &str) -> bool {
    text.contains('\0')
}

/// A size exactly, as a profile spells it: `1GiB`, `1025MiB`.
pub(in crate::profile) fn spell_size(size: Bytes) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let bytes = size.get();
    let fits = UNITS.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// A time exactly, as a profile spells it.
pub(in crate::profile) fn spell_time(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

/// What `value` is instead of what was expected.
pub(super) fn unexpected(value: &Value, expected: &str) -> Wrong {
    Wrong::new(format!("expected {expected}, found {}", value.found()))
}

/// The text of a quantity; anything else is a mistake, a number with a hint.
fn quantity<'v>(
    value: &'v Value,
    expected: &str,
    hint: fn(&str) -> Option<String>,
) -> Result<&'v str, Wrong> {
    let number = match &value.data {
        Data::Text(text) => return Ok(text),
        Data::Whole(number) => number.to_string(),
        Data::Number(number) => number.clone(),
        Data::Flag(_) | Data::Date | Data::List(_) | Data::Table(_) | Data::Broken => {
            return Err(unexpected(value, expected));
        }
    };
    let hint = hint(&number).map(|text| format!("write it as text: {text:?}"));
    Err(unexpected(value, expected).hint(hint))
}

/// A text that is no such quantity, with a hint where only the unit is missing.
fn unread(value: &Value, expected: &str, hint: fn(&str) -> Option<String>) -> Wrong {
    let text = if let Data::Text(text) = &value.data { text.trim() } else { "" };
    unexpected(value, expected).hint(hint(text).map(|text| format!("add the unit: {text:?}")))
}

/// The value, if it is in the range.
fn within<T: PartialOrd>(
    value: T,
    range: &RangeInclusive<T>,
    show: impl Fn(&T) -> String,
) -> Result<T, Wrong> {
    let (edge, limit) = match () {
        () if value < *range.start() => ("at least", range.start()),
        () if value > *range.end() => ("at most", range.end()),
        () => return Ok(value),
    };
    Err(Wrong::new(format!("expected {edge} {}, found {}", show(limit), show(&value))))
}

fn no_hint(_: &str) -> Option<String> {
    None
}

/// A bare number of a size was mebibytes, or bytes where it is too large for that.
fn size_hint(number: &str) -> Option<String> {
    let number: u64 = number.parse().ok()?;
    Some(if number < 1 << 20 { format!("{number}MiB") } else { spell_size(Bytes::new(number)) })
}

/// A bare number up to a hundred was per cent, a larger one a size.
fn amount_hint(number: &str) -> Option<String> {
    let share = number.parse::<u64>().is_ok_and(|number| number <= 100);
    if share { share_hint(number) } else { size_hint(number) }
}

/// A bare number of a time was seconds, as nearly everywhere.
fn time_hint(number: &str) -> Option<String> {
    number.parse::<u64>().ok().map(|number| format!("{number}s"))
}

/// Cores have no unit; only the quotes were missing.
fn cores_hint(number: &str) -> Option<String> {
    MilliCpu::parse(number).ok().map(|_| number.into())
}

/// A bare number of a rate was in a minute, as most services write it.
fn rate_hint(number: &str) -> Option<String> {
    let text = format!("{number}/min");
    Rate::parse(&text).ok().map(|_| text)
}

/// A bare number of a share was per cent.
fn share_hint(number: &str) -> Option<String> {
    let text = format!("{number}%");
    Permille::parse(&text).ok().map(|_| text)
}
