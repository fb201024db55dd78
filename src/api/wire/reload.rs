//! What a reload answers: what has changed, or what is wrong.

use serde::{Deserialize, Serialize};

use crate::profile::{Change, Mistake};

/// The answer to a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// What is different, by key; empty where nothing is.
    pub changes: Vec<ChangeBody>,
}

/// A difference between the profile before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeBody {
    /// The dotted path of the key, or of a class or pool that is new or gone.
    pub key: String,
    /// What it was, as TOML; null where there was nothing.
    pub from: Option<String>,
    /// What it is; null where there is nothing.
    pub to: Option<String>,
}

/// A mistake in a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MistakeBody {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The dotted path of the key; empty where it concerns none.
    pub key: String,
    /// What was expected and what was found.
    pub problem: String,
    /// How to put it right, where that can be guessed.
    pub hint: Option<String>,
}

impl From<Change> for ChangeBody {
    fn from(change: Change) -> ChangeBody {
        ChangeBody { key: change.key, from: change.from, to: change.to }
    }
}

impl From<&Mistake> for MistakeBody {
    fn from(mistake: &Mistake) -> MistakeBody {
        let Mistake { file, line, column, key, problem, hint, .. } = mistake.clone();
        MistakeBody { file, line, column, key, problem, hint }
    }
}
