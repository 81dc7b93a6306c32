//! The part of a receipt that says what stood.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::format::How;
use crate::confine::self_check::Tried;
use crate::ns::evidence::Open;

/// What stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jail {
    /// Its namespaces and the host's.
    pub namespaces: Namespaces,
    /// Its mount table.
    pub mounts: Mounts,
    /// Its pid 1; the ids are the host's.
    pub init: Process,
    /// The command's process; the ids are as it sees them.
    pub command: Process,
    /// The landlock domain.
    pub landlock: Landlock,
    /// The command's seccomp filter.
    pub seccomp: Seccomp,
    /// The descriptors that the command began with.
    pub descriptors: Descriptors,
    /// Its limits.
    pub limits: Limits,
    /// What was tried.
    pub self_check: Tries,
}

/// The command's namespaces (namespaces(7)), by inode number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the kernel's names")]
pub struct Namespaces {
    /// Read.
    pub how: How,
    pub user: Namespace,
    pub mnt: Namespace,
    pub pid: Namespace,
    pub net: Namespace,
    pub ipc: Namespace,
    pub uts: Namespace,
    pub cgroup: Namespace,
}

/// One kind of namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// The supervisor's.
    pub host: u64,
    /// The command's.
    pub jail: u64,
}

/// Their names, as in /proc/PID/ns, in the order of [`Namespaces::new`].
pub const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];

impl Namespaces {
    /// In the order of [`NAMESPACES`].
    pub fn new([user, mnt, pid, net, ipc, uts, cgroup]: [Namespace; 7]) -> Namespaces {
        Namespaces {
            how: How::Read,
            user,
            mnt,
            pid,
            net,
            ipc,
            uts,
            cgroup,
        }
    }

    /// Each with its name.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, Namespace)> {
        let all = [
            self.user,
            self.mnt,
            self.pid,
            self.net,
            self.ipc,
            self.uts,
            self.cgroup,
        ];
        NAMESPACES.into_iter().zip(all)
    }
}

/// The mount table that the command sees (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mounts {
    /// Read.
    pub how: How,
    /// In the kernel's order.
    pub table: Vec<Mount>,
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Where; bytes that aren't text or could be obeyed are escaped.
    pub path: String,
    /// Which folder or file of its filesystem it shows.
    pub root: String,
    /// Its filesystem type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The mount's own options: `ro`, `nosuid` …
    pub options: Vec<String>,
}

/// A process (proc_pid_status(5)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Read.
    pub how: How,
    /// Real, effective, saved and file system user id.
    pub uids: [u32; 4],
    /// The same of the group.
    pub gids: [u32; 4],
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// The five sets.
    pub capabilities: Capabilities,
    /// Whether execve(2) gives no privileges.
    pub no_new_privs: bool,
    /// 2: a filter. 0: none.
    pub seccomp_mode: u32,
    /// How many filters, those of an outer sandbox included.
    pub seccomp_filters: u32,
}

/// Capability sets (capabilities(7)), in hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the kernel's names")]
pub struct Capabilities {
    pub inheritable: String,
    pub permitted: String,
    pub effective: String,
    pub bounding: String,
    pub ambient: String,
}

impl Capabilities {
    /// Each set with its name.
    pub fn each(&self) -> [(&'static str, &str); 5] {
        [
            ("inheritable", &self.inheritable),
            ("permitted", &self.permitted),
            ("effective", &self.effective),
            ("bounding", &self.bounding),
            ("ambient", &self.ambient),
        ]
    }
}

/// The landlock domain (landlock(7)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Landlock {
    /// Applied.
    pub how: How,
    /// `required` or `best-effort`.
    pub mode: String,
    /// The ABI that was used; 0 is no domain.
    pub abi: u32,
    /// Rights and scopes that it takes away.
    pub rights: Vec<String>,
    /// Those that this kernel doesn't know.
    pub absent: Vec<String>,
    /// What was granted, and beneath which path.
    pub rules: Vec<LandlockRule>,
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LandlockRule {
    /// Where.
    pub path: String,
    /// What, in the plan's words.
    pub grant: String,
}

/// The command's filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seccomp {
    /// Applied; that a filter is there is read, in [`Process`].
    pub how: How,
    /// SHA-256 of the instructions that were installed; none where none were.
    pub sha256: Option<String>,
    /// How many they are.
    pub instructions: usize,
    /// Whether the jail's processes may trace each other.
    pub allow_ptrace: bool,
}

/// Descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Descriptors {
    /// Read.
    pub how: How,
    /// By number.
    pub open: Vec<Open>,
}

/// Limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Read.
    pub how: How,
    /// Resource limits of the command's process (getrlimit(2)), in lower case and
    /// without `RLIMIT_`.
    pub rlimits: BTreeMap<String, Rlimit>,
    /// Those of its control group, where it has one of its own, by the kernel's names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<BTreeMap<String, u64>>,
}

/// A resource limit; none is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rlimit {
    /// What holds.
    pub soft: Option<u64>,
    /// What it may be raised to.
    pub hard: Option<u64>,
}

/// What was tried in the final state, and failed as it must.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tries {
    /// Read.
    pub how: How,
    /// In order.
    pub tried: Vec<Tried>,
}
