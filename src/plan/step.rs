//! The vocabulary of a plan: what the supervisor and pid 1 do, as pure data.
//! Nothing here knows how a step is carried out.

use std::path::PathBuf;

use serde::Serialize;

use super::command::{Confine, Exec};
use super::limits::Cgroup;

/// A whole run, in the order in which it happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What the caller should know before the command starts, a line each.
    pub warnings: Vec<String>,
    /// The profile that some of the flags come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<PathBuf>,
    /// Who the command is, on the host and inside.
    pub identity: Identity,
    /// The out-dir to make, beneath its opened parent.
    pub make_out_dir: Option<MakeDir>,
    /// The namespaces that the child is made in, as `clone(2)` names them.
    pub namespaces: Vec<&'static str>,
    /// The cgroup that pid 1 is put into before it does anything, if a limit needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<Cgroup>,
    /// How many bytes of output are moved before the jail is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// What pid 1 does, in order, before the command's process exists.
    pub build: Vec<Build>,
    /// What pid 1 finds in the mount table, each and no other, while the command's
    /// process confines itself; before it has, the command doesn't run.
    pub mounts: Vec<Standing>,
    /// What the supervisor becomes once it has the listeners, and before it says go.
    pub broker: Option<Broker>,
    /// What the command's process does to itself, in order.
    pub confine: Confine,
    /// What is executed then.
    pub exec: Exec,
    /// When the run is ended, from then on.
    pub times: Times,
}

/// When a run is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Times {
    /// So long after the command was executed it gets a TERM, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// So long after its first TERM the jail is killed, in milliseconds.
    pub grace_ms: u64,
}

/// A user id and a group id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ids {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// How groom-ns was started, which decides how trees are opened and ids mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// By a normal user: the jail's namespaces are all that gives privilege.
    User,
    /// By root of the namespace that groom-ns was started in.
    Root,
}

/// Who the command is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// How groom-ns was started.
    pub route: Route,
    /// The ids of the command as the host sees it; never 0.
    pub host: Ids,
    /// The ids of the command as it sees itself.
    pub inside: Ids,
    /// Supplementary groups that a user can't drop; empty for root.
    pub groups: Vec<u32>,
}

/// A directory that is made on the host before the fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MakeDir {
    /// Its canonical path.
    pub path: PathBuf,
    /// Its owner, where that isn't the caller (root gives it the clone's).
    pub owner: Option<Ids>,
}

/// Device and inode number: what a path must still name when it is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Inode {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
}

/// Whether a mount may be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// `MOUNT_ATTR_RDONLY`, recursively.
    Ro,
    /// As the source is.
    Rw,
}

/// What a bind's source must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A directory, with its submounts.
    Dir,
    /// A regular file.
    File,
    /// A UNIX socket.
    Socket,
    /// A character device with this number.
    Device {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
}

/// An id-mapped mount: the tree's owner on disk appears as the command
/// (`MOUNT_ATTR_IDMAP`, mount_setattr(2)). No other owner is mapped; other
/// groups keep their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IdMap {
    /// The owner and group on disk.
    pub disk: Ids,
    /// The command's ids on the host.
    pub host: Ids,
}

/// A tree of the host that is bound into the jail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bind {
    /// Canonical path on the host, which is also its path in the jail unless
    /// `target` says otherwise.
    pub source: PathBuf,
    /// Absolute path in the jail.
    pub target: PathBuf,
    /// What the source must be.
    pub kind: Kind,
    /// Whether it may be written to.
    pub access: Access,
    /// What the path must still name when it is opened; none for an out-dir
    /// that is yet to be made.
    pub identity: Option<Inode>,
    /// How owners are mapped, where groom-ns was started by root.
    pub idmap: Option<IdMap>,
}

/// A step of pid 1. Paths are absolute paths in the jail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Build {
    /// `sethostname(2)`: the first step that needs a capability, so the first
    /// that fails where namespaces come without them.
    Hostname {
        /// The name.
        name: String,
    },
    /// A fresh, empty session keyring (`keyctl(2)`, `KEYCTL_JOIN_SESSION_KEYRING`).
    SessionKeyring,
    /// `lo` is raised over netlink (`rtnetlink(7)`, `RTM_NEWLINK`).
    LoopbackUp,
    /// A listener on 127.0.0.1 for the broker: of the jail's network namespace,
    /// since it is made there (socket(2)).
    ShimListener {
        /// 0: the kernel picks.
        port: u16,
    },
    /// The tmpfs that becomes `/`.
    Root(Tmpfs),
    /// A directory on a tmpfs made here.
    Dir {
        /// Where.
        path: PathBuf,
    },
    /// An empty file on a tmpfs made here: a mount point, or the canary.
    File {
        /// Where.
        path: PathBuf,
    },
    /// A symbolic link on a tmpfs made here.
    Symlink {
        /// Where.
        path: PathBuf,
        /// What it says.
        target: PathBuf,
    },
    /// A private tmpfs.
    Tmpfs {
        /// Where.
        path: PathBuf,
        /// Its limits and mode.
        #[serde(flatten)]
        tmpfs: Tmpfs,
    },
    /// A tree of the host.
    Bind(Bind),
    /// A directory or file of a tree that is in place already, mounted on
    /// itself so that it can't be renamed or replaced, read-only or as it is.
    Pin {
        /// Where.
        path: PathBuf,
        /// Ro covers it (`.git`); Rw only holds it in its place.
        access: Access,
        /// What must be there.
        identity: Inode,
    },
    /// The jail's own `/dev/null`, read-only, over a file that is in place already.
    MaskFile {
        /// Where.
        path: PathBuf,
    },
    /// An empty read-only tmpfs over a directory that is in place already.
    MaskDir {
        /// Where.
        path: PathBuf,
    },
    /// A new instance of devpts.
    Devpts {
        /// Where.
        path: PathBuf,
    },
    /// A terminal of the jail's own: its slave controls pid 1's session, and its master
    /// goes to the supervisor (pty(7); unix(7), SCM_RIGHTS), and to nobody else.
    Terminal {
        /// The devpts that it is of.
        devpts: PathBuf,
        /// Which of the command's descriptors it is.
        descriptors: Vec<i32>,
    },
    /// A fresh procfs of the new pid namespace.
    Proc {
        /// Where.
        path: PathBuf,
    },
    /// `user.max_user_namespaces` of the jail's own namespace is set to 0.
    NoUserNamespaces,
    /// A directory of a kernel filesystem, mounted on itself read-only.
    ReadOnly {
        /// Where.
        path: PathBuf,
    },
    /// `pivot_root(".", ".")`, then the old root is detached.
    Pivot,
    /// A UNIX socket of mode 0600 that listens for the broker (unix(7)).
    BrokerSocket {
        /// Where.
        path: PathBuf,
    },
    /// Both listeners go to the supervisor (unix(7), SCM_RIGHTS), and pid 1 keeps none.
    HandOut,
    /// A tmpfs made here becomes read-only.
    Seal {
        /// Where.
        path: PathBuf,
    },
    /// Every capability set of pid 1 is emptied.
    DropCapabilities,
}

impl Plan {
    /// Which of the command's descriptors are the jail's terminal.
    pub fn terminal(&self) -> &[i32] {
        let descriptors = |step: &'_ Build| matches!(step, Build::Terminal { .. });
        match self.build.iter().find(|step| descriptors(step)) {
            Some(Build::Terminal { descriptors, .. }) => descriptors,
            _ => &[],
        }
    }
}

/// The key broker of a run, as far as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broker {
    /// The API, as `--broker` names it.
    pub provider: &'static str,
    /// The URL that every request goes to.
    pub upstream: String,
    /// All that it forwards, the provider's own routes and those of `--allow-route`:
    /// `METHOD /path`.
    pub routes: Vec<String>,
}

/// A mount as it must stand in the end. A tree brings along what the host has
/// mounted in it; nothing else may stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Its mount point in the jail.
    pub path: PathBuf,
    /// Ro must be read-only; Rw may be either, as its source is.
    pub access: Access,
    /// Whether the host's mounts beneath the source came along, under the same rule.
    pub tree: bool,
}

/// Limits and mode of a tmpfs (tmpfs(5)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tmpfs {
    /// `size=`: bytes, or a share of the memory ("25%").
    pub size: String,
    /// `nr_inodes=`.
    pub inodes: u64,
    /// `mode=` of its root directory.
    pub mode: u32,
}
