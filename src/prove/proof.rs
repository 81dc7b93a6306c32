//! What a proof is, and when it holds.

use nix::errno::Errno;
use serde::Serialize;

use super::facts::Facts;

/// One attempt at something that the jail must deny. The same function is called
/// outside, as the control, and inside, as the claim.
pub(super) struct Proof {
    /// What it is a part of (README, "What stops what").
    pub promise: &'static str,
    /// Its name: stable, in kebab case.
    pub probe: &'static str,
    /// What surrounds the control.
    pub outside: Outside,
    /// Whether it concerns a jail of root's alone.
    pub of_root_alone: bool,
    /// Whether it concerns a jail of a normal user's alone.
    pub of_users_alone: bool,
    /// What the claim must be answered: any of these.
    pub must: &'static [&'static str],
    /// Tries it. Both sides have the same facts.
    pub attempt: fn(&Facts) -> Outcome,
}

/// What surrounds a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// Nothing: as whoever started `groom-ns prove`.
    Plain,
    /// New user, mount, UTS, IPC and network namespaces, with every capability in
    /// them: what a jail is before anything is taken away, also for a normal user.
    OwnNamespaces,
}

/// Success of the attempt, or what kept it from succeeding.
pub(super) type Outcome = Result<(), Denial>;

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// The kernel's answer.
    Errno(Errno),
    /// What was found in place of what was looked for.
    Says(String),
}

impl Denial {
    /// [`Denial::Says`].
    pub(super) fn says(word: impl Into<String>) -> Denial {
        Denial::Says(word.into())
    }
}

impl From<Errno> for Denial {
    fn from(errno: Errno) -> Denial {
        Denial::Errno(errno)
    }
}

impl From<std::io::Error> for Denial {
    fn from(error: std::io::Error) -> Denial {
        match error.raw_os_error() {
            Some(number) => Denial::Errno(Errno::from_raw(number)),
            None => Denial::says(error.kind().to_string()),
        }
    }
}

/// An outcome in a word: `ok`, or the errno's name, or what was found.
pub(super) fn shown(outcome: &Outcome) -> String {
    match outcome {
        Ok(()) => SUCCESS.to_owned(),
        Err(Denial::Errno(errno)) => format!("{errno:?}"),
        Err(Denial::Says(word)) => word.clone(),
    }
}

/// How an attempt that succeeded shows.
pub(super) const SUCCESS: &str = "ok";

/// What became of a proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// As in [`Proof`].
    pub promise: &'static str,
    /// As in [`Proof`].
    pub probe: &'static str,
    /// The answer outside.
    pub control: String,
    /// The answer inside.
    pub claim: String,
    /// What it must be: any of these.
    pub must: &'static [&'static str],
    /// What follows.
    pub verdict: Verdict,
}

impl Finding {
    /// Judges the two answers.
    pub(super) fn of(
        promise: &'static str,
        probe: &'static str,
        control: String,
        claim: String,
        must: &'static [&'static str],
    ) -> Finding {
        Finding {
            promise,
            probe,
            verdict: judge(&control, &claim, must),
            control,
            claim,
            must,
        }
    }
}

/// What the two answers show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// It succeeds outside, and is denied inside as it must be.
    Proven,
    /// It is denied inside, but doesn't succeed outside either: nothing is shown.
    Vacuous,
    /// It isn't denied inside, or not by what must deny it.
    Failed,
}

/// What an attempt says of something that can't be seen on this machine, by whoever is
/// to try it: nothing is shown.
pub(super) const OUT_OF_SIGHT: &str = "can't look";

fn judge(control: &str, claim: &str, must: &[&str]) -> Verdict {
    if claim == OUT_OF_SIGHT {
        Verdict::Vacuous
    } else if !must.contains(&claim) {
        Verdict::Failed
    } else if control == SUCCESS {
        Verdict::Proven
    } else {
        Verdict::Vacuous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_needs_both_answers() {
        for (control, claim, verdict) in [
            ("ok", "EROFS", Verdict::Proven),
            ("ok", "EACCES", Verdict::Failed),
            ("ok", "ok", Verdict::Failed),
            ("EACCES", "EROFS", Verdict::Vacuous),
            ("EROFS", "EROFS", Verdict::Vacuous),
            ("EACCES", "ok", Verdict::Failed),
            ("", "EROFS", Verdict::Vacuous),
            ("ok", "", Verdict::Failed),
            ("ok", OUT_OF_SIGHT, Verdict::Vacuous),
        ] {
            assert_eq!(
                judge(control, claim, &["EROFS"]),
                verdict,
                "{control} {claim}"
            );
        }
    }
}
