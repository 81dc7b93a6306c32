//! What the command's process does to itself, and what is executed then: the
//! second half of a plan, as pure data.

use std::borrow::Cow;
use std::ffi::CString;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

/// What the command's process does to itself before `execve`, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Confine {
    /// `umask(2)`.
    pub umask: u32,
    /// Resource limits (setrlimit(2)).
    pub limits: Vec<Limit>,
    /// The landlock domain.
    pub landlock: Landlock,
    /// The seccomp filter.
    pub seccomp: Seccomp,
    /// What is tried in the final state and must fail.
    pub self_check: Vec<Check>,
}

/// One resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// Which.
    pub resource: Resource,
    /// The soft limit; the caller's hard limit is a ceiling to it.
    pub soft: u64,
    /// The hard limit, likewise.
    pub hard: u64,
}

/// The resources that groom-ns sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Resource {
    /// `RLIMIT_CORE`, bytes.
    Core,
    /// `RLIMIT_NOFILE`, descriptors.
    Nofile,
    /// `RLIMIT_FSIZE`, bytes.
    Fsize,
    /// `RLIMIT_NPROC`, processes and threads, pid 1 of the jail among them.
    Nproc,
}

/// Whether the jail may stand without landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LandlockMode {
    /// ABI 2 at least, or refuse.
    Required,
    /// Whatever the kernel has, even nothing: the caller's explicit choice.
    BestEffort,
}

/// The landlock domain: nothing but `rules` can be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Landlock {
    /// Whether it may be absent.
    pub mode: LandlockMode,
    /// The ABI that is used: the kernel's, at most the newest known here; 0 is none.
    pub abi: u32,
    /// Rights that the kernel can't enforce, by name.
    pub absent: Vec<&'static str>,
    /// What is granted beneath which path.
    pub rules: Vec<LandlockRule>,
}

/// A grant beneath a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LandlockRule {
    /// Absolute path in the jail.
    pub path: PathBuf,
    /// What may be done beneath it.
    pub grant: Grant,
}

/// A set of landlock rights with a purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grant {
    /// List directories.
    List,
    /// Read files and list directories (/proc).
    Read,
    /// Read, list and execute (system trees, a read-only clone).
    Execute,
    /// Everything that can be done to files, but for making device nodes.
    Write,
    /// Read and write a device.
    Device,
    /// Read and write a terminal, and its ioctls.
    Terminal,
    /// Connect to the socket, where the ABI can say so.
    Connect,
}

/// The seccomp filter's parameters; the table is `confine::seccomp::table`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seccomp {
    /// Tracing of the jail's own processes is allowed (`--allow-ptrace`).
    pub allow_ptrace: bool,
    /// Who answers a call that a rule denies.
    pub on_denial: OnDenial,
    /// How many rules the table has then.
    pub rules: usize,
    /// The highest syscall number that isn't ENOSYS.
    pub ceiling: u32,
}

/// Who answers a call that a rule of the filter denies. The answer is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDenial {
    /// The filter itself (seccomp(2), `SECCOMP_RET_ERRNO`).
    Answer,
    /// The supervisor, which the filter asks (`SECCOMP_RET_USER_NOTIF`) and which counts
    /// what it denies (`--explain-denials`).
    Ask,
}

/// Something that must fail in the final state, with the errno that proves why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "try", rename_all = "kebab-case")]
pub enum Check {
    /// No capability in any of the five sets, and no_new_privs is 1.
    NoPrivileges,
    /// A socket of this family: EAFNOSUPPORT.
    Socket {
        /// The family's name.
        family: &'static str,
        /// `AF_*`.
        number: i32,
    },
    /// `unshare(CLONE_NEWUSER)`: EPERM.
    UserNamespace,
    /// Reading this file, which permissions allow and landlock doesn't grant: EACCES.
    Canary {
        /// Where.
        path: PathBuf,
    },
    /// An unnamed file (`O_TMPFILE`) in this directory: EROFS.
    ReadOnly {
        /// Where.
        path: PathBuf,
    },
}

/// What is executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exec {
    /// Working directory, absolute, in the jail.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Vec<EnvVar>,
    /// `argv`; the first is looked up in the environment's PATH if it has no slash.
    #[serde(serialize_with = "lossy_list")]
    pub argv: Vec<CString>,
}

/// A variable of the command's environment.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value. Printed only where groom-ns chose it: the caller's may be secrets.
    #[serde(serialize_with = "redacted")]
    pub value: EnvValue,
}

/// A value and whether it may be shown.
#[derive(Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// Chosen by groom-ns.
    Ours(String),
    /// The caller's: never printed. No NUL byte.
    Callers(CString),
    /// Where the broker is: `http://127.0.0.1:PORT` and a path. Known when the
    /// command's process executes.
    BrokerUrl {
        /// The port that was asked for; 0: the kernel picks.
        port: u16,
        /// The path, with its slash, or nothing.
        path: &'static str,
    },
    /// The token that the broker asks for: made for the run, and never printed.
    BrokerToken,
}

impl std::fmt::Debug for EnvVar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value.shown())
    }
}

impl EnvValue {
    /// The value, or that it isn't shown.
    pub fn shown(&self) -> Cow<'_, str> {
        match self {
            EnvValue::Ours(value) => value.into(),
            EnvValue::Callers(_) => "(not shown)".into(),
            EnvValue::BrokerUrl { port: 0, path } => format!("http://127.0.0.1:PORT{path}").into(),
            EnvValue::BrokerUrl { port, path } => broker_url(*port, path).into(),
            EnvValue::BrokerToken => "(made for the run)".into(),
        }
    }
}

/// Where the command finds the broker. By number, since a name would have to be looked up.
pub fn broker_url(port: u16, path: &str) -> String {
    format!("http://127.0.0.1:{port}{path}")
}

fn redacted<S: Serializer>(value: &EnvValue, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.shown())
}

fn lossy_list<S: Serializer>(list: &[CString], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(list.iter().map(|item| item.to_string_lossy()))
}
