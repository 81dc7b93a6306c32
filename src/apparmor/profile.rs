//! The profile's text, and whether this binary may have one.

use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::files::errno;
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};

use super::open_to_others;

/// By this line `--install` and `--remove` know their own file.
pub(super) const MARK: &str =
    "# Made by `groom-ns setup apparmor --install`; undone by `--remove`.";

const NAMING: &str = "name this binary in a profile";

/// The profile of a binary. It confines nothing (`unconfined`), and allows `userns`.
/// `path` is canonical and has passed [`plain`].
pub fn text(path: &str) -> String {
    format!(
        "{MARK}\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         \n\
         profile groom-ns {path} flags=(unconfined) {{\n  \
           userns,\n\
         }}\n"
    )
}

/// The binary that a profile of this program's is for; none if it isn't one. It is known
/// by its first line and its only profile; another version may have worded the rest otherwise.
pub(super) fn binary_in(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    let is_marked = lines.next() == Some(MARK);
    let mut profiles = lines.filter(|line| line.starts_with("profile "));
    let (first, more) = (profiles.next()?, profiles.next());
    let (binary, _) = first
        .strip_prefix("profile groom-ns ")?
        .split_once(" flags=(unconfined) {")?;
    (is_marked && more.is_none()).then_some(binary)
}

/// The profile of the running binary, and its path.
///
/// # Errors
/// `path`: the path has characters with a meaning in AppArmor's language, or somebody
/// but root could put another program there.
pub(super) fn of_this_binary() -> Result<(String, String), Refusal> {
    let binary = std::env::current_exe().map_err(|error| {
        Refusal::new(Reason::Setup, "find this program").about(error.to_string())
    })?;
    let path = plain(&binary)?;
    only_roots(&binary)?;
    Ok((text(path), path.to_owned()))
}

/// The profile of a binary that will be at `path`; what is there now isn't looked at.
///
/// # Errors
/// `path`: it isn't absolute and plain, down to its last part: AppArmor compares it with
/// the canonical one, letter by letter.
pub(super) fn at(path: &Path) -> Result<String, Refusal> {
    let typed = plain(path)?;
    let mut parts = typed.split('/').skip(1);
    if parts.any(|part| matches!(part, "" | "." | "..")) {
        return Err(Refusal::new(Reason::Path, NAMING)
            .path(path)
            .remedy("give the binary's own path, without `//`, `.`, `..` or a slash at its end"));
    }
    Ok(text(typed))
}

/// The path as text. AppArmor's paths are patterns with variables, quotes and escapes;
/// what could be one of these isn't quoted but refused.
pub(super) fn plain(path: &Path) -> Result<&str, Refusal> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(byte);
    match path.to_str() {
        Some(text) if path.is_absolute() && path.as_os_str().as_bytes().iter().all(is_plain) => {
            Ok(text)
        }
        _ => Err(Refusal::new(Reason::Path, NAMING).path(path).remedy(
            "put it at a path of letters, digits and `._+-`, such as /usr/local/bin/groom-ns",
        )),
    }
}

/// Refuses a file that others than root can write to, or replace in any of its folders.
pub(super) fn only_roots(path: &Path) -> Result<(), Refusal> {
    const STEP: &str = "see that only root can change this binary";
    let mut current = PathBuf::new();
    for part in path {
        current.push(part);
        let meta = current.symlink_metadata().map_err(|error| {
            Refusal::new(Reason::Path, STEP)
                .path(&current)
                .errno(errno(error))
        })?;
        // A link here is one that appeared since the kernel resolved the path. The
        // group's bits are the mask of an access control list, too (acl(5)).
        let is_open = meta.is_symlink() || meta.uid() != 0 || meta.mode() & 0o022 != 0;
        if is_open && stands(Mechanism::ProfileForRootsBinary) {
            return Err(open_to_others(STEP, &current, remedy(&meta)));
        }
    }
    Ok(())
}

/// For the folder, or the binary, that others can change.
fn remedy(meta: &Metadata) -> &'static str {
    if meta.is_dir() {
        "others than root can write to this folder, and put another program there, which the \
         profile would bless: install it where each folder is root's alone, as with \
         `sudo install groom-ns /usr/bin/`, or do without a profile: `sudo groom-ns run`"
    } else {
        "the profile would bless what others write there: install it root-owned, as with \
         `sudo install groom-ns /usr/local/bin/`"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_this_profile() {
        let readme = include_str!("../../README.md");
        let shown = text("/usr/local/bin/groom-ns");
        assert!(readme.contains(&format!("```\n{shown}```\n")), "{shown}");
    }

    #[test]
    fn what_could_be_a_pattern_is_refused() {
        assert!(plain(Path::new("/usr/local/bin/groom-ns_1.0+b")).is_ok());
        for path in [
            "/opt/a b",
            "/opt/a*",
            "/opt/{a,b}",
            "/opt/a?",
            "/opt/[a]",
            "/opt/@{HOME}",
            "/opt/a\"",
            "/opt/a\\",
            "/opt/a#",
            "/opt/a,",
            "/opt/a^",
            "/opt/\u{e9}",
            "/opt/a\nb",
            "groom-ns",
            "",
            "/opt/groom-ns (deleted)",
        ] {
            let refusal = plain(Path::new(path)).expect_err(path);
            assert_eq!(refusal.reason, Reason::Path, "{path:?}");
        }
    }

    #[test]
    fn a_binary_that_will_be_somewhere() {
        assert_eq!(
            at(Path::new("/opt/bin/groom-ns")),
            Ok(text("/opt/bin/groom-ns"))
        );
        for path in [
            "/",
            "//opt/a",
            "/opt//a",
            "/opt/a/",
            "/opt/./a",
            "/opt/../a",
            "/opt/a/..",
            "opt/a",
            "",
            "/opt/a b",
            "/opt/*",
            "/opt/a\nb",
        ] {
            let refusal = at(Path::new(path)).expect_err(path);
            assert_eq!(refusal.reason, Reason::Path, "{path:?}");
            assert!(!refusal.remedy.is_empty(), "{refusal}");
        }
    }

    #[test]
    fn what_others_can_write_to_is_refused() {
        assert_eq!(only_roots(Path::new("/usr/bin/env")), Ok(()), "vacuous");
        // Anybody can make a file in /tmp.
        let refusal = only_roots(Path::new("/tmp")).expect_err("refused");
        assert_eq!(refusal.reason, Reason::Path);
        // Not what was just done, in the folder that is open.
        assert!(refusal.remedy.contains("install groom-ns /usr/bin/"));
        assert!(!refusal.remedy.contains("/usr/local/bin"));
    }

    #[test]
    fn our_own_are_known_by_their_mark_and_their_only_profile() {
        let own = text("/usr/bin/groom-ns");
        assert_eq!(binary_in(&own), Some("/usr/bin/groom-ns"));
        let other_words = own.replace("abi <abi/4.0>,\n", "# older\n");
        assert_eq!(binary_in(&other_words), Some("/usr/bin/groom-ns"));
        for foreign in [
            "",
            MARK,
            &own.replace(MARK, "#"),
            &own.replace("profile groom-ns ", "profile other "),
            &own.replace("flags=(unconfined) ", ""),
            &format!("{own}profile other /x {{}}\n"),
            &format!("\n{own}"),
        ] {
            assert_eq!(binary_in(foreign), None, "{foreign}");
        }
    }
}
