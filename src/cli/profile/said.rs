//! Which lines of a profile a refusal is about: a value is judged long after it was read,
//! by its flag's own judge.

use clap::{ArgAction, ArgMatches};

use super::{COMMAND, Profile, is_typed};
use crate::cli::Run;
use crate::refusal::{Refusal, shown};

/// A key of a profile that has a part in the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its flag as it is typed, or `command`.
    pub flag: String,
    /// The key's line in the file, from 1.
    pub line: usize,
    /// Whether the flag was typed, too, and adds to what the profile says.
    pub typed_too: bool,
}

impl Profile<'_> {
    /// Each key, but for those that a typed flag replaces.
    pub(super) fn says(&self, typed: &ArgMatches) -> Vec<Said> {
        let all = self.flags.iter().map(|flag| {
            let long = flag.arg.get_long();
            let adds = long.is_some() && matches!(flag.arg.get_action(), ArgAction::Append);
            let is_typed = is_typed(typed, &flag.arg);
            (adds || !is_typed).then(|| Said {
                flag: long.map_or(COMMAND.to_owned(), |long| format!("--{long}")),
                line: flag.line,
                typed_too: is_typed,
            })
        });
        all.flatten().collect()
    }
}

impl Run {
    /// A refusal of this run; where its step names flags whose values came from a profile,
    /// with the lines there.
    #[must_use]
    pub fn refused(&self, mut refusal: Refusal) -> Refusal {
        let Some(file) = &self.found_profile else {
            return refusal;
        };
        let said = file.says.iter().filter(|said| said.is_meant(&refusal));
        let places: Vec<String> = said
            .map(|said| {
                let or = if said.typed_too { ", or as typed" } else { "" };
                format!("{}:{}{or}", shown(&file.path), said.line)
            })
            .collect();
        if !places.is_empty() {
            let places = places.join(", ");
            refusal.subject = if refusal.subject.is_empty() {
                places
            } else {
                format!("{} ({places})", refusal.subject)
            };
        }
        refusal
    }
}

impl Said {
    fn is_meant(&self, refusal: &Refusal) -> bool {
        let is_key = self.flag.starts_with("--key-") && refusal.step.ends_with(" the key");
        is_key || refusal.step.split(' ').any(|word| word == self.flag)
    }
}
