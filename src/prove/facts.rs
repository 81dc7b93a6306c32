//! What a probe is told, outside and inside alike.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The names of the namespaces in /proc/PID/ns (namespaces(7)).
pub(super) const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];

/// Where on the host there is something to attack. Passed as an argument, so it holds
/// nothing that must not be found in one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// The folder that everything lies in, and that the jail doesn't show.
    pub ground: PathBuf,
    /// Whether root runs the proofs.
    pub by_root: bool,
    /// The process that runs the proofs, on the host.
    pub launcher: i32,
    /// Its arguments, with a NUL after each (proc_pid_cmdline(5)).
    pub arguments: Vec<u8>,
    /// Its session.
    pub session: i32,
    /// The host's name.
    pub hostname: String,
    /// Its namespaces: name to inode number.
    pub namespaces: BTreeMap<String, u64>,
    /// A descriptor that is left open, of the ground.
    pub leaked: i32,
    /// A port of the host's 127.0.0.1 that somebody listens on.
    pub tcp: u16,
    /// The name of an abstract UNIX socket that somebody listens on.
    pub abstract_socket: String,
    /// The id of a System V shared memory segment.
    pub shared_memory: i32,
    /// A file in the host's /dev/shm.
    pub in_dev_shm: PathBuf,
    /// What the launcher's environment holds and the command must not find, with every
    /// bit turned over, so that this isn't what is found.
    pub masked_needle: Vec<u8>,
    /// A port of the host's 127.0.0.1: the API that the broker opens onto.
    pub api: u16,
    /// The API's key, likewise masked.
    pub masked_key: Vec<u8>,
    /// A process that holds the key: the launcher, or a run's supervisor.
    pub holder: i32,
    /// A socket at which requests for the API are taken, as the holder's children see it.
    pub door: PathBuf,
}

impl Facts {
    /// The clone, read-only.
    pub(super) fn clone_dir(&self) -> PathBuf {
        self.ground.join("clone")
    }

    /// The out-dir.
    pub(super) fn out_dir(&self) -> PathBuf {
        self.ground.join("out")
    }

    /// A folder given with --ro-file; it holds `file` and the socket `socket`.
    pub(super) fn given(&self) -> PathBuf {
        self.ground.join("given")
    }

    /// This program, at a place that every id can execute, given with --ro-file.
    pub(super) fn program(&self) -> PathBuf {
        self.ground.join("groom-ns")
    }

    /// A file that the jail isn't given.
    pub(super) fn secret(&self) -> PathBuf {
        self.ground.join("secret")
    }

    /// A file with the key in it, which the jail isn't given.
    pub(super) fn key_file(&self) -> PathBuf {
        self.ground.join("key")
    }

    /// What [`Facts::masked_needle`] hides.
    pub(super) fn needle(&self) -> Vec<u8> {
        self.masked_needle.iter().map(|byte| !byte).collect()
    }
}
