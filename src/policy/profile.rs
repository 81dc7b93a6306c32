//! `--profile`: the file is configuration, so nobody but its owner may have a say in
//! what it holds, least of all the command. It is read before the rest of the line is
//! known; where it lies is judged once that is.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nix::sys::stat::{FileStat, Mode};
use nix::unistd::geteuid;

use super::ground::Ground;
use super::location::{self, Tree};
use super::own::{PROFILE, read_whole};
use super::paths::Start;
use crate::cli::{self, ProfileFile};
use crate::host;
use crate::mountinfo::Mount;
use crate::refusal::{Refusal, shown};
use crate::sabotage::{Mechanism, stands};

/// A profile is a page.
const MAX_PROFILE: usize = 64 * 1024;

/// Reads a profile, by a link or not; no descriptor of it stays open.
///
/// # Errors
/// `path`: it isn't there, no regular file, larger than 64 KiB, or others can change
/// it; `identity`: groom-ns has other ids than its caller, whose the file must be.
pub fn read(typed: &Path) -> Result<(ProfileFile, Vec<u8>), Refusal> {
    host::caller()?;
    let found = PROFILE.resolve(&Start::here(), typed)?;
    PROFILE.takes_file(&found)?;
    if stands(Mechanism::ProfileOwner)
        && let Some(remedy) = is_others(&found.stat, geteuid().as_raw())
    {
        return Err(PROFILE.refusal("trust").path(&found.path).remedy(remedy));
    }
    let bytes = read_whole(PROFILE, &found, MAX_PROFILE)?;
    let file = ProfileFile {
        path: found.path,
        followed: found.followed,
        names_receipt: false,
        says: Vec::new(),
    };
    Ok((file, bytes.to_vec()))
}

/// How others than the caller and root may change it, as what to do about that. An
/// access list shows in the group's bits (acl(5)).
fn is_others(stat: &FileStat, caller: u32) -> Option<String> {
    let mode = Mode::from_bits_truncate(stat.st_mode);
    if stat.st_uid != caller && stat.st_uid != 0 {
        let uid = stat.st_uid;
        return Some(format!(
            "it is of uid {uid}, who could change it: chown it to who starts groom-ns, or to root"
        ));
    }
    if mode.intersects(Mode::S_IWGRP | Mode::S_IWOTH) {
        return Some("others than its owner can write to it: chmod go-w it".into());
    }
    // One could lie in a clone that is writable. Root's own are no user's to write.
    if stat.st_nlink > 1 && (stat.st_uid == caller) {
        return Some(
            "it has other names (hard links), and the command may see one: copy it to a file of its own"
                .into(),
        );
    }
    None
}

/// Refuses a profile that lies in the clone, the checkout around it or the out-dir, or
/// was found by a link that does: what is there is data, never configuration. `clone` is
/// none where it leads nowhere, for which the run is refused.
pub(super) fn judge(
    run: &cli::Run,
    clone: Option<&Path>,
    ground: &Ground,
    homes: &[PathBuf],
    table: &[Mount],
) -> Result<(), Refusal> {
    let Some(found) = &run.found_profile else {
        return Ok(());
    };
    if !stands(Mechanism::ProfileGround) {
        return Ok(());
    }
    ground.own_choice(PROFILE, &found.followed)?;
    ground.trusted(PROFILE, &found.path)?;
    let around = clone.map(|clone| checkouts_around(clone, homes, table));
    for around in around.into_iter().flatten() {
        let tree = Tree::of(table, &around);
        let mut places = std::iter::once(&found.path).chain(&found.followed);
        if let Some(place) = places.find(|place| tree.holds(table, place)) {
            return Err(PROFILE.refusal("judge").path(place).remedy(format!(
                "it lies in the checkout that the clone is a part of ({}), where a stranger may have written it: keep it elsewhere",
                shown(&around)
            )));
        }
    }
    Ok(())
}

/// Every checkout that holds a clone without being it, whatever mounts lead there: the
/// innermost may be the command's own making. A home under version control is none, and
/// nor is what holds it: there is more in it than a stranger's files.
pub(super) fn checkouts_around(clone: &Path, homes: &[PathBuf], table: &[Mount]) -> Vec<PathBuf> {
    let holds_home = |dir: &Path| {
        let tree = Tree::of(table, dir);
        homes.iter().any(|home| tree.holds(table, home))
    };
    let mut folders = location::above(table, clone);
    folders.retain(|dir| has_git(dir) && !holds_home(dir));
    folders
}

fn has_git(dir: &Path) -> bool {
    match dir.join(".git").symlink_metadata() {
        Ok(_) => true,
        // What can't be looked at may be one.
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::stat;

    use super::*;
    use crate::policy::testing::TempDir;

    #[test]
    fn who_may_change_a_profile() {
        let mut stat = stat("/").expect("stat");
        for (uid, mode, links, caller, is_refused) in [
            (1000, 0o600, 1, 1000, false),
            (1000, 0o644, 1, 1000, false),
            (0, 0o644, 1, 1000, false),
            // As a package store has it.
            (0, 0o444, 2, 1000, false),
            (0, 0o644, 1, 0, false),
            (1000, 0o664, 1, 1000, true),
            (1000, 0o646, 1, 1000, true),
            (0, 0o664, 1, 1000, true),
            (1001, 0o600, 1, 1000, true),
            (1000, 0o600, 1, 0, true),
            (1000, 0o600, 2, 1000, true),
            (0, 0o600, 2, 0, true),
        ] {
            (stat.st_uid, stat.st_mode, stat.st_nlink) = (uid, libc::S_IFREG | mode, links);
            let remedy = is_others(&stat, caller);
            assert_eq!(
                remedy.is_some(),
                is_refused,
                "{uid} {mode:o} {links} {caller}"
            );
        }
    }

    #[test]
    fn the_checkouts_around_a_clone() {
        let temp = TempDir::new();
        for dir in [
            "home/.git",
            "home/src/.git",
            "home/src/part/deep",
            "home/src/own",
            "home/src/made/.git",
            "home/src/made/deep",
        ] {
            temp.dir(dir);
        }
        // A linked worktree has a file.
        temp.file("home/src/own/.git", "gitdir: elsewhere");
        let homes = [temp.at("home")];
        for (clone, around) in [
            ("home/src", &[][..]),
            ("home/src/own", &["home/src"]),
            ("home/src/part", &["home/src"]),
            ("home/src/part/deep", &["home/src"]),
            // The command of an earlier run can make the inner one.
            ("home/src/made", &["home/src"]),
            ("home/src/made/deep", &["home/src", "home/src/made"]),
            ("home/other", &[]),
            ("", &[]),
        ] {
            let found = checkouts_around(&temp.at(clone), &homes, &[]);
            let around = around.iter().map(|around| temp.at(around));
            assert_eq!(found, around.collect::<Vec<_>>(), "{clone}");
        }
        let clone = temp.at("home/other");
        assert_eq!(checkouts_around(&clone, &[], &[]), [temp.at("home")]);
        let inner = [temp.at("home/src/part")];
        let clone = temp.at("home/src/made");
        let found = checkouts_around(&clone, &inner, &[]);
        assert_eq!(found, [] as [PathBuf; 0], "home and src hold a home");
    }
}
