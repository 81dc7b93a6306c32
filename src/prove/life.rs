//! Promises 4 and 8: nothing survives. What lives shows by a lock on a file that only
//! it holds (flock(2)): a process of another pid namespace has no number here.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, setsid};

use crate::refusal::Refusal;
use crate::sys;
use crate::sys::process::{Forked, exit_at_once, fork_into};

use super::catalogue::Scene;
use super::ground::Ground;
use super::jail::{Side, own_path, refusal_in, trouble, words};
use super::proof::{Finding, SUCCESS};

/// Until a command has begun; a machine may be emulated.
const BEGINNING: Duration = Duration::from_secs(30);
/// Until what must be gone is gone.
const END: Duration = Duration::from_secs(5);

/// The ways in which a command's descendant is left behind.
const ENDINGS: [Ending; 3] = [
    Ending {
        probe: "daemon-stays",
        command: "daemon",
        behind_a_parent: false,
        killed: false,
    },
    Ending {
        probe: "outlive-killed-groom-ns",
        command: "hold",
        behind_a_parent: false,
        killed: true,
    },
    Ending {
        probe: "outlive-killed-parent",
        command: "hold",
        behind_a_parent: true,
        killed: true,
    },
];

struct Ending {
    probe: &'static str,
    /// What is started: `daemon` leaves a process of its own session that ignores
    /// signals, and ends; `hold` stays itself.
    command: &'static str,
    /// Whether what is killed is a process that has started it.
    behind_a_parent: bool,
    /// Whether what was started is killed; else it ends by itself.
    killed: bool,
}

/// Starts each outside and inside, ends it, and looks for who is left.
pub(super) fn prove(ground: &Ground) -> Result<Vec<Finding>, Refusal> {
    ENDINGS
        .iter()
        .map(|ending| {
            let control = left(ending, Side::Outside, ground)?;
            let claim = left(ending, Side::Inside, ground)?;
            Ok(Finding::of(
                "processes",
                ending.probe,
                control,
                claim,
                &[GONE],
            ))
        })
        .collect()
}

/// `ok` if a process is left; `gone` if none is.
fn left(ending: &Ending, side: Side, ground: &Ground) -> Result<String, Refusal> {
    let lock = ground
        .facts
        .out_dir()
        .join(format!("{}-{}", ending.probe, side.name()));
    fs::write(&lock, "").map_err(|error| trouble("make a lock").about(error.to_string()))?;
    let probe = [ending.command.into(), lock.clone().into()];
    let mut command = words(Scene::Plain, side, ground, &probe)?;
    // Outside there is no groom-ns above who holds the lock: that is the control.
    if ending.behind_a_parent || (ending.killed && side == Side::Outside) {
        command.splice(0..0, [own_path()?, "probe".into(), "parent".into()]);
    }
    let mut started = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| trouble("start a process").about(error.to_string()))?;
    let has_begun = within(BEGINNING, || {
        holder(&lock).is_some() || has_ended(&mut started)
    });
    if ending.killed {
        let _ = started.kill();
    }
    let _ = started.wait();
    let Some(holder) = holder(&lock).filter(|_| has_begun) else {
        return match refusal_in(started.stderr.take()) {
            Some(refusal) => Err(refusal),
            None => Ok("no start".to_owned()),
        };
    };
    Ok(match side {
        Side::Outside => {
            let stays = is_held(&lock);
            let _ = kill(Pid::from_raw(holder), Signal::SIGKILL);
            if stays { SUCCESS } else { GONE }
        }
        Side::Inside if within(END, || !is_held(&lock)) => GONE,
        Side::Inside => SUCCESS,
    }
    .to_owned())
}

const GONE: &str = "gone";

/// Who has taken the lock, by its number in its own pid namespace: it writes that first.
fn holder(lock: &Path) -> Option<i32> {
    fs::read_to_string(lock).ok()?.trim().parse().ok()
}

fn is_held(lock: &Path) -> bool {
    let Ok(file) = File::open(lock) else {
        return false;
    };
    Flock::lock(file, FlockArg::LockSharedNonblock).is_err()
}

fn has_ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

fn within(time: Duration, mut happens: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if happens() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// `probe hold FILE`: takes the lock, says so in the file, and stays for a while.
pub(super) fn hold(lock: &Path) -> anyhow::Result<()> {
    let file = File::options().write(true).open(lock)?;
    let mut held = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
    write!(held, "{}", std::process::id())?;
    std::thread::sleep(BEGINNING);
    Ok(())
}

/// `probe daemon FILE`: leaves a process that is in nobody's session, ignores what it
/// can, and holds the lock.
pub(super) fn daemon(lock: &Path) -> anyhow::Result<()> {
    if let Forked::Child = fork_into(0)? {
        setsid()?;
        if let Forked::Child = fork_into(0)? {
            for signal in [libc::SIGHUP, libc::SIGTERM, libc::SIGINT] {
                sys::signal::ignore(signal)?;
            }
            hold(lock)?;
        }
        exit_at_once(0)
    }
    within(BEGINNING, || holder(lock).is_some());
    Ok(())
}

/// `probe parent CMD…`: starts a command and waits for it. It doesn't outlive who has
/// started it.
pub(super) fn parent(words: &[OsString]) -> anyhow::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    let program = words.first().context("a command is missing")?;
    Command::new(program).args(&words[1..]).status()?;
    Ok(())
}
