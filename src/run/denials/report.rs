//! What was denied, to whom, and why: for the last lines of a run, and for whoever wants
//! it as data.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use libc::c_long;
use serde::{Deserialize, Serialize};

use super::call;
use crate::confine::seccomp::{Answer, Call, Rule};
use crate::refusal::shown;
use crate::say;

/// Kinds that are told apart; what is new beyond them is counted alone, so that a
/// program that varies its calls takes no memory.
const MOST_KINDS: usize = 256;
/// Bytes of a path that are kept, from its end.
const LONGEST_PATH: usize = 200;

/// The calls that the filter denied to the command and all that came of it, without
/// those of the self-check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denials {
    /// A kind of call each, in the order in which the first of it came.
    pub calls: Vec<Denied>,
    /// How many calls were of none of these kinds.
    pub others: u64,
}

/// Calls of one kind: the same call with the same arguments that matter, by the same
/// program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denied {
    /// How many.
    pub count: u64,
    /// The call's name, as the manual has it.
    pub syscall: Cow<'static, str>,
    /// The same with the arguments that matter.
    pub call: String,
    /// The errno's name; `0` is success, with nothing done.
    pub errno: Cow<'static, str>,
    /// Who called; none if it was gone before it could be looked at.
    pub program: Option<Program>,
    /// The rule's reason.
    pub why: Cow<'static, str>,
    /// The flag that allows it, if there is one.
    pub remedy: Option<Cow<'static, str>>,
}

/// A program by the names that /proc has for it, escaped for a terminal (proc_pid_exe(5),
/// proc_pid_comm(5)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The executable, as it is called in the jail: an interpreter, where a script runs.
    pub exe: String,
    /// The thread's name, which it may have chosen itself.
    pub comm: String,
}

impl Program {
    /// The program that a thread runs; none if it is gone or can't be seen. The caller
    /// makes sure that the number was still this thread's.
    pub(super) fn of(thread: u32) -> Option<Program> {
        let exe = fs::read_link(format!("/proc/{thread}/exe")).ok()?;
        let comm = fs::read(format!("/proc/{thread}/comm")).ok()?;
        let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
        Some(Program {
            exe: shortened(&exe),
            comm: shown(Path::new(OsStr::from_bytes(comm))),
        })
    }
}

fn shortened(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    match bytes.len().checked_sub(LONGEST_PATH) {
        None | Some(0) => shown(path),
        Some(cut) => {
            let rest = bytes.get(cut..).unwrap_or_default();
            format!("…{}", shown(Path::new(OsStr::from_bytes(rest))))
        }
    }
}

impl Denials {
    /// Counts one call.
    pub(super) fn count(
        &mut self,
        number: c_long,
        args: &[u64; 6],
        decided: Option<(&'static Rule, &'static Call)>,
        program: Option<Program>,
    ) {
        let Some((rule, name)) = decided else {
            self.others = self.others.saturating_add(1);
            say::note(format_args!(
                "no rule denies call {number}, which the filter asked about: please report it"
            ));
            return;
        };
        let call = call::shown(name.name(), args);
        let same = |kind: &&mut Denied| {
            kind.why == rule.why && kind.call == call && kind.program == program
        };
        if let Some(kind) = self.calls.iter_mut().find(same) {
            kind.count = kind.count.saturating_add(1);
        } else if self.calls.len() == MOST_KINDS {
            self.others = self.others.saturating_add(1);
        } else {
            self.calls.push(Denied {
                count: 1,
                syscall: name.name().into(),
                call,
                errno: rule.answer.name().into(),
                program,
                why: rule.why.into(),
                remedy: rule.remedy().map(Cow::from),
            });
        }
    }

    /// Says it all on standard error: first what programs may have failed of, then what
    /// they have other ways for.
    pub(in crate::run) fn say(&self) {
        for line in self.lines() {
            say::note(format_args!("denied: {line}"));
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        if self.calls.is_empty() && self.others == 0 {
            return vec!["no system call, by the filter".to_owned()];
        }
        let (light, grave): (Vec<_>, Vec<_>) =
            self.calls.iter().partition(|kind| kind.has_other_ways());
        let mut lines: Vec<_> = grave.into_iter().chain(light).map(Denied::line).collect();
        if self.others > 0 {
            lines.push(format!("{} calls of other kinds", self.others));
        }
        lines
    }
}

impl Denied {
    /// Whether callers know what to do without: as on an older kernel, or with success.
    pub(crate) fn has_other_ways(&self) -> bool {
        [Answer::Enosys, Answer::Zero]
            .map(Answer::name)
            .contains(&self.errno.as_ref())
    }

    fn line(&self) -> String {
        let Denied {
            count,
            call,
            errno,
            why,
            ..
        } = self;
        let who = match &self.program {
            None => "a program that is gone".to_owned(),
            Some(Program { exe, comm }) => format!("{exe} ({comm})"),
        };
        let remedy = self
            .remedy
            .as_ref()
            .map_or_else(String::new, |flag| format!("; {flag} lifts it"));
        format!("{count}x {call} is {errno}, to {who}: {why}{remedy}")
    }
}
