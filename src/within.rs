//! Whether one path lies in another, as often as it takes to hold a mount table against
//! a plan: [`Path::starts_with`] takes both to pieces each time.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Whether `path` is `folder`, or lies beneath it. Both are absolute and clean, as the
/// kernel writes them: without `.`, `..`, empty components and a slash at the end.
pub(crate) fn is_within(path: &Path, folder: &Path) -> bool {
    let (path, folder) = (path.as_os_str().as_bytes(), folder.as_os_str().as_bytes());
    debug_assert!(is_clean(path) && is_clean(folder), "unclean");
    match path.strip_prefix(folder) {
        Some([]) => true,
        Some([next, ..]) => *next == b'/' || folder == b"/",
        None => false,
    }
}

fn is_clean(path: &[u8]) -> bool {
    let is_plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    match path.strip_prefix(b"/") {
        Some(rest) => rest.is_empty() || rest.split(|byte| *byte == b'/').all(is_plain),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the library would say otherwise: who gives them has made a mistake.
    #[cfg(debug_assertions)]
    #[test]
    fn what_is_not_clean_is_no_answer() {
        for unclean in ["", "a", "/a/", "//", "/a//b", "/./a", "/a/../b", "/a/."] {
            for (path, folder) in [("/a/b", unclean), (unclean, "/a")] {
                let answer =
                    std::panic::catch_unwind(|| is_within(Path::new(path), Path::new(folder)));
                assert!(answer.is_err(), "{path:?} {folder:?}: {answer:?}");
            }
        }
    }

    #[test]
    fn as_the_library_has_it() {
        let paths = ["/", "/a", "/ab", "/a/b", "/a/bc", "/a/b/c", "/b"].map(Path::new);
        let mut within = 0;
        for path in paths {
            for folder in paths {
                assert_eq!(
                    is_within(path, folder),
                    path.starts_with(folder),
                    "{path:?} {folder:?}"
                );
                within += usize::from(is_within(path, folder));
            }
        }
        assert_eq!(
            within,
            7 + 6 + 4,
            "each in itself, in the root, and in /a and /a/b"
        );
    }
}
