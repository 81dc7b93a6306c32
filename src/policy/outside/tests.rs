//! What is said, as words; `tests/git/alternates.rs` has what git finds.

use super::*;

#[test]
fn a_path_is_one_word_of_a_shell() {
    for (path, word) in [
        ("/a/b-c_d.e/objects", "/a/b-c_d.e/objects"),
        ("/a b", "'/a b'"),
        ("/a;rm -rf ~", "'/a;rm -rf ~'"),
        ("/a'$(b)", r"'/a'\''$(b)'"),
        ("/a\nb", r"'/a\nb'"),
        ("/é", "/é"),
    ] {
        assert_eq!(quoted(Path::new(path)), word);
    }
}

#[test]
fn what_is_absent_or_unreadable_is_no_error_and_the_rest_is() {
    for errno in [
        Errno::ENOENT,
        Errno::EACCES,
        Errno::EFBIG,
        Errno::ENXIO,
        Errno::EIO,
        Errno::EPERM,
    ] {
        assert_eq!(unless_absent::<()>(Err(errno)), Ok(None));
    }
    for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::ENOSYS] {
        assert_eq!(unless_absent::<()>(Err(errno)), Err(errno));
    }
    assert_eq!(unless_absent(Ok(7)), Ok(Some(7)));
}
