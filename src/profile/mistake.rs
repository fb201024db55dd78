//! What is wrong with a profile, and where: told like a compiler tells it.
//!
//! A [`Place`] is a stretch of one file's text; a [`Wrong`] is what a rule has to say about it; a
//! [`Mistake`] is both, made readable, and no longer needs the text.
//!
//! Invariant: a mistake's line exists in the file it names. Not here: any rule about profiles (`check`).

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// One thing wrong with a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mistake {
    /// The file, as its reader named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The dotted path of the key, such as `pool.chromium.memory_max`; empty where it concerns no key.
    pub key: String,
    /// What was expected and what was found.
    pub problem: String,
    /// How to put it right, where that can be guessed.
    pub hint: Option<String>,
    /// The line itself; `None` where it is too long to be worth showing.
    excerpt: Option<Excerpt>,
    /// The how-manieth layer the file is.
    layer: usize,
}

/// The line a mistake is in, and how many of its characters are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Excerpt {
    line: String,
    width: usize,
}

/// Everything that is wrong with a profile: at least one mistake, in the order of the layers and their lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

/// Why no profile could be read from a path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reported {
    /// There is none where a host's profile is looked for.
    #[error("there is no host profile: none of {} is there", looked.join(", "))]
    Missing {
        /// Where was looked.
        looked: Vec<String>,
    },
    /// The file could not be read at all.
    #[error("cannot read the profile `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file was read and is no valid profile. The text is the whole report.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
}

/// How many mistakes a report holds at most. Nobody reads more in one go, and a file that is not a
/// profile at all would otherwise yield one for every few bytes.
pub(super) const MOST: usize = 1000;

/// A line longer than this is not shown: it would push the message itself off the screen.
const LONGEST_EXCERPT: usize = 200;

impl Mistake {
    /// This is wrong with this key at these bytes of another file that is told of as a profile is.
    pub fn at(file: &str, text: &str, bytes: Range<usize>, (key, problem): (&str, &str)) -> Mistake {
        let source = Arc::new(Source { file: file.into(), text: text.into(), layer: 0 });
        Mistake::new(&Place::new(&source, bytes), key, Wrong::new(problem))
    }

    /// This is wrong at this place (or at the part of it that `wrong` points to).
    pub(super) fn new(place: &Place, key: &str, wrong: Wrong) -> Mistake {
        let place = wrong.at.as_ref().unwrap_or(place);
        let text = place.source.text.as_str();
        let from = text[..place.start].rfind('\n').map_or(0, |newline| newline + 1);
        let to = text[place.start..].find('\n').map_or(text.len(), |newline| place.start + newline);
        let line = text[from..to].trim_end_matches('\r');
        let meant = &text[place.start..place.end.min(from + line.len()).max(place.start)];
        let secret = may_be_secret(text, from, line, key);
        let excerpt = (line.chars().count() <= LONGEST_EXCERPT && !secret)
            .then(|| Excerpt { line: line.into(), width: meant.chars().count().max(1) });
        // What was found there may be the secret itself.
        let said = wrong.problem.find(", found ").filter(|_| secret);
        let problem = said.map_or(wrong.problem.as_str(), |at| &wrong.problem[..at]).to_owned();
        Mistake {
            file: place.source.file.clone(),
            line: place.line(),
            column: text[from..place.start].chars().count() + 1,
            key: key.into(),
            problem,
            // A hint may repeat it.
            hint: wrong.hint.filter(|_| !secret),
            excerpt,
            layer: place.source.layer,
        }
    }
}

/// Whether a line is or holds environment of containers: passwords live there, and a report may end in the journal.
/// A line that reads as nothing counts by the table that it stands in. Behind an `env` that does not end on its own line
/// all of that table does: where it ends may be just what is wrong.
fn may_be_secret(text: &str, from: usize, line: &str, key: &str) -> bool {
    let is_env = |word: &str| word.trim_matches(['"', '\'', ' ']) == "env";
    let header = |line: &&str| line.trim_start().starts_with('[');
    let before = || text[..from].lines().rev();
    let table = before().find(header).unwrap_or_default();
    let words = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').any(is_env);
    let open = |line: &str| words(line) && !ends_on_its_line(line);
    let in_open = before().take_while(|line| !header(line)).any(open);
    key.split('.').any(is_env) || words(line) || (table.contains("env") && words(table)) || in_open
}

/// Whether what a line begins ends there, as far as can be told by counting.
fn ends_on_its_line(line: &str) -> bool {
    let many = |what: &str| line.matches(what).count();
    let closed = many("{") == many("}") && many("[") == many("]");
    closed && many("\"\"\"") % 2 == 0 && many("'''") % 2 == 0
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)?;
        if let Some(Excerpt { line, width }) = &self.excerpt {
            let number = self.line.to_string();
            // Tabs stay tabs above and below, so that the terminal moves both lines by the same amount.
            let visible = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
            let shown: String = line.chars().map(visible).collect();
            let indent: String =
                line.chars().take(self.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            write!(f, "\n  {number} | {shown}")?;
            write!(f, "\n  {:1$} | {indent}{2}", "", number.len(), "^".repeat(*width))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl Mistakes {
    /// These mistakes in the order of the layers and their lines, or `None` where there are none.
    pub fn from(mut mistakes: Vec<Mistake>) -> Option<Mistakes> {
        mistakes
            .sort_by(|a, b| (a.layer, a.line, a.column, &a.key).cmp(&(b.layer, b.line, b.column, &b.key)));
        mistakes.dedup();
        mistakes.truncate(MOST);
        (!mistakes.is_empty()).then_some(Mistakes(mistakes))
    }

    /// The mistakes in the order of the layers and their lines; never empty.
    pub fn as_slice(&self) -> &[Mistake] {
        &self.0
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.0.iter().enumerate() {
            let gap = if i == 0 { "" } else { "\n\n" };
            write!(f, "{gap}{mistake}")?;
        }
        if self.0.len() == MOST {
            write!(f, "\n\nonly the first {MOST} mistakes are listed")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// One file's text, under the name its reader gave it.
#[derive(Debug)]
pub(super) struct Source {
    /// The name.
    pub(super) file: String,
    /// The text.
    pub(super) text: String,
    /// The how-manieth layer it is.
    pub(super) layer: usize,
}

/// A stretch of one file's text.
#[derive(Debug, Clone)]
pub(super) struct Place {
    source: Arc<Source>,
    start: usize,
    end: usize,
}

impl Place {
    /// These bytes of the text, moved onto whole characters of an existing line.
    pub(super) fn new(source: &Arc<Source>, bytes: Range<usize>) -> Place {
        let text = &source.text;
        // The end of a text that ends in a newline is shown as the end of its last line.
        let last = text.len() - usize::from(text.ends_with('\n'));
        let start = text.floor_char_boundary(bytes.start.min(last));
        let end = text.ceil_char_boundary(bytes.end.clamp(start, text.len()));
        Place { source: Arc::clone(source), start, end }
    }

    /// The text it is a stretch of.
    pub(super) fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// The line it begins in, from 1.
    pub(super) fn line(&self) -> usize {
        self.source.text[..self.start].matches('\n').count() + 1
    }

    /// Where in the text it begins.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// The text itself.
    pub(super) fn text(&self) -> &str {
        &self.source.text[self.start..self.end]
    }

    /// Whether both have a byte in common, or one is an empty place within or at an edge of the other.
    pub(super) fn touches(&self, other: &Place) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// What a rule has to say about a value.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The part of the value that is meant, where it is not the whole.
    at: Option<Place>,
    problem: String,
    hint: Option<String>,
}

impl Wrong {
    /// This is the problem.
    pub(super) fn new(problem: impl Into<String>) -> Wrong {
        Wrong { at: None, problem: problem.into(), hint: None }
    }

    /// The same, with a way to put it right.
    pub(super) fn hint(mut self, hint: impl Into<Option<String>>) -> Wrong {
        self.hint = hint.into();
        self
    }

    /// The same, about this part of the value only.
    pub(super) fn at(mut self, place: &Place) -> Wrong {
        self.at = Some(place.clone());
        self
    }
}
