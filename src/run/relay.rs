//! Moving the command's three standard descriptors, as tasks of the event loop.

use std::io;
use std::os::fd::BorrowedFd;

use nix::unistd::{dup2_stdin, dup2_stdout};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::broker::key::Key;
use crate::broker::key_source::LineReader;
use crate::ns::stdio::Pump;
use crate::refusal::Refusal;
use crate::say;

use super::events::failed;
use super::pump::{self, Input};

/// The exit code where the command ended well but its output couldn't be written.
pub(super) const OUTPUT_LOST: i32 = 1;

/// The descriptors being written to, and how that ended.
pub(super) type Outputs = JoinSet<(i32, io::Result<()>)>;

/// Starts moving the output, and gets the input ready.
pub(super) fn start(pumps: Vec<Pump>) -> Result<(Outputs, Option<Input>), Refusal> {
    let mut outputs = JoinSet::new();
    let mut input = None;
    for Pump {
        outer,
        inner,
        reader,
    } in pumps
    {
        let fd = standard_fd(outer);
        if let Some(reader) = reader {
            let made = Input::new(inner, reader, fd)
                .map_err(|error| failed("watch standard input", &error))?;
            input = Some(made);
        } else {
            outputs.spawn(async move { (outer, pump::output(inner, fd).await) });
        }
    }
    Ok((outputs, input))
}

/// Moves the input, if there is any to be moved, and lets go of the caller's side,
/// whose writer then sees that nobody reads. Says whether it was cut short. `key`
/// is told the input's first line, which isn't the command's.
pub(super) async fn feed(
    input: Option<&mut Input>,
    key: Option<oneshot::Sender<Result<Key, Refusal>>>,
) -> bool {
    if let Some(tell) = key {
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

/// Whether output of the command's was lost, which is said. A reader that has gone
/// is none of our business: the command gets its SIGPIPE.
pub(super) fn is_lost(result: Result<(i32, io::Result<()>), tokio::task::JoinError>) -> bool {
    let (outer, error) = match result {
        Ok((outer, Err(error))) => (outer, error),
        Ok((outer, Ok(()))) => {
            let_go(outer);
            return false;
        }
        Err(_) => return false,
    };
    if error.kind() == io::ErrorKind::BrokenPipe {
        return false;
    }
    let name = if outer == 1 { "output" } else { "error" };
    say::note(format_args!("standard {name} is lost: {error}"));
    true
}

/// One of this process's descriptors 0 to 2, which are never closed.
fn standard_fd(number: i32) -> BorrowedFd<'static> {
    match number {
        0 => crate::sys::process::stdin(),
        1 => crate::sys::process::stdout(),
        _ => crate::sys::process::stderr(),
    }
}
