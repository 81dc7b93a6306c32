//! What of a writable clone is git's, found by hand.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use groom_ns::policy::{CloneMode, Policy};

use crate::places::{self, list};
use crate::{Case, bytes, path, way};

pub fn check(case: &Case, policy: &Policy) {
    let clone = policy.clone.path.as_path();
    let is_rw = case.run.clone_mode == groom_ns::cli::CloneMode::RwGitRo;
    assert_eq!(places::is_rw(policy), is_rw);
    let CloneMode::RwGitRo(covers) = &policy.clone_mode else {
        return;
    };
    let mut found = BTreeSet::new();
    gits(clone, true, &mut found);
    let own = clone.join(".git");
    let is_folder = own.symlink_metadata().unwrap().is_dir();
    assert!((is_folder || policy.linked.is_some()) && found.contains(&own));
    let covered: BTreeSet<PathBuf> = covers.gits.iter().map(|it| it.0.clone()).collect();
    assert_eq!(covered, found);

    let mut parents = BTreeSet::new();
    for git in found.iter().filter(|git| **git != own) {
        let above = git.ancestors().skip(1).take_while(|above| *above != clone);
        parents.extend(above.map(Path::to_owned));
    }
    // In the order of a set, what is above comes first.
    assert!(covers.parents.iter().map(|it| &it.0).eq(&parents));
    for (path, identity) in covers.gits.iter().chain(&covers.parents) {
        let there = path.symlink_metadata().unwrap();
        assert_eq!((there.dev(), there.ino()), (identity.dev, identity.ino));
    }

    let around = Around {
        writable: places::writable(policy).collect(),
        clone,
        covered,
        parents,
    };
    let common = policy.linked.as_ref().map(|linked| &linked.common.path);
    for git in around.covered.iter().chain(common) {
        if git.is_dir() {
            around.folder(git);
        } else {
            around.gitdir(git, common.unwrap_or(&own));
        }
    }
}

/// Whatever is named `.git`, and whatever git would take for a repository.
fn gits(folder: &Path, is_top: bool, found: &mut BTreeSet<PathBuf>) {
    let entries: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    let has = |name: &str| {
        entries
            .iter()
            .any(|it| it.file_name().eq_ignore_ascii_case(name))
    };
    if !is_top && has("HEAD") && ((has("objects") && has("refs")) || has("commondir")) {
        found.insert(folder.to_owned());
        return;
    }
    for entry in &entries {
        if entry.file_name().eq_ignore_ascii_case(".git") {
            found.insert(entry.path());
        } else if entry.file_type().unwrap().is_dir() {
            gits(&entry.path(), false, found);
        }
    }
}

struct Around<'p> {
    clone: &'p Path,
    writable: Vec<&'p Path>,
    covered: BTreeSet<PathBuf>,
    parents: BTreeSet<PathBuf>,
}

impl Around<'_> {
    fn is_kept(&self, path: &Path) -> bool {
        let is_covered = self.covered.iter().any(|git| path.starts_with(git));
        is_covered || !self.writable.iter().any(|tree| path.starts_with(tree))
    }

    /// The command can change neither what lies there nor the way to it.
    fn is_firm(&self, way: &way::Way) -> bool {
        let is_held = |path: &PathBuf| {
            self.is_kept(path) || path == self.clone || self.parents.contains(path)
        };
        way.links.iter().all(|link| self.is_kept(link))
            && way.passed.iter().all(is_held)
            && self.is_kept(&way.end)
            && !self.writable.iter().any(|tree| tree.starts_with(&way.end))
    }

    /// No link, second name or pointer leads from here to where the command can write.
    fn folder(&self, git: &Path) {
        let mut found = Vec::new();
        list(git, &mut found);
        for file in found {
            let there = file.symlink_metadata().unwrap();
            let folder = file.parent().unwrap();
            let name = file.file_name().unwrap().as_bytes().to_ascii_lowercase();
            let is_object = file.components().any(|part| part.as_os_str() == "objects");
            if there.is_symlink() {
                let way = way::walk(folder, path(file.file_name().unwrap().as_bytes()));
                assert!(
                    self.is_firm(&way.expect("a link leads somewhere")),
                    "{file:?}"
                );
            } else if there.is_file() {
                assert!(
                    there.nlink() == 1 || (is_object && name != b"alternates"),
                    "{file:?}"
                );
                if name == b"commondir" && folder.join("HEAD").exists() {
                    let way = way::walk(folder, path(first_line(&file).trim_ascii_end())).unwrap();
                    assert!(self.is_firm(&way), "{file:?}: {way:?}");
                }
                if name == b"alternates" {
                    self.alternates(&file);
                }
            }
        }
    }

    fn alternates(&self, file: &Path) {
        let objects = file.parent().unwrap().parent().unwrap();
        for line in fs::read(file).unwrap().split(|byte| *byte == b'\n') {
            if !line.is_empty() && !line.starts_with(b"#") {
                let way = way::walk(objects, path(line)).expect("a store is there");
                assert!(self.is_firm(&way), "{file:?}: {way:?}");
            }
        }
    }

    /// A gitdir file leads into the clone's own repository, and nobody can bend the way.
    fn gitdir(&self, file: &Path, own: &Path) {
        let way = way::walk(file.parent().unwrap(), path(&gitdir(file)));
        let way = way.expect("it leads somewhere");
        assert!(
            way.end.starts_with(own) && way.end != own,
            "{file:?}: {way:?}"
        );
        assert!(
            way.links.iter().all(|link| !link.starts_with(self.clone)),
            "{way:?}"
        );
        assert_eq!(file.symlink_metadata().unwrap().nlink(), 1);
    }
}

/// Without its line ends: all of the text, as git takes it.
pub fn first_line(file: &Path) -> Vec<u8> {
    let mut text = fs::read(file).unwrap();
    while matches!(text.last(), Some(b'\n' | b'\r')) {
        text.pop();
    }
    assert!(bytes(path(&text)).len() < 5000);
    text
}

/// What a gitdir file names.
pub fn gitdir(file: &Path) -> Vec<u8> {
    let line = first_line(file);
    line.strip_prefix(b"gitdir: ")
        .expect("a gitdir file")
        .to_vec()
}
