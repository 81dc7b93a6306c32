//! Somebody at a terminal: a shell on a pseudo-terminal of the test's own, what is typed
//! there and what is seen.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use groom_ns::sys::terminal;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, read, tcgetpgrp, write};

use super::host::{self, path_str};
use super::jail;
use super::workspace::Workspace;

/// What the shell says when it waits for a line.
pub(crate) const PROMPT: &str = "desk$ ";

/// An interactive bash with job control. `$G` is groom-ns with the clone, `$P` the probe.
pub(crate) struct Desk {
    master: File,
    /// So that the terminal is never without anybody.
    slave: OwnedFd,
    shell: Child,
    seen: Arc<Mutex<Vec<u8>>>,
    /// What lies before this was waited for.
    at: usize,
}

impl Desk {
    /// At the prompt.
    pub(crate) fn new(workspace: &Workspace) -> Self {
        Desk::with(
            workspace,
            &["bash", "--noprofile", "--norc", "--noediting", "-i"],
        )
        .at_prompt()
    }

    /// Another program, which leads the terminal's session itself.
    pub(crate) fn with(workspace: &Workspace, program: &[&str]) -> Self {
        let (master, slave) = terminal_pair();
        terminal::set_size(&master, &size(24, 80)).expect("our terminal");
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let flags = ["run --clone", "--ro-file"];
        let [clone, probe] = [workspace.clone_dir(), workspace.probe()];
        let shell = host::program("setsid", "util-linux")
            .arg("--ctty")
            .args(program)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .current_dir(workspace.root())
            .env_remove("GITHUB_ACTIONS")
            .env("PS1", PROMPT)
            .env("TERM", "xterm")
            .env("HISTFILE", "/dev/null")
            .env("P", workspace.probe())
            .env(
                "G",
                format!(
                    // A warning of a user's groups would stand on the screen.
                    "{} {} {} {} {} --quiet",
                    path_str(&jail::binary()),
                    flags[0],
                    path_str(&clone),
                    flags[1],
                    path_str(&probe)
                ),
            )
            .spawn()
            .expect("setsid starts");
        let seen = Arc::<Mutex<Vec<u8>>>::default();
        let shown = Arc::clone(&seen);
        let mut reads = File::from(master.try_clone().expect("a descriptor"));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = reads.read(&mut bytes) {
                shown.lock().expect("no panic").extend(&bytes[..count]);
            }
        });
        Desk {
            master: File::from(master),
            slave,
            shell,
            seen,
            at: 0,
        }
    }

    fn at_prompt(mut self) -> Self {
        self.wait_for(PROMPT);
        self
    }

    /// Types bytes as they are.
    pub(crate) fn keys(&mut self, bytes: impl AsRef<[u8]>) {
        self.master.write_all(bytes.as_ref()).expect("a terminal");
    }

    /// Types a line, and doesn't wait for anything.
    pub(crate) fn line(&mut self, line: &str) {
        self.keys(format!("{line}\n"));
    }

    /// Types a line and waits for the prompt; returns what was shown in between.
    pub(crate) fn run(&mut self, line: &str) -> String {
        self.line(line);
        self.wait_for("\n");
        let text = self.wait_for(PROMPT);
        text.replace('\r', "")
    }

    /// Waits until this is shown, and returns what was shown before it.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let end = Instant::now() + host::patience(Duration::from_secs(20));
        loop {
            let seen = self.seen.lock().expect("no panic").clone();
            let found = find(&seen[self.at..], text.as_bytes());
            if let Some(found) = found {
                let before = seen[self.at..self.at + found].to_vec();
                self.at += found + text.len();
                return String::from_utf8_lossy(&before).into_owned();
            }
            assert!(
                Instant::now() < end,
                "no {text:?} on the terminal:\n{}",
                String::from_utf8_lossy(&seen)
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// All that was ever shown.
    pub(crate) fn seen(&self) -> Vec<u8> {
        self.seen.lock().expect("no panic").clone()
    }

    /// How the terminal is set, as `stty -g` says it.
    pub(crate) fn mode(&self) -> Termios {
        tcgetattr(&self.slave).expect("our terminal")
    }

    /// Waits until the terminal is set in some way.
    pub(crate) fn wait_for_mode(&self, what: &str, is_so: impl Fn(&Termios) -> bool) {
        wait_until(what, || is_so(&self.mode()));
    }

    /// Another size, as of a window that is drawn larger.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        terminal::set_size(&self.master, &size(rows, columns)).expect("our terminal");
    }

    /// The terminal itself.
    pub(crate) fn terminal(&self) -> BorrowedFd<'_> {
        self.slave.as_fd()
    }

    /// The process group in the foreground.
    pub(crate) fn foreground(&self) -> Pid {
        tcgetpgrp(&self.master).expect("our terminal")
    }

    /// The shell's own, or the program's.
    pub(crate) fn pid(&self) -> Pid {
        super::jail::pid_of(&self.shell)
    }

    /// The program's first child.
    pub(crate) fn child(&self) -> i32 {
        host::children_of(self.pid().as_raw())[0]
    }

    /// The number of the first job of the shell.
    pub(crate) fn job(&mut self) -> Pid {
        let text = self.run("jobs -p %1");
        Pid::from_raw(text.trim().parse().unwrap_or_else(|_| panic!("{text:?}")))
    }

    /// Waits for the program's end.
    pub(crate) fn end(&mut self) -> Option<i32> {
        wait_until("the program's end", || {
            self.shell.try_wait().expect("our child").is_some()
        });
        super::jail::code(self.shell.wait().expect("our child"))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // Its jobs are told by the kernel when the session's terminal hangs up.
        let _ = kill(self.pid(), Signal::SIGKILL);
        let _ = self.shell.wait();
    }
}

/// Polls until something is so.
pub(crate) fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    let mut is_so = is_so;
    let end = Instant::now() + host::patience(Duration::from_secs(20));
    while !is_so() {
        assert!(Instant::now() < end, "it doesn't become so: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process's state, a letter (proc_pid_stat(5)); `X` where there is none.
pub(crate) fn state(pid: Pid) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.unwrap_or('X')
}

/// A pseudo-terminal: its master, and the terminal itself.
pub(crate) fn terminal_pair() -> (OwnedFd, OwnedFd) {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = open("/dev/ptmx", flags, Mode::empty()).expect("a terminal");
    terminal::unlock(&master).expect("our terminal");
    let slave = terminal::peer(&master).expect("our terminal");
    (master, slave)
}

/// One that nobody reads, and that to poll(2) has room, while a write of a line waits.
pub(crate) fn nearly_full_terminal() -> (OwnedFd, OwnedFd) {
    let room = {
        let (_master, _, unwaiting) = emptied_a_little();
        fill(&unwaiting)
    };
    let nearly_full = || {
        let made = emptied_a_little();
        for _ in 1..room {
            write(&made.2, b".").expect("room");
        }
        assert!(has_room(&made.1), "vacuous: it has no room");
        made
    };
    let (_master, _, unwaiting) = nearly_full();
    let line = [&[b'.'; 60], &b"\n"[..]].concat();
    let written = write(&unwaiting, &line);
    assert!(
        written.is_ok_and(|written| written < line.len()),
        "vacuous: {written:?}"
    );
    let (master, slave, _) = nearly_full();
    (master, slave)
}

/// A terminal that was full, of which just as much was read that there is room again, and
/// the same for writes that don't wait.
fn emptied_a_little() -> (OwnedFd, OwnedFd, OwnedFd) {
    let (master, slave) = terminal_pair();
    let unwaiting = terminal::open_unwaiting(&slave).expect("our terminal");
    fill(&unwaiting);
    while !has_room(&slave) {
        read(&master, &mut [0]).expect("our terminal");
        std::thread::sleep(Duration::from_millis(2));
    }
    (master, slave, unwaiting)
}

/// Writes until nothing more is taken for a while, as the kernel still moves what was
/// written last; says how many bytes were taken.
fn fill(unwaiting: &OwnedFd) -> usize {
    let (mut taken, mut last) = (0, Instant::now());
    while last.elapsed() < Duration::from_millis(100) {
        if write(unwaiting, b".").is_ok() {
            (taken, last) = (taken + 1, Instant::now());
        }
    }
    taken
}

/// What poll(2) says.
fn has_room(fd: &OwnedFd) -> bool {
    let mut ask = [PollFd::new(fd.as_fd(), PollFlags::POLLOUT)];
    poll(&mut ask, PollTimeout::ZERO) == Ok(1)
}

fn size(rows: u16, columns: u16) -> terminal::Size {
    terminal::Size {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
