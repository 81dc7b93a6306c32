//! `groom-ns broker`: the broker apart from a run, for callers who keep the two apart.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::prctl::set_dumpable;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::unistd::{geteuid, write};
use tokio::io::Interest;

use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};
use crate::say;
use crate::signals::hold;
use crate::sys::process;
use crate::sys::watch::{watch, watch_or_back};
use crate::tty::Callers;

use super::bound::Bound;
use super::key::Key;
use super::key_source::KeySource;
use super::log::Log;
use super::serve::{Peers, Service};
use super::token::Token;
use super::{Broker, Config, Limits, TASKS_A_TURN, typed};

/// Where to listen.
#[derive(Debug)]
pub enum Listen {
    /// A UNIX socket: its opened folder (`O_PATH`), its name there, and its path.
    Unix {
        /// Owned; the socket is made and removed beneath it.
        parent: OwnedFd,
        /// The last part of the path.
        name: PathBuf,
        /// For messages.
        path: PathBuf,
    },
    /// A port of 127.0.0.1; 0: the kernel picks.
    Tcp(u16),
}

/// What `groom-ns broker` is to do, judged, and the descriptors that it was given.
#[derive(Debug)]
pub struct Alone {
    /// The broker itself.
    pub config: Config,
    /// Where the key comes from.
    pub key: KeySource,
    /// Where clients connect.
    pub listen: Listen,
    /// Whose processes may connect to a UNIX socket, beside the broker's own user's.
    pub peer_uid: Option<u32>,
    /// What clients must present, where they must.
    pub token: Option<Token>,
    /// Where requests are logged.
    pub log: Log,
    /// Told, beside standard output, when the broker listens. Owned, then closed.
    pub ready: Option<OwnedFd>,
}

/// Serves until SIGTERM or SIGINT (one that the caller ignores doesn't count), lets what is
/// under way come to its end, and returns the exit code: 1 where something had to be cut off.
///
/// # Errors
/// `key`, `broker`, `socket`: nothing is listened on.
pub fn run(alone: Alone) -> Result<u8, Refusal> {
    // Before the key is read: its memory is nobody's to look at.
    if stands(Mechanism::UndumpableBroker) {
        set_dumpable(false).map_err(setup("prctl(PR_SET_DUMPABLE)"))?;
    }
    // Nothing is made yet: a signal ends this process at once.
    let key = read_key(alone.key, &alone.config)?;
    let ends = [Signal::SIGTERM, Signal::SIGINT];
    let signals = hold(ends).map_err(|(call, errno)| setup(call)(errno))?;
    let tls = alone.config.tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .event_interval(TASKS_A_TURN)
        .build()
        .map_err(|error| setup("make the event loop")(errno_of(&error)))?;
    runtime.block_on(async {
        let is_guarded = alone.token.is_some();
        let bound = Bound::bind(&alone.listen, alone.peer_uid.is_some())?;
        let own = geteuid().as_raw();
        let peers = Peers::Users([own, alone.peer_uid.unwrap_or(own)]);
        let listener = bound.listener(peers)?;
        let broker = Broker::new(
            &alone.config,
            tls,
            key,
            alone.token,
            alone.log,
            Limits::here(),
        )?;
        let service = Service::new(broker);
        service.listen(listener);
        if let (Bound::Tcp(_), false) = (&bound, is_guarded) {
            say::note("broker: warning: every process of this machine may spend the key: give --token-file");
        }
        let is_told = tokio::select! {
            announced = announce(&bound, alone.ready) => announced.map(|()| false)?,
            told = wait(&signals) => told.map(|()| true)?,
        };
        if !is_told {
            wait(&signals).await?;
        }
        drop(bound);
        let is_whole = tokio::select! {
            is_whole = service.drain() => is_whole,
            second = wait(&signals) => second.map(|()| false)?,
        };
        if !is_whole {
            say::note("broker: requests under way were cut off");
        }
        Ok(u8::from(!is_whole))
    })
}

/// The key, from the terminal where it is typed.
fn read_key(source: KeySource, config: &Config) -> Result<Key, Refusal> {
    let terminal = match source {
        KeySource::Stdin => Callers::at_stdin(config.question())?,
        _ => None,
    };
    match terminal {
        Some(terminal) => typed::read_key(terminal),
        None => source.read(),
    }
}

/// Waits for one of them.
async fn wait(signals: &SignalFd) -> Result<(), Refusal> {
    use std::os::fd::AsFd as _;
    let failed = |error: io::Error| setup("watch the signals")(errno_of(&error));
    let watched = watch(signals.as_fd(), Interest::READABLE).map_err(failed)?;
    loop {
        watched.readable().await.map_err(failed)?.clear_ready();
        if let Ok(Some(_)) = signals.read_signal() {
            return Ok(());
        }
    }
}

/// One line, once clients can connect.
async fn announce(bound: &Bound<'_>, ready: Option<OwnedFd>) -> Result<(), Refusal> {
    let line = format!("ready {}\n", bound.address()?);
    let refuse = |error: io::Error| {
        Refusal::new(Reason::Setup, "say that the broker is ready")
            .about("write")
            .errno(errno_of(&error))
            .remedy("whoever started it must read it")
    };
    let stdout = process::stdout().try_clone_to_owned().map_err(refuse)?;
    let asked = async {
        match ready {
            Some(ready) => put(ready, line.as_bytes()).await,
            None => Ok(()),
        }
    };
    // At once: who doesn't read the one keeps the line from nobody who reads the other.
    let told = tokio::try_join!(asked, put(stdout, line.as_bytes()));
    told.map(drop).map_err(refuse)
}

/// Writes all of it, when there is room: a reader that doesn't read, or a terminal that
/// was stopped, doesn't hold the broker up. `fd` is closed.
async fn put(fd: OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let watched = match watch_or_back(say::unwaiting(fd), Interest::WRITABLE)? {
        Ok(watched) => watched,
        // A file, say.
        Err(always_ready) => return File::from(always_ready).write_all(bytes),
    };
    let mut left = bytes;
    while !left.is_empty() {
        let mut ready = watched.writable().await?;
        // What is remembered may be over: others write there, too.
        if !say::has_room(watched.get_ref()) {
            ready.clear_ready();
            continue;
        }
        match write(watched.get_ref(), left) {
            Ok(count) => left = left.get(count..).unwrap_or_default(),
            // A terminal with room for less than the end of a line.
            Err(Errno::EAGAIN) => ready.clear_ready(),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

pub(super) fn setup(call: &'static str) -> impl Fn(Errno) -> Refusal {
    move |errno| {
        Refusal::new(Reason::Setup, "set up the broker")
            .about(call)
            .errno(errno)
    }
}

pub(super) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}
