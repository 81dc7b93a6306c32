//! Moving the command's three standard descriptors, as tasks of the event loop.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::unistd::{dup2_stdin, dup2_stdout};
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;

use crate::broker::key::Key;
use crate::broker::key_source::LineReader;
use crate::ns::stdio::Pump;
use crate::refusal::Refusal;
use crate::say;

use super::bounds::Allowance;
use super::events::failed;
use super::pump::{self, Input};
use super::terminal::Terminal;

/// The exit code where the command ended well but its output couldn't be written.
pub(super) const OUTPUT_LOST: i32 = 1;

/// The descriptors being written to, and how that ended.
pub(super) struct Outputs {
    moving: JoinSet<(i32, io::Result<()>)>,
    /// How much may be moved, by all of them.
    allowance: Allowance,
}

impl Outputs {
    /// Starts moving what comes from `inner` to one of the caller's descriptors;
    /// `is_idle` says whether all that was read is written.
    pub(super) fn spawn(&mut self, outer: i32, inner: OwnedFd, is_idle: Arc<AtomicBool>) {
        let allowance = self.allowance.clone();
        let moving = pump::output(inner, standard_fd(outer), is_idle, allowance);
        self.moving.spawn(async move { (outer, moving.await) });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.moving.is_empty()
    }

    /// Reads what can't be moved any more, until the command's side ends.
    pub(super) fn discard(&mut self, outer: i32, inner: OwnedFd) {
        let discarding = pump::discard(inner);
        self.moving.spawn(async move { (outer, discarding.await) });
    }

    /// Waits for one to end. For ever if there is none.
    pub(super) async fn next(&mut self) -> Moved {
        match self.moving.join_next().await {
            Some(result) => moved(result),
            None => std::future::pending().await,
        }
    }
}

/// How the moving of an output ended.
pub(super) enum Moved {
    /// The command's side has ended.
    Whole,
    /// What the command writes to this descriptor has nowhere to go; whether some of it
    /// was lost, or its reader has gone, as may be.
    Nowhere(i32, bool),
}

/// Starts moving the output, as much of it as may be, and gets the input ready, which is to be typed where there
/// is a terminal.
pub(super) fn start(
    pumps: Vec<Pump>,
    terminal: Option<&Terminal>,
    allowance: Allowance,
) -> Result<(Outputs, Option<Input>), Refusal> {
    let unwatched = |error: io::Error| failed("watch standard input", &error);
    let mut outputs = Outputs {
        moving: JoinSet::new(),
        allowance,
    };
    let mut input = terminal
        .filter(|terminal| terminal.is_jails)
        .map(|terminal| Input::typed(terminal.gate(), standard_fd(0)).map_err(unwatched))
        .transpose()?;
    for Pump {
        outer,
        inner,
        reader,
    } in pumps
    {
        if let Some(reader) = reader {
            let made = Input::new(inner, reader, standard_fd(outer)).map_err(unwatched)?;
            input = Some(made);
        } else {
            outputs.spawn(outer, inner, Arc::default());
        }
    }
    Ok((outputs, input))
}

/// Whom the input waits for.
pub(super) struct Awaited {
    /// Is told the input's first line, which isn't the command's.
    pub(super) key: Option<oneshot::Sender<Result<Key, Refusal>>>,
    /// Tells when it may be read, if not at once.
    pub(super) key_gate: Option<Receiver<bool>>,
    /// Brings the jail's terminal.
    pub(super) terminal: Option<oneshot::Receiver<AsyncFd<OwnedFd>>>,
}

/// Moves the input, if there is any to be moved, and lets go of the caller's side,
/// whose writer then sees that nobody reads. Says whether it was cut short.
pub(super) async fn feed(input: Option<&mut Input>, awaited: Awaited) -> bool {
    if let Some(tell) = awaited.key {
        if let Some(mut gate) = awaited.key_gate {
            // Whoever opens it lives longer than this.
            let _ = gate.wait_for(|is_open| *is_open).await;
        }
        let line = match &input {
            Some(input) => input.key().await,
            None => LineReader::new().and_then(LineReader::finish),
        };
        // Refused meanwhile: the refusal is on its way.
        let _ = tell.send(line);
    }
    let Some(input) = input else {
        return false;
    };
    if let Some(arrives) = awaited.terminal {
        // Where it doesn't arrive, nobody was started who could read.
        let Ok(master) = arrives.await else {
            return false;
        };
        input.attach(master);
    }
    let result = input.pump().await;
    input.close();
    match result {
        Ok(()) => false,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            let_go(0);
            false
        }
        Err(error) => {
            say::note(format_args!("standard input is cut short: {error}"));
            true
        }
    }
}

/// Puts /dev/null in the place of standard input or output, so that whoever is at
/// the other end sees that the command has closed its own. Standard error is kept
/// for what groom-ns says.
fn let_go(number: i32) {
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null");
    // What can't be closed early is closed at the end.
    if let Ok(null) = null {
        let _ = match number {
            0 => dup2_stdin(null),
            1 => dup2_stdout(null),
            _ => Ok(()),
        };
    }
}

/// What became of an output; that some was lost is said. A reader that has gone
/// is none of our business: the command gets its SIGPIPE, or hang-up.
fn moved(result: Result<(i32, io::Result<()>), tokio::task::JoinError>) -> Moved {
    let (outer, error) = match result {
        Ok((outer, Err(error))) => (outer, error),
        Ok((outer, Ok(()))) => {
            let_go(outer);
            return Moved::Whole;
        }
        Err(_) => return Moved::Whole,
    };
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Moved::Nowhere(outer, false);
    }
    let name = if outer == 1 { "output" } else { "error" };
    say::note(format_args!("standard {name} is lost: {error}"));
    Moved::Nowhere(outer, true)
}

/// One of this process's descriptors 0 to 2, which are never closed.
fn standard_fd(number: i32) -> BorrowedFd<'static> {
    match number {
        0 => crate::sys::process::stdin(),
        1 => crate::sys::process::stdout(),
        _ => crate::sys::process::stderr(),
    }
}
