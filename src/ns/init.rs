//! Pid 1 of the jail: it builds the jail, starts the command, and reaps.
//! It has one thread, no secrets, and is not dumpable.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::prctl::{set_dumpable, set_pdeathsig};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{
    Gid, Pid, Uid, chdir, getgroups, getpid, getresgid, getresuid, pipe2, read, setgroups,
    sethostname, setpgid, setresgid, setresuid, setsid, tcsetpgrp, write,
};

use crate::confine::seccomp::Filters;
use crate::confine::{self, Door};
use crate::mount::{root::Root, tree, verify};
use crate::plan::step::{Build, Identity, Inode, Plan, Route};
use crate::refusal::{EXIT_REFUSED, Reason, Refusal, shown};
use crate::sabotage::{self, Mechanism, stands};
use crate::sys::memory::wipe_strings;
use crate::sys::process::{Forked, close_all_but, exit_at_once, fork_into, join_session_keyring};
use crate::sys::signal::set_all_default;

use super::channel::{Channel, FromJail, ToJail};
use super::stdio::{self, Stdio};
use super::{asking, diagnose, evidence, listeners, net, reap, terminal};

/// What the fork hands to pid 1 beside the plan.
pub struct Inherited {
    /// The jail's end of the socketpair.
    pub channel: Channel,
    /// The command's descriptors 0 to 2.
    pub stdio: Stdio,
    /// Sources that the supervisor has opened, by target (root); a user's pid 1
    /// opens them itself.
    pub trees: BTreeMap<PathBuf, OwnedFd>,
    /// Identity of an out-dir that was made for this run.
    pub made: Option<Inode>,
    /// What the command shows to the broker, if there is one.
    pub token: Option<String>,
    /// Where argv and environ lie in memory.
    pub strings: [Range<usize>; 2],
    /// Whether there is to be a receipt.
    pub is_recorded: bool,
}

/// The child's whole life. Never returns to the supervisor's code.
pub fn main(plan: &Plan, mut inherited: Inherited) -> ! {
    let command = match build(plan, &mut inherited) {
        Ok(command) => command,
        Err(refusal) => refuse(&inherited.channel, refusal),
    };
    let end = reap::until_the_end(command, &inherited.channel);
    let _ = inherited.channel.send(&end);
    exit_at_once(0)
}

/// Builds the jail, starts the command and confines pid 1 itself.
fn build(plan: &Plan, inherited: &mut Inherited) -> Result<Pid, Refusal> {
    // 1. Nothing that the supervisor was given is left to be read in /proc/1.
    if stands(Mechanism::WipedStrings) {
        inherited.strings.iter().cloned().for_each(wipe_strings);
    }
    // 2. Ids and capabilities mean nothing before the maps are written.
    inherited.channel.expect(ToJail::Mapped)?;
    become_command(&plan.identity)?;
    become_the_first()?;
    // 3. The plan, step by step.
    let port = build_jail(plan, inherited)?;
    inherited.trees.clear();
    let token = inherited.token.take();
    let door = port.zip(token).map(|(port, token)| Door { port, token });
    // 4. The command's process confines itself, which takes as long as all that
    //    is left to do here.
    let filters = inherited.channel.expect_filters()?;
    let (command, gate) = start_the_command(plan, inherited, &filters, door.as_ref())?;
    // 5. What stands is what was planned, and the supervisor is ready.
    verify::mounts(&plan.mounts)?;
    inherited
        .channel
        .send(&FromJail::Ready)
        .map_err(setup("send"))?;
    inherited.channel.expect(ToJail::Go)?;
    sabotage::leave_mounts();
    // 6. This process confines itself, and only then does the command run: had
    //    anything failed here, it hasn't run.
    stdio::let_go()?;
    if stands(Mechanism::ClosedInInit) {
        // The terminal stays open: its end is then the jail's, whatever the command closes.
        let kept = [inherited.channel.as_fd(), gate.as_fd()];
        let terminal = inherited.stdio.terminal.iter().map(OwnedFd::as_fd);
        close_all_but(kept.into_iter().chain(terminal)).map_err(setup("close_range"))?;
    }
    confine::confine_init(&filters)?;
    write(&gate, &[GATE_OPENS]).map_err(setup("write"))?;
    // Left open: closing takes calls that pid 1 no longer may make.
    std::mem::forget(gate);
    Ok(command)
}

/// What makes this process the jail's first one, and no longer one of the supervisor's.
fn become_the_first() -> Result<(), Refusal> {
    // After setresuid, which clears it: the supervisor's death is ours. Had it died
    // before, the next wait on the channel would end us.
    if stands(Mechanism::ParentDeathSignal) {
        set_pdeathsig(Signal::SIGKILL).map_err(setup("prctl(PR_SET_PDEATHSIG)"))?;
    }
    if stands(Mechanism::UndumpableInit) {
        set_dumpable(false).map_err(setup("prctl(PR_SET_DUMPABLE)"))?;
    }
    // A session of the jail's own, without a terminal so far: pid 1 leads it, so that
    // the command's process group has a parent in it and may be stopped (setpgid(2),
    // orphaned groups).
    if stands(Mechanism::SessionOfInit) {
        setsid().map_err(setup("setsid"))?;
    }
    umask(Mode::empty());
    Ok(())
}

/// Forks the command's process. Returns it, and the gate that it waits at once it is
/// confined. No signal is delivered here any more, but waited for.
fn start_the_command(
    plan: &Plan,
    inherited: &Inherited,
    filters: &Filters,
    door: Option<&Door>,
) -> Result<(Pid, OwnedFd), Refusal> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)
        .map_err(setup("sigprocmask"))?;
    let (waits, opens) = pipe2(OFlag::O_CLOEXEC).map_err(setup("pipe2"))?;
    match fork_into(0).map_err(setup("clone"))? {
        Forked::Child => {
            drop(opens);
            become_the_command(plan, inherited, filters, door, &waits)
        }
        Forked::Parent(pid, _) => Ok((pid, opens)),
    }
}

/// What pid 1 writes when it is confined. A byte and not an end of file: a dying
/// pid 1 closes its descriptors before the kernel kills the rest of the jail.
const GATE_OPENS: u8 = 1;

/// Carries out the plan's build steps in order. Returns the port that the broker
/// listens on, if there is one.
fn build_jail(plan: &Plan, inherited: &mut Inherited) -> Result<Option<u16>, Refusal> {
    let mut root: Option<Root> = None;
    let mut listeners = listeners::Made::default();
    let mut port = None;
    for step in &plan.build {
        let standing = || Refusal::new(Reason::Setup, "a mount step comes before the root");
        match step {
            Build::Hostname { name } => {
                sethostname(name)
                    .map_err(|errno| diagnose::capabilities_refused("sethostname", errno))?;
            }
            Build::SessionKeyring => fresh_keyring()?,
            Build::LoopbackUp => net::raise_loopback()?,
            Build::ShimListener { port } => listeners.listen_on_loopback(*port)?,
            Build::BrokerSocket { path } => listeners.listen_at(path)?,
            Build::HandOut => {
                let listeners = std::mem::take(&mut listeners);
                port = Some(listeners.hand_out(&inherited.channel)?);
            }
            Build::Terminal { devpts, .. } => {
                inherited.stdio.terminal = Some(terminal::make(devpts, &inherited.channel)?);
            }
            Build::Root(tmpfs) => root = Some(Root::attach(tmpfs)?),
            Build::DropCapabilities => confine::caps::drop_all()?,
            Build::Bind(bind) => {
                let source = match inherited.trees.remove(&bind.target) {
                    Some(tree) => tree,
                    None => tree::open(bind, inherited.made, None)?,
                };
                root.as_ref()
                    .ok_or_else(standing)?
                    .put(&source, &bind.target, "attach a bind")?;
            }
            mount => mount_step(root.as_ref().ok_or_else(standing)?, mount)?,
        }
    }
    Ok(port)
}

/// Carries out a step that concerns the root alone.
fn mount_step(root: &Root, step: &Build) -> Result<(), Refusal> {
    match step {
        Build::Dir { path } => root.dir(path),
        Build::File { path } => root.file(path),
        Build::Symlink { path, target } => root.symlink(path, target),
        Build::Tmpfs { path, tmpfs } => root.tmpfs(path, tmpfs),
        Build::Pin {
            path,
            access,
            identity,
        } => root.pin(path, *access, *identity),
        Build::MaskFile { path } => root.mask_file(path),
        Build::MaskDir { path } => root.mask_dir(path),
        Build::Devpts { path } => root.devpts(path),
        Build::Proc { path } => root.proc(path),
        Build::NoUserNamespaces => root.no_user_namespaces(),
        Build::ReadOnly { path } => root.read_only(path),
        Build::Pivot => root.pivot(),
        Build::Seal { path } => root.seal(path),
        Build::Hostname { .. }
        | Build::SessionKeyring
        | Build::LoopbackUp
        | Build::ShimListener { .. }
        | Build::BrokerSocket { .. }
        | Build::HandOut
        | Build::Terminal { .. }
        | Build::Root(_)
        | Build::Bind(_)
        | Build::DropCapabilities => Err(Refusal::new(Reason::Setup, "a step without an executor")),
    }
}

/// Takes the ids of the command. Root of the host leaves every group behind; a
/// user, whose uid maps to itself, has nothing to change.
pub(crate) fn become_command(identity: &Identity) -> Result<(), Refusal> {
    if identity.route == Route::User {
        return Ok(());
    }
    let refuse = |call: &'static str| {
        move |errno| {
            Refusal::new(Reason::Identity, "become the command's id")
                .about(call)
                .errno(errno)
        }
    };
    let (uid, gid) = (
        Uid::from_raw(identity.inside.uid),
        Gid::from_raw(identity.inside.gid),
    );
    if stands(Mechanism::DroppedGroups) {
        setgroups(&[]).map_err(refuse("setgroups"))?;
    }
    setresgid(gid, gid, gid).map_err(refuse("setresgid"))?;
    setresuid(uid, uid, uid).map_err(refuse("setresuid"))?;
    // Read back: an outer filter may have answered 0 and done nothing.
    let groups = getgroups().map_err(refuse("getgroups"))?;
    let users = getresuid().map_err(refuse("getresuid"))?;
    let mains = getresgid().map_err(refuse("getresgid"))?;
    let is_taken = groups.is_empty()
        && [users.real, users.effective, users.saved] == [uid; 3]
        && [mains.real, mains.effective, mains.saved] == [gid; 3];
    if is_taken || !stands(Mechanism::IdentityReadBack) {
        Ok(())
    } else {
        Err(Refusal::new(Reason::Identity, "become the command's id")
            .about("an id or group is still the caller's")
            .remedy("an outer sandbox fakes setgroups, setresgid or setresuid: run groom-ns outside of it"))
    }
}

/// Leaves the caller's keyrings. Where keyctl(2) doesn't exist or an outer filter
/// denies it, it is closed to the command as well, and there is nothing to leave.
fn fresh_keyring() -> Result<(), Refusal> {
    match join_session_keyring() {
        Ok(()) | Err(Errno::ENOSYS | Errno::EPERM) => Ok(()),
        Err(errno) => Err(setup("keyctl(KEYCTL_JOIN_SESSION_KEYRING)")(errno)),
    }
}

/// Leads a process group of its own, so that an interrupt or a stop reaches the command
/// and all that it started, and pid 1 isn't among them; the foreground one where there is
/// a terminal. To be called with SIGTTOU blocked, as this isn't it yet (tcsetpgrp(3)).
fn lead_a_group(terminal: Option<&OwnedFd>) -> Result<(), Refusal> {
    if !stands(Mechanism::GroupOfCommand) {
        return Ok(());
    }
    setpgid(Pid::from_raw(0), Pid::from_raw(0)).map_err(setup("setpgid"))?;
    match terminal {
        Some(terminal) => tcsetpgrp(terminal, getpid()).map_err(setup("tcsetpgrp")),
        None => Ok(()),
    }
}

/// The command's process: group, descriptors, signals, confinement, execve.
fn become_the_command(
    plan: &Plan,
    inherited: &Inherited,
    filters: &Filters,
    door: Option<&Door>,
    gate: &OwnedFd,
) -> ! {
    let confined = (|| {
        lead_a_group(inherited.stdio.terminal.as_ref())?;
        if stands(Mechanism::ResetSignals) {
            set_all_default().map_err(setup("rt_sigaction"))?;
        }
        inherited.stdio.install()?;
        // What the supervisor held open counts against the command's own limit.
        if stands(Mechanism::ClosedInCommand) {
            close_all_but([inherited.channel.as_fd(), gate.as_fd()])
                .map_err(setup("close_range"))?;
        }
        chdir(&plan.exec.cwd).map_err(|errno| {
            Refusal::new(Reason::Path, "enter the clone")
                .path(&plan.exec.cwd)
                .errno(errno)
        })?;
        let ask = |listener| asking::hand_over(&inherited.channel, listener);
        let confined = confine::apply(&plan.confine, filters, ask)?;
        if stands(Mechanism::StartGate) {
            wait_for(gate)?;
        }
        if inherited.is_recorded {
            evidence::hand_out(&inherited.channel, &confined)?;
        }
        inherited
            .channel
            .send(&FromJail::Executing)
            .map_err(setup("send"))?;
        // What was typed meanwhile, a Ctrl-C or Ctrl-Z, is the command's from here on.
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
            .map_err(setup("sigprocmask"))?;
        Ok(confined)
    })();
    match confined {
        Err(refusal) => refuse(&inherited.channel, refusal),
        Ok(confined) => {
            let failure = confined.exec(&plan.exec, door);
            let program = Path::new(OsStr::from_bytes(failure.program.as_bytes()));
            let _ = inherited.channel.send(&FromJail::NotExecuted {
                program: shown(program),
                errno: failure.errno as i32,
            });
            exit_at_once(EXIT_REFUSED)
        }
    }
}

/// Waits for pid 1 to be confined; the end of file means that it is gone.
fn wait_for(gate: &OwnedFd) -> Result<(), Refusal> {
    let mut byte = [0];
    if read(gate, &mut byte).map_err(setup("read"))? == 0 || byte != [GATE_OPENS] {
        exit_at_once(EXIT_REFUSED);
    }
    Ok(())
}

fn refuse(channel: &Channel, refusal: Refusal) -> ! {
    let _ = channel.send(&FromJail::Refused(refusal));
    exit_at_once(EXIT_REFUSED)
}

fn setup(call: &'static str) -> impl Fn(Errno) -> Refusal {
    move |errno| {
        Refusal::new(Reason::Setup, "set up the jail's processes")
            .about(call)
            .errno(errno)
    }
}
