//! Whether a call gets past the filters that a thread is under already, found out
//! without making it (seccomp_unotify(2)).

use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use seccompiler::sock_filter;

/// A call: its number and its arguments.
pub type Call = (libc::c_long, [u64; 6]);

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`, linux/seccomp.h.
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;

/// A listener that answers in the kernel's place; close-on-exec, the caller's.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// The right to make calls of the numbers that a [`Listener`] answers. It is of the
/// thread that the filter was installed on, and can't leave it.
#[derive(Debug)]
pub struct Answered {
    numbers: Vec<libc::c_long>,
    _of_this_thread: std::marker::PhantomData<*const ()>,
}

/// Sends every call of these numbers that this thread makes from here on to a
/// listener, unless an older filter denies it: an errno goes before a listener
/// (seccomp(2), "SECCOMP_RET_ERRNO"). no_new_privs must be set.
///
/// # Errors
/// `EINVAL` for more than 255 numbers, and seccomp(2)'s.
pub fn listen(numbers: &[libc::c_long]) -> Result<(Listener, Answered), Errno> {
    let program = program(numbers)?;
    let program = libc::sock_fprog {
        len: libc::c_ushort::try_from(program.len()).map_err(|_| Errno::EINVAL)?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: `program` points at `len` instructions in the kernel's layout, which
    // outlive the call and aren't written to.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    let fd = RawFd::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us.
    let listener = Listener(unsafe { OwnedFd::from_raw_fd(fd) });
    let answered = Answered {
        numbers: numbers.to_vec(),
        _of_this_thread: std::marker::PhantomData,
    };
    Ok((listener, answered))
}

/// Loads the number, compares it with each, and asks the listener or allows.
fn program(numbers: &[libc::c_long]) -> Result<Vec<sock_filter>, Errno> {
    // BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K (linux/bpf_common.h).
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let op = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let mut program = vec![op(LOAD, 0, 0, 0)];
    let count = u8::try_from(numbers.len()).map_err(|_| Errno::EINVAL)?;
    for (left, number) in (0..count).rev().zip(numbers) {
        // Over the rest and the permission, to the listener.
        let number = u32::try_from(*number).map_err(|_| Errno::EINVAL)?;
        program.push(op(EQUAL, left + 1, 0, number));
    }
    program.push(op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    program.push(op(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF));
    Ok(program)
}

impl Answered {
    /// Makes a call. `Ok`: it got to the listener, which answered 0.
    ///
    /// # Errors
    /// An older filter's errno; `EINVAL` for a number that isn't the listener's.
    pub fn call(&self, (number, args): Call) -> Result<(), Errno> {
        if !self.numbers.contains(&number) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the kernel never makes this call. The filter of this very thread
        // sends it to the listener, and an older filter can only deny it or kill.
        let answer =
            unsafe { libc::syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]) };
        Errno::result(answer).map(drop)
    }
}

impl Listener {
    /// Waits until there is a call to be answered; false once no thread is left that
    /// could make one (`POLLHUP`).
    pub fn wait(&self) -> Result<bool, Errno> {
        let mut asked = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        poll(&mut asked, PollTimeout::NONE)?;
        let told = asked[0].revents().unwrap_or(PollFlags::empty());
        Ok(told.contains(PollFlags::POLLIN))
    }

    /// Waits for a call and answers 0, as if it had been made. `ENOENT`: the caller is
    /// gone, or was interrupted.
    pub fn answer_one(&self) -> Result<(), Errno> {
        // struct seccomp_notif: id, pid and flags, seccomp_data. The kernel wants zeros.
        let mut received = [0_u64; 10];
        self.ioctl(RECEIVE, &mut received)?;
        // struct seccomp_notif_resp: id, val, error and flags.
        let mut response = [received[0], 0, 0];
        self.ioctl(SEND, &mut response)
    }

    fn ioctl(&self, request: libc::c_ulong, words: &mut [u64]) -> Result<(), Errno> {
        let fd = self.as_fd().as_raw_fd();
        // SAFETY: `words` is as long as the structure that the request's number names
        // (80 and 24 bytes), and is borrowed for the whole call.
        let done = unsafe { libc::ioctl(fd, request, words.as_mut_ptr()) };
        Errno::result(done).map(drop)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// getpid(2) through the 32-bit entry (`int 0x80`), which has numbers of its own: 20.
pub fn getpid_by_int80() -> i32 {
    let pid: i32;
    // SAFETY: getpid takes no argument and touches no memory; the entry clears r8 to
    // r11, which are declared as lost.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") 20 => pid,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    pid
}
