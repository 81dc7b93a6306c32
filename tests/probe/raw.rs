//! Every unsafe line of the probe: the kernel called by number.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::ForkResult;

use crate::Outcome;

/// `syscall(2)` with up to six arguments; missing ones are 0.
pub(crate) fn sys(nr: i64, args: &[u64]) -> Result<i64, Errno> {
    let arg = |at: usize| args.get(at).copied().unwrap_or(0);
    // SAFETY: the probe exists to hand the kernel any arguments. Addresses
    // come from `address` or `value::Value`, whose owners outlive the call,
    // and no caller maps, unmaps or moves memory.
    let result = unsafe { libc::syscall(nr, arg(0), arg(1), arg(2), arg(3), arg(4), arg(5)) };
    Errno::result(result)
}

/// A value's address, as a syscall takes it.
pub(crate) fn address<T: ?Sized>(value: &T) -> u64 {
    std::ptr::from_ref(value).cast::<u8>().addr() as u64
}

/// The address of a value that the kernel writes to.
pub(crate) fn address_mut<T: ?Sized>(value: &mut T) -> u64 {
    std::ptr::from_mut(value).cast::<u8>().expose_provenance() as u64
}

/// A NUL-terminated copy.
pub(crate) fn cstring(text: &str) -> CString {
    CString::new(text).expect("no NUL byte in an argument")
}

/// Takes over a descriptor that a syscall returned.
pub(crate) fn owned(fd: i64) -> OwnedFd {
    let fd = RawFd::try_from(fd).expect("a descriptor");
    // SAFETY: the kernel has just made this descriptor for the caller alone.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// `fork(2)`.
pub(crate) fn fork() -> nix::Result<ForkResult> {
    // SAFETY: called while the probe has one thread, so the child may do anything.
    unsafe { nix::unistd::fork() }
}

/// getpid (20 of the 32-bit table) through the 32-bit entry.
pub(crate) fn getpid_by_int80() -> i32 {
    let result: i32;
    // SAFETY: getpid takes no argument and touches no memory; the 32-bit entry
    // clears r8 to r11, which are declared as lost.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") 20 => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    result
}

/// Runs `work` in a child and returns its outcome as printed, or the signal
/// that ended it ("SIGSYS").
pub(crate) fn in_child(work: impl FnOnce() -> Outcome) -> String {
    let (read, write) = nix::unistd::pipe().expect("a pipe");
    match fork().expect("a child") {
        ForkResult::Child => {
            let line = crate::shown(&work());
            nix::unistd::write(&write, line.as_bytes()).expect("the pipe takes a line");
            exit_now(0)
        }
        ForkResult::Parent { child } => {
            drop(write);
            let mut line = String::new();
            File::from(read).read_to_string(&mut line).expect("text");
            match waitpid(child, None) {
                Ok(WaitStatus::Signaled(_, signal, _)) => signal.as_str().into(),
                _ => line,
            }
        }
    }
}

/// Ends a forked child without running the parent's exit handlers.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` touches nothing of this process.
    unsafe { libc::_exit(code) }
}

/// Sets a signal's disposition: 0 is the default, 1 ignores it.
pub(crate) fn disposition(signal: i32, handler: u64) -> Result<(), Errno> {
    // struct kernel_sigaction: handler, flags, restorer, mask.
    let action = [handler, 0, 0, 0];
    let args = [number(signal), address(&action), 0, 8];
    sys(libc::SYS_rt_sigaction, &args).map(drop)
}

/// `ioctl(2)` whose argument is a structure that the kernel fills in or reads.
pub(crate) fn ioctl<T: ?Sized>(
    fd: &impl std::os::fd::AsFd,
    request: u64,
    value: &mut T,
) -> Result<i64, Errno> {
    let fd = fd.as_fd().as_raw_fd();
    sys(libc::SYS_ioctl, &[number(fd), request, address_mut(value)])
}

/// A descriptor or other signed number as a syscall argument.
pub(crate) fn number(value: i32) -> u64 {
    i64::from(value).cast_unsigned()
}
