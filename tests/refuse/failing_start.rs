//! A start of which one syscall fails, and what a command in it says of the jail.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::common::workspace::snapshot;
use crate::common::{Jail, Run, Workspace, path_str};

/// How a start with one failed call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// 125 and a line of refusal; nothing ran, nothing is left.
    Refused,
    /// The program can't go on without it, and was ended by a signal or by libc.
    Died,
    /// The command ran in a jail that is as complete as any.
    Stands,
}

/// What the command looks at and tries, to tell what holds it.
const LOOKS: &[&str] = &[
    "read /proc/self/mounts",
    "read /proc/self/limits",
    "read /proc/sys/user/max_user_namespaces",
    "read /proc/sys/kernel/hostname",
    "privileges",
    "ids",
    "state",
    "env",
    "cwd",
    "fds",
    "pids",
    "list /",
    "connect-tcp 127.0.0.1:1",
    "connect-tcp 1.1.1.1:80",
    "read /.groom-ns-canary",
    "syscall openat AT_FDCWD @/proc/1/mem O_RDWR",
    "syscall keyctl 0 -3 0",
    "syscall socket 40 1 0",
    "syscall unshare CLONE_NEWUSER",
    "syscall ioctl 0 TIOCSTI %10",
];

/// A workspace, and what a command in it says of a start in which nothing failed.
pub(super) struct Start {
    workspace: Workspace,
    with_broker: bool,
    complete: String,
}

impl Start {
    pub(super) fn new(with_broker: bool) -> Self {
        let workspace = Workspace::with_git();
        workspace.folder("given");
        workspace.folder("clone/vendor/dep/.git");
        workspace.file("key", "sk-ant-a-key-of-the-tests\n");
        let mut start = Start {
            workspace,
            with_broker,
            complete: String::new(),
        };
        // Under the same filter, on a call that isn't made.
        let run = start.run(&["fail-nth", "acct", "1", "EPERM"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
        start.complete = start.told();
        assert!(start.complete.contains("ok uid="), "{}", start.complete);
        start.clean();
        start
    }

    /// Has the command write what it sees into the out-dir: what is written to
    /// standard output would be lost with a supervisor that dies.
    pub(super) fn run(&self, situation: &[&str]) -> Run {
        let clone = path_str(&self.workspace.clone_dir()).to_owned();
        let covered = ["", "/vendor/dep"].map(|at| format!("write {clone}{at}/.git/config x"));
        let mut tell = vec![
            "sh".to_owned(),
            "-c".to_owned(),
            format!("exec \"$@\" >{}", path_str(&self.marker())),
            "sh".to_owned(),
            path_str(&self.workspace.probe()).to_owned(),
            "each".to_owned(),
        ];
        tell.extend(LOOKS.iter().map(ToString::to_string));
        tell.extend(covered);
        self.jail().in_situation(situation).run_program(&tell)
    }

    fn jail(&self) -> Jail {
        let jail = self.workspace.jail_with_out().writable();
        let jail = jail
            .flag("--ro-file", self.workspace.path("given"))
            // A home that can't be looked at is no reason to refuse.
            .without_env("HOME");
        if !self.with_broker {
            return jail;
        }
        jail.switch("--tty")
            .flag("--broker", "anthropic")
            .flag("--upstream", "http://127.0.0.1:9")
            .flag("--key-file", self.workspace.path("key"))
            .flag("--broker-log", self.workspace.path("log"))
    }

    fn marker(&self) -> PathBuf {
        self.workspace.out_dir().join("told")
    }

    /// What the command wrote, but for what is another in each run: the numbers of
    /// pipes, the broker's port and token, and, as root, the free ids.
    fn told(&self) -> String {
        let all = fs::read_to_string(self.marker()).unwrap_or_default();
        let mut text = String::new();
        for piece in all.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
            let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            let is_free_id = word.len() == 10 && word.starts_with("21");
            let is_unique = ["pipe:[", "127.0.0.1:", "_KEY="]
                .iter()
                .any(|before| text.ends_with(before));
            let skipped = if is_free_id || is_unique {
                word.len()
            } else {
                0
            };
            text.push_str(&piece[skipped..]);
        }
        text
    }

    fn clean(&self) {
        let _ = fs::remove_dir_all(self.workspace.out_dir());
        let _ = fs::remove_file(self.workspace.path("log"));
    }

    /// Fails one call. None: there was none. The error says what is wrong.
    pub(super) fn fail(&self, calls: &str, nth: usize, errno: &str) -> Option<Result<End, String>> {
        let before = snapshot(&self.workspace.clone_dir());
        let run = self.run(&["fail-nth", calls, &nth.to_string(), errno]);
        let (_, summary) = run
            .stderr
            .rsplit_once("probe: ")
            .unwrap_or_else(|| panic!("no summary: {run:#?}"));
        let count = summary.split(' ').next().and_then(|n| n.parse().ok());
        let count: usize = count.expect("a count");
        let end = (count >= nth).then(|| {
            if snapshot(&self.workspace.clone_dir()) == before {
                self.judge(&run, summary)
            } else {
                Err("the clone changed".to_owned())
            }
        });
        self.clean();
        end
    }

    fn judge(&self, run: &Run, summary: &str) -> Result<End, String> {
        let said = || format!("{:?}: {}", run.code, run.stderr.trim_end());
        if summary.contains("survivors") || summary.contains("hung") {
            return Err(said());
        }
        let told = self.told();
        // Who died while the command was writing left a part.
        let whole_lines = told.rfind('\n').map_or("", |end| &told[..end]);
        if !self.complete.starts_with(whole_lines) {
            return Err(format!(
                "a weaker jail: {}",
                differences(&self.complete, &told)
            ));
        }
        let has_died = summary.contains("died");
        match run.code {
            Some(125) if !told.is_empty() => Err(format!("the command ran: {}", said())),
            Some(125) if !run.stderr.contains("groom-ns: refused (") => {
                Err(format!("no line of refusal: {}", said()))
            }
            Some(125) => match self.left() {
                None => Ok(End::Refused),
                Some(left) => Err(format!("{left} was left behind: {}", said())),
            },
            Some(0) if told == self.complete => Ok(End::Stands),
            // Nobody could move the output, or the input; that is said.
            Some(1)
                if told == self.complete
                    && [" is lost: ", "input is cut short: "]
                        .iter()
                        .any(|said| run.stderr.contains(said)) =>
            {
                Ok(End::Stands)
            }
            // The terminal's output can't be moved: it has hung up on the command.
            Some(129) if run.stderr.contains("standard output is lost: ") => Ok(End::Died),
            // 127 is libc's, before main.
            Some(127) if told.is_empty() => Ok(End::Died),
            Some(_) if has_died => Ok(End::Died),
            // Pid 1 did, and the command with it.
            Some(137) if run.stderr.contains("the jail was killed") => Ok(End::Died),
            _ => Err(format!("neither refused nor complete: {}", said())),
        }
    }

    /// What a start made on the host.
    fn left(&self) -> Option<&'static str> {
        if self.workspace.out_dir().exists() {
            Some("the out-dir")
        } else if self.workspace.path("log").exists() {
            Some("the log")
        } else {
            None
        }
    }
}

fn differences(complete: &str, told: &str) -> String {
    let lines = |text: &str| -> BTreeSet<String> { text.lines().map(str::to_owned).collect() };
    let (complete, told) = (lines(complete), lines(told));
    let missing: Vec<_> = complete.difference(&told).take(5).collect();
    let added: Vec<_> = told.difference(&complete).take(5).collect();
    format!("without {missing:#?}, with {added:#?}")
}
