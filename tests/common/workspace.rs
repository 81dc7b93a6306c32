//! A folder of the host for one test, and what a checkout looks like in it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::host;
use super::jail::{self, Jail, Run};

/// `clone/`, the probe, and room for an out-dir, in a folder that is removed
/// when the test ends. Only the caller can look into it, as in a home.
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// A clone that isn't a repository.
    pub(crate) fn new() -> Self {
        let template = std::env::temp_dir().join("groom-ns-test-XXXXXX");
        let root = nix::unistd::mkdtemp(&template).expect("a temporary folder");
        let root = root.canonicalize().expect("the folder just made");
        let workspace = Workspace { root };
        fs::create_dir(workspace.clone_dir()).expect("a clone");
        fs::write(workspace.clone_dir().join("tracked"), "tracked\n").expect("a file");
        host::install(&jail::probe_binary(), &workspace.probe());
        workspace
    }

    /// A clone that is a repository with one commit.
    pub(crate) fn with_git() -> Self {
        let workspace = Workspace::new();
        make_repository(&workspace.clone_dir());
        workspace
    }

    /// The folder itself: nothing in it is the jail's but what is named.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path in the folder, made or not.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The checkout given to the command.
    pub(crate) fn clone_dir(&self) -> PathBuf {
        self.path("clone")
    }

    /// A path for an out-dir, not made yet.
    pub(crate) fn out_dir(&self) -> PathBuf {
        self.path("out")
    }

    /// The probe, at a path that every id could execute.
    pub(crate) fn probe(&self) -> PathBuf {
        self.path("probe")
    }

    /// A file with text, its folders made as needed.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(&path, text).expect("a file");
        path
    }

    /// A new folder.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("a folder");
        path
    }

    /// A copy of groom-ns under a name that finds its processes in the host's
    /// list (`host::processes_named`), and that name.
    pub(crate) fn named_binary(&self) -> (PathBuf, String) {
        // A comm has 15 bytes: the pid and the counter of `unique` fit.
        let name = host::unique("gn");
        let copy = self.path(&name);
        host::install(&jail::binary(), &copy);
        (copy, name)
    }

    /// A copy of the clone, for controls that change it.
    pub(crate) fn copy_of_clone(&self) -> PathBuf {
        let copy = self.path("copy-of-clone");
        let mut cp = host::program("cp", "coreutils");
        let status = cp.arg("-a").arg(self.clone_dir()).arg(&copy).status();
        assert!(status.expect("cp starts").success(), "cp -a");
        copy
    }

    /// A run with this clone, read-only, that can execute the probe.
    pub(crate) fn jail(&self) -> Jail {
        Jail::new(self)
    }

    /// The same with the out-dir.
    pub(crate) fn jail_with_out(&self) -> Jail {
        self.jail().flag("--out-dir", self.out_dir())
    }

    /// The probe on the host: the control.
    pub(crate) fn unjailed(&self, probe: &[impl AsRef<OsStr>]) -> Run {
        let mut command = Command::new(self.probe());
        command.args(probe);
        jail::finish(jail::spawn(&mut command))
    }
}

impl Workspace {
    /// The probe on the host in surroundings that it makes itself: the control
    /// of [`Jail::in_situation`].
    pub(crate) fn unjailed_in(&self, situation: &[&str], probe: &[&str]) -> Run {
        let own = self.probe();
        self.unjailed(&[situation, &["--", host::path_str(&own)], probe].concat())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // A test may have taken away its own permissions on purpose.
        let _ = fs::set_permissions(&self.root, fs::Permissions::from_mode(0o700));
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Makes `dir` a repository whose one commit holds what lies in it.
pub(crate) fn make_repository(dir: &Path) {
    git(dir, &["init", "--quiet", "--initial-branch=main"]);
    git(dir, &["add", "--all"]);
    git(
        dir,
        &["commit", "--quiet", "--allow-empty", "--message=first"],
    );
}

/// git on the host, with nothing of the host's configuration.
pub(crate) fn git(dir: &Path, args: &[&str]) {
    let output = host::program("git", "git")
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
        .args(["-c", "protocol.file.allow=always"])
        .args(args)
        .output()
        .expect("git starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {stderr}");
}

/// Everything below a folder: path to kind, mode, owner and contents. Two equal
/// snapshots mean that nothing was left behind.
pub(crate) fn snapshot(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    add_to_snapshot(dir, &mut all);
    all
}

fn add_to_snapshot(path: &Path, all: &mut BTreeMap<PathBuf, String>) {
    let meta = fs::symlink_metadata(path).expect("a path that stays");
    let mut contents = Vec::new();
    if meta.is_file() {
        contents = fs::read(path).expect("a readable file");
    } else if meta.is_dir() {
        for entry in fs::read_dir(path).expect("a readable folder").flatten() {
            add_to_snapshot(&entry.path(), all);
        }
    }
    let (mode, uid, gid) = (meta.mode(), meta.uid(), meta.gid());
    all.insert(path.into(), format!("{mode:o} {uid}:{gid} {contents:?}"));
}
