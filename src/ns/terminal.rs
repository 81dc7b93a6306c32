//! The jail's own terminal. Pid 1 makes it, of the jail's devpts; the supervisor gets
//! the master, and no process of the jail keeps it.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use crate::refusal::{Reason, Refusal};
use crate::sys::terminal;

use super::channel::{Channel, FromJail};

/// Opens a terminal of the devpts at `devpts`, makes it this session's, and sends the
/// master to the supervisor. Returns the slave, which belongs to this process's ids.
///
/// # Errors
/// `setup`, with the call.
pub fn make(devpts: &Path, channel: &Channel) -> Result<OwnedFd, Refusal> {
    let master = open(
        &devpts.join("ptmx"),
        // Not blocking, for the supervisor's event loop.
        OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK,
        Mode::empty(),
    )
    .map_err(refuse("open"))?;
    terminal::unlock(&master).map_err(refuse("ioctl(TIOCSPTLCK)"))?;
    // By the master and not by its name: nothing that is mounted there matters.
    let slave = terminal::peer(&master).map_err(refuse("ioctl(TIOCGPTPEER)"))?;
    terminal::control(&slave).map_err(refuse("ioctl(TIOCSCTTY)"))?;
    channel
        .send_with(&FromJail::Terminal, &[master.as_fd()])
        .map_err(refuse("sendmsg"))?;
    Ok(slave)
}

/// Takes the master that came with [`FromJail::Terminal`]: the caller's, non-blocking
/// and close-on-exec.
///
/// # Errors
/// `setup`: it isn't a master.
pub fn judge(handed: Vec<OwnedFd>) -> Result<OwnedFd, Refusal> {
    let [master] =
        <[OwnedFd; 1]>::try_from(handed).map_err(|_| refuse("recvmsg")(Errno::EBADMSG))?;
    terminal::number(&master).map_err(refuse("ioctl(TIOCGPTN)"))?;
    Ok(master)
}

fn refuse(call: &'static str) -> impl Fn(Errno) -> Refusal {
    move |errno| {
        Refusal::new(Reason::Setup, "make the jail's terminal")
            .about(call)
            .errno(errno)
            .remedy("an outer sandbox denies it: allow it there, or give --no-tty")
    }
}
