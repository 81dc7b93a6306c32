//! Filters that ask a listener, which answers in the kernel's place
//! (seccomp_unotify(2)). An answer is an errno or success with nothing done; the kernel
//! is never told to go on with a call. For the supervisor, which explains what was
//! denied, and for a proof that a call gets past the filters that are there.

use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use seccompiler::sock_filter;

/// A call: its number and its arguments.
pub type Call = (libc::c_long, [u64; 6]);

/// `SECCOMP_IOCTL_NOTIF_RECV`, `SECCOMP_IOCTL_NOTIF_SEND` and
/// `SECCOMP_IOCTL_NOTIF_ID_VALID`, linux/seccomp.h.
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const IS_VALID: libc::c_ulong = 0x4008_2102;

/// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`, linux/seccomp.h, which libc lacks.
const WAIT_KILLABLE: libc::c_ulong = 1 << 5;

/// A listener that answers in the kernel's place; close-on-exec, the caller's.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What it is answered by.
    pub id: u64,
    /// The thread that made it, in the listener's pid namespace; 0 if it has none there.
    pub thread: u32,
    /// The call; the kernel's copy, which nobody can change.
    pub call: Call,
}

/// What a listener is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// This call waits.
    Of(Asked),
    /// No call waits.
    Nothing,
    /// No thread is left that could make one.
    Gone,
}

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
    let listener = install(&program(numbers)?)?;
    let answered = Answered {
        numbers: numbers.to_vec(),
        _of_this_thread: std::marker::PhantomData,
    };
    Ok((listener, answered))
}

/// Installs `program` for the calling thread, for good, and returns its listener. A call
/// that the listener has taken waits for the answer, whatever signal comes but a deadly
/// one (`SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`, Linux 5.19): it isn't made again, and
/// asked about twice.
///
/// # Errors
/// As for [`super::seccomp::install`]; and `EBUSY`: an older filter has a listener.
pub fn install(program: &[sock_filter]) -> Result<Listener, Errno> {
    let program = libc::sock_fprog {
        len: libc::c_ushort::try_from(program.len()).map_err(|_| Errno::EINVAL)?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE;
    // SAFETY: `program` points at `len` instructions in the kernel's layout, which
    // outlive the call and aren't written to.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    let fd = RawFd::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(Listener(unsafe { OwnedFd::from_raw_fd(fd) }))
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
        self.answer(self.receive()?.id, 0)
    }

    /// Takes a call if one waits, without waiting.
    ///
    /// # Errors
    /// ioctl(2)'s, but for those of a caller that is gone meanwhile, which is nothing.
    pub fn take(&self) -> Result<Told, Errno> {
        loop {
            let mut asked = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
            poll(&mut asked, PollTimeout::ZERO)?;
            let told = asked[0].revents().unwrap_or(PollFlags::empty());
            if !told.contains(PollFlags::POLLIN) {
                let is_over = told.contains(PollFlags::POLLHUP);
                return Ok(if is_over { Told::Gone } else { Told::Nothing });
            }
            // The kernel counts the calls that came, not those that are left, so this
            // doesn't wait; another may be there where this one's caller is gone.
            match self.receive() {
                Ok(asked) => return Ok(Told::Of(asked)),
                Err(Errno::ENOENT | Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Answers a call with an errno, or with success and nothing done (0).
    ///
    /// # Errors
    /// ioctl(2)'s. `ENOENT`: the caller is gone.
    pub fn answer(&self, id: u64, errno: u16) -> Result<(), Errno> {
        self.ioctl(SEND, &mut response(id, errno))
    }

    /// Whether the caller still waits, so that what was read of its thread was its own.
    pub fn is_waiting(&self, id: u64) -> bool {
        self.ioctl(IS_VALID, &mut [id]).is_ok()
    }

    fn receive(&self) -> Result<Asked, Errno> {
        // struct seccomp_notif: id, pid and flags, seccomp_data (number and architecture,
        // instruction, arguments). The kernel wants zeros.
        let mut received = [0_u64; 10];
        self.ioctl(RECEIVE, &mut received)?;
        let [id, thread, number, _, args @ ..] = received;
        let low = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        Ok(Asked {
            id,
            thread: low(thread),
            call: (libc::c_long::from(low(number)), args),
        })
    }

    fn ioctl(&self, request: libc::c_ulong, words: &mut [u64]) -> Result<(), Errno> {
        let fd = self.as_fd().as_raw_fd();
        // SAFETY: `words` is as long as the structure that the request's number names
        // (80, 24 and 8 bytes), and is borrowed for the whole call.
        let done = unsafe { libc::ioctl(fd, request, words.as_mut_ptr()) };
        Errno::result(done).map(drop)
    }
}

impl From<OwnedFd> for Listener {
    /// Of a listener that another process has made.
    fn from(fd: OwnedFd) -> Self {
        Listener(fd)
    }
}

/// struct seccomp_notif_resp: the id, the value, and the error, negative, with the flags
/// in the upper half, which are zero for every errno.
fn response(id: u64, errno: u16) -> [u64; 3] {
    let error = 0_u32.wrapping_sub(u32::from(errno));
    [id, 0, u64::from(error)]
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

#[cfg(test)]
mod tests {
    use super::*;

    /// With a flag in it, the kernel would make the call.
    #[test]
    fn no_answer_has_a_flag() {
        for errno in 0..=u16::MAX {
            let [id, value, word] = response(u64::MAX, errno);
            assert_eq!((id, value), (u64::MAX, 0));
            assert_eq!(word >> 32, 0, "{errno}");
            let error = u32::try_from(word).unwrap().cast_signed();
            assert_eq!(error, -i32::from(errno));
        }
    }
}
