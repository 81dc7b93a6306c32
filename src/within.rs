//! Whether one path lies in another, as often as it takes to hold a mount table against
//! a plan: [`Path::starts_with`] takes both to pieces each time.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Whether `path` is `folder`, or lies beneath it. Both are absolute and clean, as the
/// kernel writes them: without `.`, `..`, empty components and a slash at the end.
pub(crate) fn is_within(path: &Path, folder: &Path) -> bool {
    let (path, folder) = (path.as_os_str().as_bytes(), folder.as_os_str().as_bytes());
    match path.strip_prefix(folder) {
        Some([]) => true,
        Some([next, ..]) => *next == b'/' || folder == b"/",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
