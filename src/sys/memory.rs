//! Memory of this process: what others can read of it through /proc, and its heap.

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

/// Keeps freed memory instead of giving it back to the kernel and asking for it
/// again with every request (mallopt(3), M_TRIM_THRESHOLD).
pub fn keep_heap() {
    const AT_MOST: libc::c_int = 16 << 20; // bytes
    // SAFETY: it takes integers and sets a field of the allocator, which has no other
    // thread to race with. Refused, nothing changes.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, AT_MOST) };
}
