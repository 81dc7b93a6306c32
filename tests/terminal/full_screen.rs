//! Full-screen programs, as tmux shows them.

use std::time::{Duration, Instant};

use crate::common::host::{self, path_str, program, system_program, unique};
use crate::common::{Workspace, jail};

/// A tmux server of the test's own, with one window.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// A bash in which `$G` is groom-ns with the clone, and `$W` the workspace: tmux doesn't
    /// promise to start it there.
    fn new(workspace: &Workspace) -> Self {
        let tmux = Tmux {
            socket: path_str(&workspace.path(&unique("tmux"))).to_owned(),
        };
        let groom = format!(
            "{} run --quiet --clone {}",
            path_str(&jail::binary()),
            path_str(&workspace.clone_dir())
        );
        let root = path_str(workspace.root());
        let shell = format!("env PS1='desk$ ' W='{root}' G='{groom}' bash --noprofile --norc -i");
        tmux.ask(&[
            "new-session",
            "-d",
            "-c",
            root,
            "-x",
            "80",
            "-y",
            "24",
            &shell,
        ]);
        tmux.wait_for("the prompt", |screen| screen.starts_with("desk$"));
        tmux
    }

    fn ask(&self, words: &[&str]) -> String {
        let output = program("tmux", "tmux")
            .args(["-S", &self.socket, "-f", "/dev/null", "-u"])
            .args(words)
            .output()
            .expect("tmux starts");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + host::patience(Duration::from_secs(20));
        loop {
            let screen = self.ask(&["capture-pane", "-p"]);
            if is_so(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "it isn't shown: {what}\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = program("tmux", "tmux")
            .args(["-S", &self.socket, "kill-server"])
            .status();
    }
}

/// The screen's last line that has anything.
fn last(screen: &str) -> &str {
    screen.trim_end().lines().last().unwrap_or_default()
}

#[test]
fn vim_draws_stops_goes_on_and_leaves() {
    system_program("vim", "vim");
    let workspace = Workspace::new();
    workspace.file("clone/text", "first line\nsecond line\n");
    let tmux = Tmux::new(&workspace);
    tmux.keys(&["stty -g >$W/before; $G -- vim -u NONE text", "Enter"]);
    let is_drawn = |screen: &str| screen.starts_with("first line\nsecond line\n~\n");
    let screen = tmux.wait_for("vim's screen", |screen| {
        is_drawn(screen) && screen.contains("readonly")
    });
    assert_eq!(
        screen.lines().filter(|line| *line == "~").count(),
        24 - 3,
        "{screen}"
    );
    // A window of another size is drawn anew.
    tmux.ask(&["resize-window", "-x", "60", "-y", "40"]);
    let rows = |screen: &str| screen.lines().filter(|line| *line == "~").count();
    tmux.wait_for("vim's larger screen", |screen| rows(screen) >= 36);
    tmux.keys(&["C-z"]);
    tmux.wait_for("the shell", |screen| {
        screen.contains("Stopped") && last(screen) == "desk$"
    });
    tmux.keys(&[
        "stty -g >$W/after; cmp $W/before $W/after && echo sa''me",
        "Enter",
    ]);
    // bash itself has the terminal in another mode while it waits for a line.
    tmux.wait_for("the same mode", |screen| screen.contains("\nsame"));
    tmux.keys(&["fg", "Enter"]);
    tmux.wait_for("vim again", |screen| is_drawn(screen) && rows(screen) >= 36);
    tmux.keys(&[":q", "Enter"]);
    tmux.wait_for("the shell", |screen| last(screen) == "desk$");
    tmux.keys(&[
        "stty -g >$W/after; cmp $W/before $W/after && echo as be''fore",
        "Enter",
    ]);
    tmux.wait_for("the same mode", |screen| screen.contains("\nas before"));
}

#[test]
fn less_scrolls_and_a_shell_has_jobs() {
    system_program("less", "less");
    let workspace = Workspace::new();
    let tmux = Tmux::new(&workspace);
    tmux.keys(&["$G -- sh -c 'seq 500 | less'", "Enter"]);
    tmux.wait_for("the first page", |screen| screen.starts_with("1\n2\n"));
    tmux.keys(&["Space"]);
    tmux.wait_for("the second page", |screen| screen.starts_with("24\n25\n"));
    tmux.keys(&["q"]);
    tmux.wait_for("the shell", |screen| last(screen) == "desk$");
    // A shell inside, with jobs of its own.
    tmux.keys(&[
        "clear; $G -- env PS1='jail$ ' bash --noprofile --norc -i",
        "Enter",
    ]);
    tmux.wait_for("the inner shell", |screen| last(screen) == "jail$");
    tmux.keys(&["sh -c 'echo g''o; exec sleep 77'", "Enter"]);
    tmux.wait_for("the inner job", |screen| last(screen) == "go");
    tmux.keys(&["C-z"]);
    tmux.wait_for("an inner job", |screen| {
        screen.contains("Stopped") && last(screen) == "jail$"
    });
    tmux.keys(&["fg", "Enter"]);
    tmux.wait_for("it again", |screen| last(screen).starts_with("sh -c"));
    tmux.keys(&["C-c"]);
    tmux.wait_for("the inner shell", |screen| last(screen) == "jail$");
    tmux.keys(&["exit 9", "Enter"]);
    tmux.wait_for("the shell", |screen| last(screen) == "desk$");
    tmux.keys(&["echo co''de $?", "Enter"]);
    tmux.wait_for("its code", |screen| screen.contains("\ncode 9"));
}
