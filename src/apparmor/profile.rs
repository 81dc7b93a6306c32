//! The profile's text, and whether this binary may have one.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};

use super::open_to_others;

/// By this line `--install` and `--remove` know their own file.
pub(super) const MARK: &str =
    "# Made by `groom-ns setup apparmor --install`; undone by `--remove`.";

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

/// The profile of the running binary.
///
/// # Errors
/// `path`: the path has characters with a meaning in AppArmor's language, or somebody
/// but root could put another program there.
pub(super) fn of_this_binary() -> Result<String, Refusal> {
    let binary = std::env::current_exe().map_err(|error| {
        Refusal::new(Reason::Setup, "find this program").about(error.to_string())
    })?;
    let path = plain(&binary)?;
    only_roots(&binary)?;
    Ok(text(path))
}

/// The path as text. AppArmor's paths are patterns with variables, quotes and escapes;
/// what could be one of these isn't quoted but refused.
pub(super) fn plain(path: &Path) -> Result<&str, Refusal> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(byte);
    match path.to_str() {
        Some(text) if path.is_absolute() && path.as_os_str().as_bytes().iter().all(is_plain) => {
            Ok(text)
        }
        _ => Err(Refusal::new(Reason::Path, "name this binary in a profile")
            .path(path)
            .remedy(
                "put it at a path of letters, digits and `._+-`, such as /usr/local/bin/groom-ns",
            )),
    }
}

/// Refuses a file that others than root can write to, or replace in any of its folders.
pub(super) fn only_roots(path: &Path) -> Result<(), Refusal> {
    const STEP: &str = "see that only root can change this binary";
    const REMEDY: &str = "the profile would bless what others put there: install it root-owned, \
         as with `sudo install groom-ns /usr/local/bin/`";
    let mut current = PathBuf::new();
    for part in path {
        current.push(part);
        let meta = current.symlink_metadata().map_err(|error| {
            Refusal::new(Reason::Path, STEP)
                .path(&current)
                .errno(Errno::try_from(error).unwrap_or(Errno::EIO))
        })?;
        // A link here is one that appeared since the kernel resolved the path. The
        // group's bits are the mask of an access control list, too (acl(5)).
        let is_open = meta.is_symlink() || meta.uid() != 0 || meta.mode() & 0o022 != 0;
        if is_open && stands(Mechanism::ProfileForRootsBinary) {
            return Err(open_to_others(STEP, &current, REMEDY));
        }
    }
    Ok(())
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
    fn what_others_can_write_to_is_refused() {
        assert_eq!(only_roots(Path::new("/usr/bin/env")), Ok(()), "vacuous");
        // Anybody can make a file in /tmp.
        let refusal = only_roots(Path::new("/tmp")).expect_err("refused");
        assert_eq!(refusal.reason, Reason::Path);
        assert!(refusal.remedy.contains("/usr/local/bin"));
    }
}
