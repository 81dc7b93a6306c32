//! The way of the filter's listener from the command's process to the supervisor.

use std::os::fd::{AsFd as _, OwnedFd};

use nix::errno::Errno;

use super::channel::{Channel, FromJail};
use crate::refusal::{Reason, Refusal};
use crate::sabotage;
use crate::sys::notify::Listener;

/// Hands the listener to the supervisor, and keeps none: whoever has it could have a
/// denied call made.
pub(super) fn hand_over(channel: &Channel, listener: Listener) -> Result<(), Refusal> {
    channel
        .send_with(&FromJail::Asking, &[listener.as_fd()])
        .map_err(|errno| refusal().about("send").errno(errno))?;
    sabotage::keep(&listener);
    drop(listener);
    Ok(())
}

/// The listener that came along with [`FromJail::Asking`].
///
/// # Errors
/// `setup`: none did.
pub fn taken(handed: Vec<OwnedFd>) -> Result<Listener, Refusal> {
    let [fd] = <[OwnedFd; 1]>::try_from(handed).map_err(|_| refusal().errno(Errno::EBADMSG))?;
    Ok(Listener::from(fd))
}

fn refusal() -> Refusal {
    Refusal::new(Reason::Setup, "hand the filter's listener over")
}
