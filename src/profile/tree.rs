//! A profile's text as a tree in which every value knows where it stands, and several such trees as one.
//!
//! The parser goes on after a syntax error. What it makes of the damaged part is a guess, so a value that
//! touches a syntax error is `Broken`, about which nobody says more; and the [`Tree`] knows from where
//! on keys may be missing or in the wrong table, so that `check` does not report what is only a consequence.
//!
//! Not here: what keys mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::profile::mistake::{MOST, Mistake, Place, Source, Wrong};

/// One layer's text, or several layers' as one, parsed as far as possible.
#[derive(Debug)]
pub(super) struct Tree {
    /// The outermost table.
    pub(super) root: Table,
    /// The beginning of the last layer, where what concerns the whole profile is reported.
    pub(super) place: Place,
    /// Syntax errors.
    pub(super) mistakes: Vec<Mistake>,
    /// For each text that is not all TOML, the place from which on the tree may lack keys of it.
    pub(super) damaged: Vec<Place>,
}

/// The entries of a table, by key.
#[derive(Debug, Default)]
pub(super) struct Table(pub(super) BTreeMap<String, Entry>);

/// A key with its value.
#[derive(Debug)]
pub(super) struct Entry {
    /// Where the key stands.
    pub(super) key: Place,
    /// The value.
    pub(super) value: Value,
    /// What earlier layers wrote here and this one replaces: it does not hold, but must be right as well.
    pub(super) replaced: Vec<Value>,
}

/// A value and where it stands; for a table with a header, the header.
#[derive(Debug)]
pub(super) struct Value {
    /// Where.
    pub(super) place: Place,
    /// What.
    pub(super) data: Data,
}

/// What was written.
#[derive(Debug)]
pub(super) enum Data {
    /// A string.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number that is not whole, or too large, as it was written.
    Number(String),
    /// `true` or `false`.
    Flag(bool),
    /// A date or a time of day.
    Date,
    /// A list.
    List(Vec<Value>),
    /// A table.
    Table(Table),
    /// Something with a syntax error in it, which is reported already.
    Broken,
}

/// Longest text quoted in a message; the line itself is shown below it anyway.
const LONGEST_QUOTE: usize = 60;

impl Tree {
    /// Parses a text.
    pub(super) fn parse(source: &Arc<Source>) -> Tree {
        let (root, errors) = DeTable::parse_recoverable(&source.text);
        let errors: Vec<Syntax> = errors.iter().take(MOST).map(|error| Syntax::new(source, error)).collect();
        let broken: Vec<&Place> = errors.iter().filter(|e| !e.repeated).map(|e| &e.place).collect();
        Tree {
            root: table(source, root.into_inner(), &broken),
            place: Place::new(source, 0..0),
            damaged: broken
                .iter()
                .min_by_key(|place| place.start())
                .map(|place| (*place).clone())
                .into_iter()
                .collect(),
            mistakes: errors.into_iter().map(Syntax::into_mistake).collect(),
        }
    }
}

impl Tree {
    /// Lays a later layer over this one: tables are joined key by key, anything else is replaced.
    pub(super) fn overlay(&mut self, later: Tree) {
        self.root.overlay(later.root);
        self.place = later.place;
        self.mistakes.extend(later.mistakes);
        self.damaged.extend(later.damaged);
    }
}

impl Table {
    fn overlay(&mut self, later: Table) {
        for (key, mut entry) in later.0 {
            if let Some(mut below) = self.0.remove(&key) {
                entry.replaced = below.replaced;
                match (&mut below.value.data, &mut entry.value.data) {
                    (Data::Table(table), Data::Table(above)) => {
                        table.overlay(std::mem::take(above));
                        *above = std::mem::take(table);
                    }
                    (_, _) => entry.replaced.push(below.value),
                }
            }
            self.0.insert(key, entry);
        }
    }
}

impl Value {
    /// The value as a message names it: `the number 512`, `the text "512"`.
    pub(super) fn found(&self) -> String {
        match &self.data {
            Data::Text(text) => format!("the text {}", quote(text)),
            Data::Whole(number) => format!("the number {number}"),
            Data::Number(number) => format!("the number {number}"),
            Data::Flag(flag) => flag.to_string(),
            Data::Date => "a date".into(),
            Data::List(_) => "a list".into(),
            Data::Table(_) => "a table".into(),
            Data::Broken => "something that is not TOML".into(),
        }
    }
}

/// A text in quotes, cut where it is long.
pub(super) fn quote(text: &str) -> String {
    match text.char_indices().nth(LONGEST_QUOTE) {
        Some((cut, _)) => format!("{:?}…", &text[..cut]),
        None => format!("{text:?}"),
    }
}

/// A syntax error with its place.
struct Syntax {
    place: Place,
    message: String,
    /// The key was there before. The tree is sound then: the first one counts.
    repeated: bool,
}

impl Syntax {
    fn new(source: &Arc<Source>, error: &toml::de::Error) -> Syntax {
        Syntax {
            place: Place::new(source, error.span().unwrap_or(0..0)),
            message: error.message().into(),
            repeated: error.message() == "duplicate key",
        }
    }

    fn into_mistake(self) -> Mistake {
        let Syntax { place, message, repeated } = self;
        if repeated {
            let problem = format!("`{}` is written twice in this table", place.text());
            return Mistake::new(&place, "", Wrong::new(problem).hint("remove one of the two".to_owned()));
        }
        if !message.starts_with("string values must be quoted") {
            return Mistake::new(&place, "", Wrong::new(message));
        }
        // The parser takes whatever it does not know for a text without quotes, even nothing.
        let wrong = match place.text().trim() {
            "" => Wrong::new("expected a value, found none"),
            bare => Wrong::new(format!("expected a value, found the bare word `{bare}`"))
                .hint(format!("write it as text: {}", quote(bare))),
        };
        Mistake::new(&place, "", wrong)
    }
}

fn table(source: &Arc<Source>, entries: DeTable<'_>, broken: &[&Place]) -> Table {
    let entry = |(key, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
        let (place, value) = (Place::new(source, key.span()), self::value(source, value, broken));
        let entry = Entry { key: place, value, replaced: Vec::new() };
        (std::borrow::Cow::into_owned(key.into_inner()), entry)
    };
    Table(entries.into_iter().map(entry).collect())
}

fn value(source: &Arc<Source>, spanned: Spanned<DeValue<'_>>, broken: &[&Place]) -> Value {
    let span = spanned.span();
    let place = Place::new(source, span.clone());
    // The parser gives a value it could not read at all an empty place at the beginning.
    let is_broken = span.is_empty() || broken.iter().any(|mistake| mistake.touches(&place));
    let data = match spanned.into_inner() {
        DeValue::Table(entries) => Data::Table(table(source, entries, broken)),
        _ if is_broken => Data::Broken,
        DeValue::String(text) => Data::Text(text.into_owned()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Data::Whole(number),
            Err(_) => Data::Number(number.to_string()),
        },
        DeValue::Float(number) => Data::Number(number.to_string()),
        DeValue::Boolean(flag) => Data::Flag(flag),
        DeValue::Datetime(_) => Data::Date,
        DeValue::Array(values) => {
            Data::List(values.into_iter().map(|item| value(source, item, broken)).collect())
        }
    };
    Value { place, data }
}
