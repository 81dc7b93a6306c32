//! A refusal: a run that did not happen, with its reason code and its remedy.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::path::Path;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

/// The exit code of a run whose time was up (timeout(1)).
pub const EXIT_TIMED_OUT: u8 = 124;

/// groom-ns's own exit code when the command did not run.
pub const EXIT_REFUSED: u8 = 125;
/// The command was found but could not be executed.
pub const EXIT_NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub const EXIT_NOT_FOUND: u8 = 127;

/// The closed set of reason codes. A code is stable: scripts match on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// The command line doesn't say what it must.
    Usage,
    /// A path is missing, of the wrong kind, or not one that may be given.
    Path,
    /// Two places of the jail contain or equal each other, by path or through a
    /// bind mount, and one is writable.
    Overlap,
    /// A `.git` isn't of a shape that can be covered, or something in it leads to
    /// where the command can write.
    Git,
    /// A socket can't be given to the command, or nobody answers on it.
    Socket,
    /// A tree holds files of other owners or programs that give rights, or can't be
    /// id-mapped.
    Owner,
    /// The key can't be read, or isn't one that a header can carry.
    Key,
    /// The broker can't be set up: its roots, proxy, token or log.
    Broker,
    /// A receipt or status lines can't be written there, or a receipt or its policy can't
    /// be read.
    Receipt,
    /// No id can be given to the command.
    Identity,
    /// The kernel is older than the floor.
    Kernel,
    /// Standard input, output or error is something that can't be handed in.
    Stdio,
    /// The namespaces can't be made, or come without their capabilities.
    Userns,
    /// The id maps can't be written.
    Maps,
    /// `lo` can't be brought up.
    Net,
    /// A mount failed.
    Mount,
    /// A fresh /proc can't be mounted, or the host's isn't this namespace's.
    Proc,
    /// The capability sets can't be emptied.
    Caps,
    /// A resource limit can't be set.
    Limits,
    /// Landlock is absent, too old, or failed.
    Landlock,
    /// The filter can't be installed.
    Seccomp,
    /// In its final state the jail allowed what it must deny.
    Selfcheck,
    /// The setup broke off for a reason of groom-ns's own (a signal, a lost process).
    Setup,
}

impl Reason {
    /// Every code, for the documentation's test.
    pub const ALL: [Reason; 23] = [
        Reason::Usage,
        Reason::Path,
        Reason::Overlap,
        Reason::Git,
        Reason::Socket,
        Reason::Owner,
        Reason::Key,
        Reason::Broker,
        Reason::Receipt,
        Reason::Identity,
        Reason::Kernel,
        Reason::Stdio,
        Reason::Userns,
        Reason::Maps,
        Reason::Net,
        Reason::Mount,
        Reason::Proc,
        Reason::Caps,
        Reason::Limits,
        Reason::Landlock,
        Reason::Seccomp,
        Reason::Selfcheck,
        Reason::Setup,
    ];

    /// The code as it is printed.
    pub fn code(self) -> &'static str {
        match self {
            Reason::Usage => "usage",
            Reason::Path => "path",
            Reason::Overlap => "overlap",
            Reason::Git => "git",
            Reason::Socket => "socket",
            Reason::Owner => "owner",
            Reason::Key => "key",
            Reason::Broker => "broker",
            Reason::Receipt => "receipt",
            Reason::Identity => "identity",
            Reason::Kernel => "kernel",
            Reason::Stdio => "stdio",
            Reason::Userns => "userns",
            Reason::Maps => "maps",
            Reason::Net => "net",
            Reason::Mount => "mount",
            Reason::Proc => "proc",
            Reason::Caps => "caps",
            Reason::Limits => "limits",
            Reason::Landlock => "landlock",
            Reason::Seccomp => "seccomp",
            Reason::Selfcheck => "selfcheck",
            Reason::Setup => "setup",
        }
    }
}

/// Why the command did not run. Printed as one line, or as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The stable code.
    pub reason: Reason,
    /// What was being done: "mount the clone", "write uid_map".
    pub step: Cow<'static, str>,
    /// The path or call that it concerns; may be empty.
    pub subject: String,
    /// The kernel's answer by name ("EPERM"), where there was one.
    pub errno: Option<String>,
    /// What the caller can do about it.
    pub remedy: Cow<'static, str>,
}

const DENIED: &str = "an outer sandbox or a security module denies it: allow it there, or run \
     groom-ns outside of it";
const OPEN_FILES: &str = "raise the limit on open files (`ulimit -n`)";
/// Where nothing is known that a caller could do about it.
pub(crate) const UNKNOWN: &str =
    "this is a bug or an unknown kernel: please report it with `uname -r`";

impl Refusal {
    /// A refusal at `step` with no subject, errno or remedy yet.
    pub fn new(reason: Reason, step: impl Into<Cow<'static, str>>) -> Self {
        Refusal {
            reason,
            step: step.into(),
            subject: String::new(),
            errno: None,
            remedy: Cow::Borrowed(""),
        }
    }

    /// Names the syscall or thing that it concerns.
    #[must_use]
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = subject.into();
        self
    }

    /// Names the path that it concerns.
    #[must_use]
    pub fn path(self, path: impl AsRef<Path>) -> Self {
        let shown = shown(path.as_ref());
        self.about(shown)
    }

    /// Adds the kernel's answer, and what can be done about it wherever it is given.
    #[must_use]
    pub fn errno(mut self, errno: Errno) -> Self {
        self.errno = Some(format!("{errno:?}"));
        if self.remedy.is_empty() {
            self.remedy = Cow::Borrowed(match errno {
                Errno::EACCES => "see who may do that: its mode, its owner, a security module",
                Errno::EPERM | Errno::ENOSYS => DENIED,
                Errno::EMFILE | Errno::ENFILE => OPEN_FILES,
                Errno::ENOMEM => "the host, or this process's cgroup, is short of memory",
                _ => UNKNOWN,
            });
        }
        self
    }

    /// Says what the caller can do. Where the errno alone says it, whatever the
    /// step was, that is said instead.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<Cow<'static, str>>) -> Self {
        self.remedy = match self.errno.as_deref() {
            Some("EMFILE" | "ENFILE") => OPEN_FILES.into(),
            _ => remedy.into(),
        };
        self
    }

    /// The line for GitHub's log viewer (workflow command `::error::`), whose
    /// data part escapes `%`, CR and LF.
    pub fn github_annotation(&self) -> String {
        let data = self
            .to_string()
            .replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A");
        format!(
            "::error title=groom-ns refused ({})::{data}",
            self.reason.code()
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "groom-ns: refused ({}): {}",
            self.reason.code(),
            self.step
        )?;
        if !self.subject.is_empty() {
            write!(f, ": {}", self.subject)?;
        }
        if let Some(errno) = &self.errno {
            write!(f, ": {errno}")?;
        }
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// Characters that change the order or the lines of what stands around them
/// without being control characters: what is read isn't what is there.
fn reorders(c: char) -> bool {
    matches!(c,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A path as it may be printed: names come from untrusted trees, so control
/// and other bytes that a terminal or a log could obey are escaped.
pub fn shown(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut out = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || reorders(c) {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_could_obey_is_escaped() {
        use std::os::unix::ffi::OsStrExt as _;
        for (bytes, expected) in [
            (&b"a b/\xc3\xa9"[..], "a b/\u{e9}"),
            (b"a\nb\x1b[31m\x7f", "a\\nb\\u{1b}[31m\\u{7f}"),
            ("x\u{202e}y\u{2028}z".as_bytes(), "x\\u{202e}y\\u{2028}z"),
            (b"\xff\xfe", "\\xff\\xfe"),
        ] {
            let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
            assert_eq!(shown(path), expected);
        }
    }

    #[test]
    fn one_line_with_step_errno_and_remedy() {
        let refusal = Refusal::new(Reason::Mount, "make a folder")
            .path("/a\nb")
            .errno(Errno::EPERM)
            .remedy("do this");
        let line = "groom-ns: refused (mount): make a folder: /a\\nb: EPERM; do this";
        assert_eq!(refusal.to_string(), line);
        let open_files = Refusal::new(Reason::Path, "open")
            .errno(Errno::EMFILE)
            .remedy("other");
        assert!(open_files.remedy.contains("ulimit -n"));
    }

    #[test]
    fn whatever_failed_there_is_a_remedy() {
        let bare = |errno| Refusal::new(Reason::Setup, "do").errno(errno).remedy;
        assert!(bare(Errno::EPERM).contains("outer sandbox"));
        assert!(bare(Errno::EMFILE).contains("ulimit -n"));
        assert!(bare(Errno::EINVAL).contains("please report it"));
        let own = Refusal::new(Reason::Setup, "do").remedy("this");
        assert_eq!(
            own.errno(Errno::EPERM).remedy,
            "this",
            "whichever comes first"
        );
    }
}
