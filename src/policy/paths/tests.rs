//! Paths and links of every kind.

use super::*;
use crate::policy::testing::{TempDir, held};

#[allow(clippy::unnecessary_wraps)] // as `resolve` takes it
fn at(temp: &TempDir) -> Result<Start, Errno> {
    Ok(Start {
        dir: held(temp.path()),
        path: temp.path().to_owned(),
    })
}

/// a/b/f is a file; l → a/b; deep → l; up → ../<temp>/a; loop → loop; gone → nowhere.
fn tree() -> TempDir {
    let temp = TempDir::new();
    temp.file("a/b/f", "");
    temp.link("l", "a/b");
    temp.link("deep", "l/");
    temp.link("loop", "loop");
    temp.link("gone", "nowhere");
    let abs = temp.at("a");
    temp.link("abs", abs);
    temp
}

#[test]
fn canonical_paths_and_aliases() {
    let temp = tree();
    let cwd = at(&temp);
    for (typed, path, alias, links) in [
        ("a/b", "a/b", None, &[][..]),
        (".", "", None, &[]),
        ("./a//b/../b/", "a/b", None, &[]),
        ("l", "a/b", Some("l"), &["l"]),
        ("l/f", "a/b/f", Some("l/f"), &["l"]),
        ("deep", "a/b", Some("deep"), &["deep", "l"]),
        ("a/../deep/f", "a/b/f", Some("deep/f"), &["deep", "l"]),
        ("l/..", "a", None, &["l"]),
        ("abs/b/", "a/b", Some("abs/b"), &["abs"]),
    ] {
        for typed in [PathBuf::from(typed), temp.path().join(typed)] {
            let found = resolve(&cwd, &typed).unwrap_or_else(|f| panic!("{typed:?}: {f:?}"));
            assert_eq!(found.path, clean(&temp.at(path)), "{typed:?}");
            assert_eq!(found.alias, alias.map(|name| temp.at(name)), "{typed:?}");
            let links: Vec<PathBuf> = links.iter().map(|link| temp.at(link)).collect();
            assert_eq!(found.followed, links, "{typed:?}");
        }
    }
}

#[test]
fn faults() {
    let temp = tree();
    let cwd = at(&temp);
    for (typed, errno) in [
        ("", Errno::ENOENT),
        ("nowhere", Errno::ENOENT),
        ("gone", Errno::ENOENT),
        ("loop", Errno::ELOOP),
        ("a/b/f/", Errno::ENOTDIR),
        ("l/f/", Errno::ENOTDIR),
        ("l/f/x", Errno::ENOTDIR),
        ("a\0b", Errno::EINVAL),
    ] {
        let fault = resolve(&cwd, Path::new(typed)).err().expect(typed);
        assert_eq!(fault.errno, errno, "{typed:?}");
    }
}

#[test]
fn without_a_current_folder() {
    let temp = tree();
    let cwd = Err(Errno::ENOENT);
    assert!(resolve(&cwd, &temp.at("l")).is_ok());
    let fault = resolve(&cwd, Path::new("l")).err().expect("fault");
    assert!(fault.remedy.contains("current folder"));
}

#[test]
fn parents_that_can_only_be_searched() {
    use std::os::unix::fs::PermissionsExt as _;
    let temp = tree();
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(temp.at("a"), mode(0o111)).expect("chmod");
    let found = resolve(&at(&temp), Path::new("l/f"));
    std::fs::set_permissions(temp.at("a"), mode(0o755)).expect("chmod");
    assert_eq!(found.expect("found").path, temp.at("a/b/f"));
}
