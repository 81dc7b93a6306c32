//! What the caller asked for, judged. The only place where input is judged:
//! everything here is canonical, and its identity taken.

mod broker;
mod caller;
mod env;
pub mod git;
mod git_dir;
mod gitdir;
mod grant;
mod ground;
mod judge;
mod kept;
pub(crate) mod kinds;
pub(crate) mod landlock;
mod limits;
mod location;
mod outside;
mod overlap;
mod own;
mod paths;
mod places;
mod profile;
mod reads;
mod receipt;
mod submounts;
mod survey;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod times;
mod uds;
mod worktree;

pub use broker::{BrokerPolicy, Supplies, judge_alone};
pub use judge::judge;
pub use kept::Kept;
pub use limits::{Limits, Pids, Size, TmpSize};
pub use own::LogFile;
pub use profile::read as read_profile;
pub use receipt::{ReceiptFile, remove_stale_receipt};

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::plan::command::{EnvVar, LandlockMode, OnDenial};
use crate::plan::step::{Ids, Inode, Times};

/// A run that may be planned. Pure data: what is held open is in [`Held`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The profile that was read: its canonical path.
    pub profile: Option<PathBuf>,
    /// The checkout; the command's working directory.
    pub clone: Granted,
    /// Whether it can be written to, and then what of it can't.
    pub clone_mode: CloneMode,
    /// The repository that the clone is linked to, with `--git-worktree`.
    pub linked: Option<Linked>,
    /// The one writable folder.
    pub out_dir: Option<OutDir>,
    /// Read-only files and folders.
    pub ro_files: Vec<Granted>,
    /// A listening broker for `/run/broker.sock`.
    pub uds: Option<Granted>,
    /// A broker of the run's own; never beside `uds`.
    pub broker: Option<BrokerPolicy>,
    /// UNIX sockets that lie in granted folders, to be covered: landlock before
    /// ABI 9 can't keep the command from connecting to them.
    pub sockets: Vec<PathBuf>,
    /// The caller's variables, in order; a later one of the same name wins.
    pub env: Vec<EnvVar>,
    /// Which of descriptors 0 to 2 are to be a terminal of the jail's own; none, or 0 and
    /// 1 at least.
    pub terminal: Vec<i32>,
    /// The caller's TERM, where the command has a terminal.
    pub term: Option<String>,
    /// When the run is ended.
    pub times: Times,
    /// The command and its arguments; not empty.
    pub argv: Vec<CString>,
    /// Whether landlock may be absent.
    pub landlock: LandlockMode,
    /// Whether processes of the jail may trace each other.
    pub allow_ptrace: bool,
    /// What the caller should know before the command starts, a line each.
    pub warnings: Vec<String>,
    /// Who answers the calls that the filter denies.
    pub on_denial: OnDenial,
    /// What it may use up.
    pub limits: Limits,
}

/// The repository of a linked worktree, which knows it: both are read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The worktree's own folder in it, `worktrees/NAME`.
    pub git_dir: Granted,
    /// The repository: objects, refs, configuration, hooks.
    pub common: Granted,
}

/// A file or folder of the host that the command gets to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Its canonical path, free of symbolic links.
    pub path: PathBuf,
    /// The absolute path as it was typed, where a symbolic link made it differ.
    pub alias: Option<PathBuf>,
    /// Folder, file or socket.
    pub kind: GrantedKind,
    /// Device and inode number.
    pub identity: Inode,
    /// Owner and group on disk.
    pub owner: Ids,
}

/// What a granted path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantedKind {
    /// A directory.
    Dir,
    /// A regular file.
    File,
    /// A UNIX socket.
    Socket,
}

/// The clone's mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloneMode {
    /// Read-only.
    Ro,
    /// Writable, but for every `.git`.
    RwGitRo(GitCovers),
}

/// What is mounted over a writable clone. Absolute canonical paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitCovers {
    /// Every `.git` folder, every bare repository, and every gitdir file that points into the clone's own: read-only.
    pub gits: Vec<(PathBuf, Inode)>,
    /// Every folder between the clone and a nested `.git`, held in its place,
    /// outermost first.
    pub parents: Vec<(PathBuf, Inode)>,
}

/// The writable folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutDir {
    /// It was there.
    Exists(Granted),
    /// It is made last, in a folder that was there.
    Missing {
        /// Canonical path of the parent and the new name.
        path: PathBuf,
        /// The absolute path as it was typed, where a symbolic link made it differ.
        alias: Option<PathBuf>,
    },
}

/// Descriptors (`O_PATH`, close-on-exec) of what the policy names, by canonical
/// path; a missing out-dir's is its parent's. Held, so that no inode number is
/// used again while the jail is built. Owned by the supervisor and its fork.
pub type Held = BTreeMap<PathBuf, OwnedFd>;

/// What a judgement brings: the policy, and beside it what can't be data.
pub type Judged = (Policy, Held, Option<Supplies>, Option<ReceiptFile>);
