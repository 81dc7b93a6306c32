//! Processes that stay, die, or wait for signals.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, raise};
use nix::unistd::{ForkResult, setsid};

use crate::{Outcome, raw, value};

fn pause(seconds: &str) {
    std::thread::sleep(Duration::from_secs(seconds.parse().expect("seconds")));
}

fn say_ready() {
    println!("ready");
    std::io::stdout().flush().expect("stdout");
}

/// Says `ready` and sleeps.
pub(crate) fn sleep(seconds: &str) -> String {
    say_ready();
    pause(seconds);
    "slept".into()
}

/// The same, deaf to every signal that can be blocked.
pub(crate) fn stubborn(seconds: &str) -> String {
    SigSet::all().thread_block().expect("a mask");
    sleep(seconds)
}

/// Leaves a deaf grandchild of its own session behind, which keeps stdout
/// open, and ends once it is there.
pub(crate) fn daemon(seconds: &str) -> Outcome {
    let (mut ours, mut theirs) = UnixStream::pair().map_err(|_| Errno::EPROTO)?;
    if let ForkResult::Child = raw::fork()? {
        setsid()?;
        if let ForkResult::Child = raw::fork()? {
            SigSet::all().thread_block()?;
            theirs.write_all(b"x").map_err(|_| Errno::EPROTO)?;
            pause(seconds);
        }
        raw::exit_now(0);
    }
    drop(theirs);
    ours.read_exact(&mut [0]).map_err(|_| Errno::EPROTO)?;
    Ok("daemon".into())
}

/// Says `ready`, waits for a signal that can be caught, and names it.
pub(crate) fn catch() -> String {
    let mut signals = SigSet::all();
    signals.thread_block().expect("a mask");
    // Children and writes to closed pipes are nobody's message.
    signals.remove(Signal::SIGCHLD);
    signals.remove(Signal::SIGPIPE);
    say_ready();
    signals.wait().expect("a signal").as_str().into()
}

pub(crate) fn die_by(signal: &str) -> Outcome {
    let number = i32::try_from(value::integer(signal)).map_err(|_| Errno::EINVAL)?;
    // Rust's runtime has a handler for the signals of a crash.
    if ![libc::SIGKILL, libc::SIGSTOP].contains(&number) {
        raw::disposition(number, 0)?;
    }
    raise(Signal::try_from(number)?)?;
    Ok("survived".into())
}

/// Makes threads that each count, and waits for them.
pub(crate) fn threads(count: &str) -> String {
    let count: u64 = count.parse().expect("a count");
    let threads: Vec<_> = (0..count)
        .map(|at| std::thread::spawn(move || at))
        .collect();
    let sum: u64 = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .sum();
    sum.to_string()
}
