//! What of the calling process a judgement depends on.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::path::PathBuf;

use nix::errno::Errno;

use super::paths::{Start, resolve};
use super::places;
use crate::cli;
use crate::refusal::{Reason, Refusal};

/// What of the calling process matters.
pub(super) struct Caller {
    pub(super) cwd: Result<Start, Errno>,
    pub(super) env: fn(&OsStr) -> Option<OsString>,
    /// Which of descriptors 0 to 2 are terminals.
    pub(super) terminals: [fn() -> bool; 3],
}

impl Caller {
    pub(super) fn here() -> Caller {
        Caller {
            cwd: Start::here(),
            env: |name| std::env::var_os(name),
            terminals: [
                || std::io::stdin().is_terminal(),
                || std::io::stdout().is_terminal(),
                || std::io::stderr().is_terminal(),
            ],
        }
    }

    /// The caller's home, canonical, and those of /etc/passwd. A HOME that isn't
    /// there, or that the caller can't reach, can't be what was named either.
    pub(super) fn homes(&self) -> Result<Vec<PathBuf>, Refusal> {
        let named = (self.env)(OsStr::new("HOME"))
            .map(PathBuf::from)
            .filter(|home| home.is_absolute());
        let own = match named.as_deref().map(|home| resolve(&self.cwd, home)) {
            None => None,
            Some(Ok(home)) => Some(home.path),
            Some(Err(fault)) => match fault.errno {
                Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ELOOP => None,
                errno => {
                    return Err(Refusal::new(Reason::Path, "look for the home folder")
                        .path(&fault.at)
                        .errno(errno)
                        .remedy("correct HOME, or unset it"));
                }
            },
        };
        let passwd = match std::fs::read("/etc/passwd") {
            Ok(passwd) => passwd,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(Refusal::new(Reason::Path, "look for home folders")
                    .path("/etc/passwd")
                    .errno(Errno::try_from(error).unwrap_or(Errno::EIO)));
            }
        };
        Ok(places::homes(own, &passwd))
    }

    /// At a terminal that is read and written, the command gets one, unless it is told
    /// otherwise: in `ls | …` or `… | less` another program has the terminal. Asked for, it is
    /// all three descriptors; else standard error may be somewhere else, and stays there.
    pub(super) fn terminal(&self, run: &cli::Run) -> Vec<i32> {
        let is_terminal = |number: usize| (self.terminals[number])();
        if run.tty {
            vec![0, 1, 2]
        } else if run.no_tty || !is_terminal(0) || !is_terminal(1) {
            Vec::new()
        } else if is_terminal(2) {
            vec![0, 1, 2]
        } else {
            vec![0, 1]
        }
    }

    pub(super) fn term(&self) -> Option<String> {
        (self.env)(OsStr::new("TERM"))?
            .into_string()
            .ok()
            .filter(|term| !term.is_empty() && !term.contains(char::is_control))
    }
}
