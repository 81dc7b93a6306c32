//! The supervisor's story, top to bottom. It has one thread, always.

mod bounds;
mod clock;
mod denials;
mod desk;
mod door;
mod end;
mod events;
mod made;
mod not_executed;
mod pump;
mod relay;
mod signals;
mod supervisor;
mod terminal;

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::thread;

use nix::errno::Errno;
use nix::sys::prctl::set_dumpable;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getppid};
use procfs::FromRead as _;

use crate::broker::Config;
use crate::cgroup::{Leaf, Place};
use crate::confine::seccomp::Filters;
use crate::mount::tree;
use crate::ns::channel::{Channel, ToJail, pair};
use crate::ns::init::{self, Inherited};
use crate::ns::reap::PASSED_ON;
use crate::ns::{enter, stdio::Stdio};
use crate::plan::step::{Bind, Build, IdMap, Inode, Plan, Route};
use crate::policy::{Held, Supplies};
use crate::receipt::told::Told;
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};
use crate::say;
use crate::signals::hold;
use crate::sys::process::{Forked, pidfd_open, pidfd_send_signal};

pub use denials::{Denials, Denied, Program};
pub use end::{Cause, Ending, Limit, Phase};
pub use signals::TELLS_TO_END;

use bounds::Bounds;
use denials::Explainer;
use events::Supervised;
use made::Made;

/// Carries out a plan. Returns how the run ended; an error
/// means that the command has not run, and that nothing of the attempt is left.
/// `broker` is there if the plan has one; `told` hears what happens.
pub fn run(
    plan: &Plan,
    held: &Held,
    caller: Caller,
    broker: Option<(Config, Supplies)>,
    told: &mut Told,
) -> Result<Ending, Refusal> {
    // 1. What the command gets as descriptors 0 to 2, and where its cgroup will be, where
    //    systemd has a say: nothing is made yet, and a signal ends this process at once.
    let mut stdio = Stdio::prepare(plan.identity.host, plan.terminal())?;
    let place = plan.cgroup.as_ref().map(Place::come_by).transpose()?;
    // 2. Signals wait from here on: none leaves behind what is made next, or is lost.
    let signals = hold_signals(PASSED_ON)?;
    // 3. What is made on the host, taken back if nothing runs.
    let mut made = Made::make(plan, held, place, broker, told.totals())?;
    // 4. Root opens the sources itself: the jail's processes may not reach them.
    let trees = sources(plan, made.inode())?;
    let (channel, theirs) = pair().map_err(setup("socketpair"))?;
    let strings = strings_in_memory()?;
    // 5. The fork, in the jail's cgroup. The child never comes back from `init::main`.
    let pumps = std::mem::take(&mut stdio.pumps);
    let Some(mut jail) = fork(plan, made.leaf.as_ref())? else {
        drop((channel, signals, caller, pumps, made.terminal.take()));
        init::main(
            plan,
            Inherited {
                channel: theirs,
                stdio,
                trees,
                made: made.inode(),
                token: made.door.map(|door| door.token.expose().to_owned()),
                strings,
                is_recorded: told.is_recorded(),
            },
        )
    };
    drop((theirs, stdio, trees));
    // 6. What only a process outside can do for it; then it goes on.
    introduce(plan, &mut jail)?;
    told.forked(jail.pid, made.leaf.as_ref())?;
    set_building(plan, &channel)?;
    // 7. From here on everything is an event, until the jail is gone.
    let ending = events::supervise(Supervised {
        jail,
        channel: &channel,
        signals: &signals,
        caller: caller.pidfd,
        pumps,
        terminal: made.terminal.take(),
        times: plan.times,
        bounds: Bounds::new(plan, made.leaf.as_ref()),
        door: made.door.take().map(|door| (door, &plan.exec)),
        explainer: Explainer::new(&plan.confine, told.runs()),
        told,
    })?;
    // 8. It has run, or may have: what was made stays.
    say_end(plan, &ending);
    made.keep();
    Ok(ending)
}

/// Writes its maps, and finds out whom the broker serves: while pid 1, which waits for the
/// next line, is dumpable. This process isn't from here on, if it has a broker: none of the
/// same user's reads the key in it.
fn introduce(plan: &Plan, jail: &mut Jail) -> Result<(), Refusal> {
    say::step(format_args!("pid 1 of the jail is pid {}", jail.pid));
    enter::write_maps(jail.pid, &plan.identity)?;
    if plan.broker.is_some() {
        jail.peers = Some(enter::pid_namespace(jail.pid)?);
        if stands(Mechanism::UndumpableBroker) {
            set_dumpable(false).map_err(setup("prctl(PR_SET_DUMPABLE)"))?;
        }
    }
    Ok(())
}

/// Says how the run ended, and why, where the command was none.
fn say_end(plan: &Plan, ending: &Ending) {
    say::step(format_args!(
        "the command ended, and the jail with it: exit code {}",
        ending.code
    ));
    if let Cause::NotExecuted { errno, .. } = &ending.cause {
        let path = std::env::var_os("PATH");
        if let Some(why) = not_executed::explain(plan, errno, path.as_deref()) {
            say::note(why);
        }
    }
}

/// Pid 1 may build, and gets what was compiled meanwhile.
fn set_building(plan: &Plan, channel: &Channel) -> Result<(), Refusal> {
    // Where it is gone meanwhile, what it has said of that is heard in the event loop.
    channel.tell(&ToJail::Mapped).map_err(setup("send"))?;
    // Pid 1 begins where this process runs: compiled first, they would be waited for. Now it
    // mounts, and leaves the processor to this while it waits for the kernel.
    thread::yield_now();
    let filters = Filters::compile(&plan.confine.seccomp)?;
    channel.tell_filters(&filters).map_err(setup("send"))?;
    Ok(())
}

/// Forks pid 1, within its cgroup if it has one. None: this is pid 1.
fn fork(plan: &Plan, leaf: Option<&Leaf>) -> Result<Option<Jail>, Refusal> {
    leaf.map_or(Ok(()), Leaf::enter)?;
    let Forked::Parent(pid, pidfd) = enter::fork(&plan.namespaces)? else {
        return Ok(None);
    };
    let jail = Jail {
        pid,
        pidfd,
        peers: None,
        ended: false,
    };
    leaf.map_or(Ok(()), |leaf| leaf.leave(pid))?;
    Ok(Some(jail))
}

/// Pid 1 of the jail. Dropped, it is killed and reaped: the kernel kills every
/// other process of its pid namespace before it can be (pid_namespaces(7)).
struct Jail {
    pid: Pid,
    pidfd: OwnedFd,
    /// The pid namespace that the broker's peers must live in, if there is a broker.
    peers: Option<Inode>,
    ended: bool,
}

impl Jail {
    fn kill(&self) {
        if stands(Mechanism::KilledJail) {
            let _ = pidfd_send_signal(&self.pidfd, libc::SIGKILL);
        }
    }
}

impl Jail {
    /// Kills it, if it hasn't ended, and waits until none of its processes is left.
    fn end(&mut self) {
        if !self.ended {
            self.kill();
            let _ = waitpid(self.pid, None);
            self.ended = true;
        }
    }
}

impl Drop for Jail {
    fn drop(&mut self) {
        self.end();
    }
}

/// The process that started groom-ns.
pub struct Caller {
    pidfd: Option<OwnedFd>,
}

impl Caller {
    /// Takes hold of `parent`, which getppid(2) named when this process started, if it
    /// can be seen from here: in a container's first process, or one started from
    /// another pid namespace, it can't (the number is 0), and its death has to be told
    /// by a signal. One that died before getppid is not to be known: the parent then
    /// is whoever adopts orphans.
    ///
    /// # Errors
    /// `setup`: it ended meanwhile, or an outer filter denies pidfd_open(2).
    pub fn hold(parent: Pid) -> Result<Caller, Refusal> {
        if parent.as_raw() == 0 {
            return Ok(Caller { pidfd: None });
        }
        let gone = || Refusal::new(Reason::Setup, "the process that started groom-ns is gone");
        let pidfd = match pidfd_open(parent) {
            Ok(pidfd) => pidfd,
            Err(Errno::ESRCH) => return Err(gone()),
            Err(errno) => return Err(setup("pidfd_open")(errno)),
        };
        if getppid() != parent {
            return Err(gone());
        }
        Ok(Caller { pidfd: Some(pidfd) })
    }
}

/// The sources that the supervisor opens, by target.
fn sources(plan: &Plan, made: Option<Inode>) -> Result<BTreeMap<PathBuf, OwnedFd>, Refusal> {
    match plan.identity.route {
        Route::Root => open_trees(plan, made),
        Route::User => Ok(BTreeMap::new()),
    }
}

/// Every bind's source, opened and mapped, by target.
pub(crate) fn open_trees(
    plan: &Plan,
    made: Option<Inode>,
) -> Result<BTreeMap<PathBuf, OwnedFd>, Refusal> {
    let mut namespaces: Vec<(IdMap, OwnedFd)> = Vec::new();
    let mut trees = BTreeMap::new();
    for step in &plan.build {
        let Build::Bind(bind) = step else { continue };
        let tree = tree::open(bind, made, namespace_of(bind, &mut namespaces)?)?;
        trees.insert(bind.target.clone(), tree);
    }
    Ok(trees)
}

/// The user namespace that a bind is mapped with; one for each pair of owners.
fn namespace_of<'made>(
    bind: &Bind,
    made: &'made mut Vec<(IdMap, OwnedFd)>,
) -> Result<Option<std::os::fd::BorrowedFd<'made>>, Refusal> {
    let Some(map) = bind.idmap else {
        return Ok(None);
    };
    if !made.iter().any(|(known, _)| *known == map) {
        made.push((map, enter::idmap_namespace(&map)?));
    }
    Ok(made
        .iter()
        .find(|(known, _)| *known == map)
        .map(|(_, fd)| fd.as_fd()))
}

/// See [`signals::hold`](crate::signals::hold).
///
/// # Errors
/// `setup`: one of its calls.
pub fn hold_signals(signals: impl IntoIterator<Item = Signal>) -> Result<SignalFd, Refusal> {
    hold(signals).map_err(|(call, errno)| setup(call)(errno))
}

/// Where argv and environ lie, which the child wipes from its copy of the memory.
fn strings_in_memory() -> Result<[Range<usize>; 2], Refusal> {
    let refuse = || Refusal::new(Reason::Setup, "find argv and environ").about("/proc/self/stat");
    let stat = procfs::process::Stat::from_file("/proc/self/stat")
        .map_err(|error| refuse().remedy(error.to_string()))?;
    let range = |start: Option<u64>, end: Option<u64>| -> Option<Range<usize>> {
        Some(usize::try_from(start?).ok()?..usize::try_from(end?).ok()?)
    };
    match (
        range(stat.arg_start, stat.arg_end),
        range(stat.env_start, stat.env_end),
    ) {
        (Some(arguments), Some(environment)) if arguments.start != 0 => {
            Ok([arguments, environment])
        }
        _ => Err(refuse()),
    }
}

fn setup(call: &'static str) -> impl Fn(Errno) -> Refusal {
    move |errno| {
        Refusal::new(Reason::Setup, "set up the supervisor")
            .about(call)
            .errno(errno)
    }
}

/// A signal's name, for messages.
fn signal_name(number: i32) -> String {
    Signal::try_from(number)
        .map_or_else(|_| format!("signal {number}"), |signal| signal.to_string())
}
