//! Whether a user id is in use.

use nix::errno::Errno;

/// Whether any process has this real user id: `getpriority(2)` with `PRIO_USER`
/// answers ESRCH if none has. Processes outside the own pid namespace aren't
/// seen. Any other answer counts as "yes".
pub fn has_process(uid: u32) -> bool {
    // A priority of -1 is a valid answer, so errno alone tells.
    Errno::clear();
    // SAFETY: getpriority takes two integers and touches no memory of ours.
    let answer = unsafe { libc::getpriority(libc::PRIO_USER, uid) };
    answer != -1 || Errno::last() != Errno::ESRCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_id_is_in_use_and_an_unused_one_is_not() {
        assert!(has_process(nix::unistd::getuid().as_raw()));
        assert!(!has_process(2_147_000_123));
    }
}
