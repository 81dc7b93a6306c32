//! Memory of this process that other processes can read through /proc.

use std::ops::Range;

/// Zeroes the strings that the kernel shows as /proc/PID/cmdline or environ.
/// Reading them through `std::env` afterwards gives empty strings.
///
/// The ranges are those of /proc/self/stat (fields 48 to 51, proc_pid_stat(5)),
/// taken from this process or the one that it was forked from.
pub fn wipe_strings(range: Range<usize>) {
    let length = range.end.saturating_sub(range.start);
    if range.start == 0 || length == 0 {
        return;
    }
    // SAFETY: the kernel laid these strings out on the main stack at execve; they
    // stay mapped and writable for the life of the process, and this process,
    // which has one thread, holds no reference into them: `std::env` copies.
    unsafe { std::ptr::write_bytes(range.start as *mut u8, 0, length) };
}
