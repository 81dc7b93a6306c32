//! A folder of the host for one test, with nothing in it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Removed when the test ends.
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let template = std::env::temp_dir().join("groom-ns-test-XXXXXX");
        let root = nix::unistd::mkdtemp(&template).expect("a temporary folder");
        Folder {
            root: root.canonicalize().expect("the folder just made"),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path in the folder, made or not.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A file with text that only its owner may read.
    pub(crate) fn secret(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a file of ours");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
