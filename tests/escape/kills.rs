//! Kills at any moment of a start: of groom-ns, of the process that started it, and
//! of pid 1 of the jail (bubblewrap#633, #692; srt#139 for what is left of files).
//!
//! Left out is a caller that dies before groom-ns has looked for it, which is the
//! first thing that it does: whoever adopts groom-ns then is its caller, and it
//! lives on as it should.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::common::host::{children_of, processes_named, processes_with, unique, wait_until_gone};
use crate::common::jail::{pid_of, wait_for_line};
use crate::common::workspace::snapshot;
use crate::common::{Workspace, finish, path_str};

const KILLS: usize = 1000;
const WORKERS: usize = 8;
/// A kill comes at most this long after the start, or after pid 1 is there.
const SPREAD: u64 = 20_000; // µs

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Supervisor,
    Caller,
    First,
}

/// Numbers that a seed decides (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn seed() -> u64 {
    let now = || {
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
        now.as_secs() ^ u64::from(now.subsec_nanos()) << 32
    };
    let given = std::env::var("GROOM_NS_SEED").ok();
    given.map_or_else(now, |seed| seed.parse().expect("GROOM_NS_SEED is a number"))
}

/// What a run is killed with, and what there was before.
struct Scene {
    workspace: Workspace,
    marker: String,
    binary: PathBuf,
}

/// What became of the kills.
#[derive(Debug, Default)]
struct Count {
    refused: usize,
    ran: usize,
    before_hold: usize,
}

impl Scene {
    fn new(marker: &str, binary: &Path) -> Self {
        Scene {
            workspace: Workspace::with_git(),
            marker: marker.to_owned(),
            binary: binary.to_owned(),
        }
    }

    /// Starts a run, kills, and looks at how it ended and what is left.
    fn kill(&self, victim: Victim, dice: &mut Dice, count: &Mutex<Count>) -> Result<(), String> {
        let out = self.workspace.out_dir();
        let is_made = dice.below(2) == 0;
        if is_made {
            let _ = fs::remove_dir_all(&out);
        } else {
            self.workspace.file("out/kept", "kept");
        }
        let before = snapshot(&self.workspace.clone_dir());
        let mut child = self.start(victim);
        let is_held = strike(victim, &mut child, dice);
        // Waits for the end of both outputs, which every process of the run holds.
        let run = finish(child);
        let mut count = count.lock().expect("no panic");
        count.before_hold += usize::from(!is_held);
        match (victim, run.code) {
            (Victim::Supervisor | Victim::Caller, None) => {}
            (Victim::First, Some(125)) => count.refused += 1,
            (Victim::First, Some(137)) => count.ran += 1,
            _ => return Err(format!("{victim:?}: an odd end: {run:?}")),
        }
        if snapshot(&self.workspace.clone_dir()) != before {
            return Err(format!("{victim:?}: the clone changed"));
        }
        self.out_dir_is_as_it_should(is_made, run.code)
            .map_err(|wrong| format!("{victim:?}: {wrong}"))
    }

    fn start(&self, victim: Victim) -> Child {
        let jail = self.workspace.jail_with_out().writable();
        let jail = jail.binary(self.binary.clone());
        let jail = if victim == Victim::Caller {
            jail.in_situation(&["parent"])
        } else {
            jail
        };
        jail.start(&["stubborn", "60", &self.marker])
    }

    fn out_dir_is_as_it_should(&self, is_made: bool, code: Option<i32>) -> Result<(), &str> {
        let out = self.workspace.out_dir();
        let entries = fs::read_dir(&out).map_or(0, Iterator::count);
        if !is_made {
            let kept = fs::read(out.join("kept")).ok();
            let is_same = kept.as_deref() == Some(b"kept") && entries == 1;
            return is_same.then_some(()).ok_or("the out-dir changed");
        }
        // What a killed groom-ns has made nobody can take back: an empty folder.
        match code {
            Some(125) if out.exists() => Err("a refusal left its out-dir"),
            _ if entries > 0 => Err("something is in the out-dir"),
            _ => Ok(()),
        }
    }
}

/// Kills at a random moment, from the start or from pid 1's on. Returns whether
/// groom-ns had taken hold of its caller by then, where that is who dies.
fn strike(victim: Victim, child: &mut Child, dice: &mut Dice) -> bool {
    let pid = pid_of(child);
    let supervisor = || match victim {
        Victim::Caller => children(pid).first().copied(),
        _ => Some(pid),
    };
    if victim == Victim::First || dice.below(2) == 0 {
        wait_for_first(supervisor);
    }
    std::thread::sleep(Duration::from_micros(dice.below(SPREAD)));
    match victim {
        Victim::Supervisor => child.kill().expect("our child"),
        Victim::Caller => return kill_caller(child),
        Victim::First => {
            let first = first_of(pid).expect("a command that stays");
            kill(first, Signal::SIGKILL).expect("a process of the jail");
        }
    }
    true
}

fn children(pid: Pid) -> Vec<Pid> {
    let children = children_of(pid.as_raw()).into_iter();
    children.map(Pid::from_raw).collect()
}

/// Pid 1 of a jail: the supervisor's child that is the first of a pid namespace.
fn first_of(supervisor: Pid) -> Option<Pid> {
    children(supervisor).into_iter().find(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find(|line| line.starts_with("NSpid:"));
        numbers.is_some_and(|line| line.ends_with("\t1"))
    })
}

fn wait_for_first(supervisor: impl Fn() -> Option<Pid>) {
    let end = Instant::now() + Duration::from_secs(20);
    while supervisor().and_then(first_of).is_none() {
        assert!(Instant::now() < end, "no pid 1");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Kills the process that started groom-ns; returns whether groom-ns had taken
/// hold of it by then. If not, groom-ns may live on, and is killed too.
fn kill_caller(child: &mut Child) -> bool {
    let caller = pid_of(child);
    // Stopped, it starts nothing that isn't seen here.
    kill(caller, Signal::SIGSTOP).expect("our child");
    let stopped = waitpid(caller, Some(WaitPidFlag::WUNTRACED)).expect("our child");
    assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
    let supervisor = children(caller).first().copied();
    // groom-ns ignores SIGXFSZ after it has looked who its caller is; nobody else does.
    let is_held = supervisor.and_then(ignores_xfsz).unwrap_or_default();
    child.kill().expect("our child");
    if let Some(supervisor) = supervisor.filter(|_| !is_held) {
        let _ = kill(supervisor, Signal::SIGKILL);
    }
    is_held
}

/// None if it has ended.
fn ignores_xfsz(pid: Pid) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    let ignored = u64::from_str_radix(mask.trim(), 16).expect("a mask");
    Some(ignored & (1 << (libc::SIGXFSZ - 1)) != 0)
}

#[test]
fn nothing_survives_a_kill_and_nobody_else_dies() {
    let own = ignores_xfsz(Pid::this());
    assert_eq!(own, Some(false), "vacuous: the tests ignore SIGXFSZ");
    let seed = seed();
    let scene = Workspace::new();
    let (binary, name) = scene.named_binary();
    let marker = unique("survivor");
    // Started by a thread that ends, and to be ended as any run is.
    let bystander = scene.jail();
    let start = move || bystander.start(&["catch"]);
    let mut bystander = std::thread::spawn(start).join().expect("the thread ends");
    wait_for_line(&mut bystander, "ready");

    let next = AtomicUsize::new(0);
    let (count, wrong) = (Mutex::<Count>::default(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let scene = Scene::new(&marker, &binary);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= KILLS {
                        break;
                    }
                    let mut dice = Dice(seed ^ number as u64);
                    let victims = [Victim::Supervisor, Victim::Caller, Victim::First];
                    let end = scene.kill(victims[number % 3], &mut dice, &count);
                    wrong.lock().expect("no panic").extend(end.err());
                }
                let mounts = fs::read_to_string("/proc/self/mounts").expect("the host's mounts");
                assert!(
                    !mounts.contains(path_str(scene.workspace.root())),
                    "{mounts}"
                );
            });
        }
    });
    let count = count.into_inner().expect("no panic");
    let story = format!("GROOM_NS_SEED={seed}: {KILLS} kills, {count:?}");
    eprintln!("{story}");
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{story}\n{}", wrong.join("\n"));
    wait_until_gone("a command", || processes_with(&marker));
    wait_until_gone("a process of groom-ns", || processes_named(&name));
    assert!(count.refused > 0 && count.ran > 0, "vacuous: {story}");
    assert!(count.before_hold < KILLS / 4, "vacuous: {story}");

    assert!(
        bystander.try_wait().expect("our child").is_none(),
        "{story}"
    );
    kill(pid_of(&bystander), Signal::SIGTERM).expect("our child");
    assert_eq!(finish(bystander).outcome(), "ok SIGTERM", "{story}");
}
