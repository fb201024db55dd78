//! Taking a table apart key by key: each key is read as some shape, or a mistake is noted.
//!
//! A [`Fields`] remembers which keys it was asked for, so what is left over at the end is unknown. A
//! value that was wrong is replaced and marked unsound, so that checking goes on without a second
//! complaint about the same thing.
//!
//! Invariant: whoever gets a stand-in instead of the file's value, a mistake has been noted. Not here:
//! which keys there are (`mod`, `pool`) and what they look like (`shape`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::profile::effective::spell_key;
use crate::profile::mistake::{MOST, Mistake, Mistakes, Place, Wrong};
use crate::profile::tree::{Data, Entry, Table, Tree, Value};

/// The mistakes found so far.
pub(super) struct Notes {
    mistakes: RefCell<Vec<Mistake>>,
    damaged: Vec<Place>,
}

impl Notes {
    /// Takes the syntax errors of a tree as the first mistakes.
    pub(super) fn new(tree: &mut Tree) -> Notes {
        let mistakes = RefCell::new(std::mem::take(&mut tree.mistakes));
        Notes { mistakes, damaged: tree.damaged.clone() }
    }

    /// Whether something of this text may be lost from here on.
    fn is_damaged_at(&self, place: &Place) -> bool {
        let same = |from: &&Place| Arc::ptr_eq(from.source(), place.source());
        self.damaged.iter().find(same).is_some_and(|from| from.start() <= place.start())
    }

    /// All mistakes, or `None`.
    pub(super) fn into_mistakes(self) -> Option<Mistakes> {
        Mistakes::from(self.mistakes.into_inner())
    }

    fn add(&self, place: &Place, key: &str, wrong: Wrong) {
        let mut mistakes = self.mistakes.borrow_mut();
        if mistakes.len() < MOST {
            mistakes.push(Mistake::new(place, key, wrong));
        }
    }
}

/// One table of the profile while its keys are being read.
pub(super) struct Fields<'a> {
    table: &'a Table,
    place: Place,
    path: String,
    known: Vec<&'static str>,
    /// Whether what is required may be missing.
    partial: bool,
    notes: &'a Notes,
}

/// A key as it was found.
pub(super) enum Found<T> {
    /// Not written; the place is that of its table.
    Absent(Place),
    /// Written and wrong, which has been noted.
    Wrong(Place),
    /// Written and right.
    Good(T, Place),
}

/// A value that rules can go on with.
pub(super) struct Given<T> {
    /// The value, be it from the file or a stand-in.
    pub(super) value: T,
    /// Where it is written; where it is not, the place of its table.
    pub(super) place: Place,
    /// It is what the profile says, not a stand-in for something wrong.
    pub(super) sound: bool,
}

impl<T> Found<T> {
    /// The value, or this one where none is written.
    pub(super) fn or(self, default: T) -> Given<T> {
        match self {
            Found::Absent(place) => Given { value: default, place, sound: true },
            Found::Wrong(place) => Given { value: default, place, sound: false },
            Found::Good(value, place) => Given { value, place, sound: true },
        }
    }

    /// The value that is written, if one is and it is right.
    pub(super) fn written(&self) -> Option<&T> {
        match self {
            Found::Absent(_) | Found::Wrong(_) => None,
            Found::Good(value, _) => Some(value),
        }
    }

    /// The same with the value in another form.
    pub(super) fn map<U>(self, into: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Found::Absent(place) => Found::Absent(place),
            Found::Wrong(place) => Found::Wrong(place),
            Found::Good(value, place) => Found::Good(into(value), place),
        }
    }
}

impl<'a> Fields<'a> {
    /// The outermost table.
    pub(super) fn root(tree: &'a Tree, notes: &'a Notes) -> Fields<'a> {
        Fields {
            table: &tree.root,
            place: tree.place.clone(),
            path: String::new(),
            known: Vec::new(),
            partial: false,
            notes,
        }
    }

    /// Reads a key as this shape.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        shape: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Found<T> {
        let Some(entry) = self.entry(key) else { return Found::Absent(self.place.clone()) };
        let place = entry.value.place.clone();
        match self.accept(key, entry, shape) {
            Some(value) => Found::Good(value, place),
            None => Found::Wrong(place),
        }
    }

    /// From here on keys that have no default may be missing all the same.
    pub(super) fn may_be_partial(&mut self) {
        self.partial = true;
    }

    /// Reads a key that has no default; `example` is a line that would do.
    pub(super) fn require<T>(
        &mut self,
        key: &'static str,
        example: &str,
        shape: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Option<T> {
        match self.read(key, shape) {
            Found::Absent(_) if self.partial => None,
            Found::Absent(_) => {
                let missing = Wrong::new("this key is required and missing");
                self.clash(&self.place, key, missing.hint(format!("add a line such as: {example}")));
                None
            }
            Found::Wrong(_) => None,
            Found::Good(value, _) => Some(value),
        }
    }

    /// The table at a key; `example` is how it may be written.
    pub(super) fn section(&mut self, key: &'static str, example: &str) -> Option<Fields<'a>> {
        let entry = self.entry(key)?;
        self.open(key, entry, example)
    }

    /// The tables in this one, with their names. All names are known here.
    pub(super) fn sections(&self, example: &str) -> Vec<(&'a str, Fields<'a>)> {
        let open =
            |(name, entry): (&'a String, &'a Entry)| Some((name.as_str(), self.open(name, entry, example)?));
        self.table.0.iter().filter_map(open).collect()
    }

    /// Every entry of this table, whatever its key is, read as one shape. Wrong ones are noted and left out.
    pub(super) fn entries<T>(
        &self,
        name_rule: impl Fn(&str) -> Result<(), Wrong>,
        shape: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> BTreeMap<String, T> {
        let mut entries = BTreeMap::new();
        for (name, entry) in &self.table.0 {
            let named = self.name_is_right(name, &name_rule);
            if let Some(value) = self.accept(name, entry, &shape)
                && named
            {
                entries.insert(name.clone(), value);
            }
        }
        entries
    }

    /// Whether the name of an entry keeps this rule; notes it where not.
    pub(super) fn name_is_right(&self, name: &str, rule: impl Fn(&str) -> Result<(), Wrong>) -> bool {
        let place = self.table.0.get(name).map_or(&self.place, |entry| &entry.key);
        rule(name).map_err(|wrong| self.notes.add(place, &self.path_of(name), wrong)).is_ok()
    }

    /// Whether a key is written, right or wrong.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.0.contains_key(key)
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.table.0.len()
    }

    /// Where this table stands.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Notes that something is wrong with this table itself.
    pub(super) fn note(&self, wrong: Wrong) {
        self.notes.add(&self.place, &self.path, wrong);
    }

    /// Notes that a value is right by itself and wrong beside others. Says nothing where a layer is
    /// damaged: the others may be among what is lost.
    pub(super) fn clash(&self, place: &Place, key: &str, wrong: Wrong) {
        if self.notes.damaged.is_empty() {
            self.notes.add(place, &self.path_of(key), wrong);
        }
    }

    /// Notes the keys that nobody asked for.
    pub(super) fn finish(self) {
        for (name, entry) in &self.table.0 {
            // Behind a syntax error a key may have slipped into the wrong table.
            if !self.notes.is_damaged_at(&entry.key) && !self.known.contains(&name.as_str()) {
                let hint = match nearest(name, self.known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the keys known here are {}", self.known.join(", ")),
                };
                let wrong = Wrong::new("there is no such key").hint(hint);
                self.notes.add(&entry.key, &self.path_of(name), wrong);
            }
        }
    }

    fn entry(&mut self, key: &'static str) -> Option<&'a Entry> {
        self.known.push(key);
        self.table.0.get(key)
    }

    fn accept<T>(&self, key: &str, entry: &Entry, shape: impl Fn(&Value) -> Result<T, Wrong>) -> Option<T> {
        let accept = |value: &Value| {
            if matches!(value.data, Data::Broken) {
                return None;
            }
            shape(value).map_err(|wrong| self.notes.add(&value.place, &self.path_of(key), wrong)).ok()
        };
        for value in &entry.replaced {
            accept(value);
        }
        accept(&entry.value)
    }

    fn open(&self, key: &str, entry: &'a Entry, example: &str) -> Option<Fields<'a>> {
        for value in entry.replaced.iter().filter(|value| !matches!(value.data, Data::Table(_))) {
            self.is_no_table(key, value, example);
        }
        let place = entry.value.place.clone();
        match &entry.value.data {
            Data::Table(table) => {
                let path = self.path_of(key);
                Some(Fields { table, place, path, known: Vec::new(), partial: false, notes: self.notes })
            }
            Data::Broken => None,
            Data::Text(_) | Data::Whole(_) | Data::Number(_) | Data::Flag(_) | Data::Date | Data::List(_) => {
                self.is_no_table(key, &entry.value, example);
                None
            }
        }
    }

    fn is_no_table(&self, key: &str, value: &Value, example: &str) {
        if !matches!(value.data, Data::Broken) {
            let wrong = Wrong::new(format!("expected a table, such as {example}, found {}", value.found()));
            self.notes.add(&value.place, &self.path_of(key), wrong);
        }
    }

    fn path_of(&self, key: &str) -> String {
        let key = spell_key(key);
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }
}

/// The one of `known` that somebody who wrote `word` most likely meant.
pub(super) fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // One slip in three characters; with more, the guess would be as likely wrong as right.
    let within = (word.chars().count() / 3).max(1);
    known
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= within)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
