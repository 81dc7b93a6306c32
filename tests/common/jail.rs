//! Starting groom-ns, and what came of it.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::host;
use super::workspace::{Workspace, snapshot};

/// No run of these tests takes this long unless it hangs.
const LIMIT: Duration = Duration::from_mins(1);

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("GROOM_NS_BIN")
        .map_or_else(|| env!("CARGO_BIN_EXE_groom-ns").into(), PathBuf::from)
}

/// The probe, which cargo builds as an example next to the test binaries.
pub(crate) fn probe_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("GROOM_NS_PROBE") {
        return path.into();
    }
    let test = std::env::current_exe().expect("the test's own path");
    let debug = test.parent().and_then(Path::parent).expect("target/…/deps");
    let probe = debug.join("examples/probe");
    assert!(
        probe.is_file(),
        "no probe: run `cargo build --examples`, or set GROOM_NS_PROBE"
    );
    probe
}

/// A run of groom-ns to be.
pub(crate) struct Jail {
    binary: PathBuf,
    probe: PathBuf,
    clone: PathBuf,
    out_dir: Option<PathBuf>,
    situation: Vec<String>,
    flags: Vec<OsString>,
    env: Vec<(String, OsString)>,
    absent_env: Vec<String>,
    cwd: Option<PathBuf>,
    stdio: [Option<Stdio>; 3],
}

impl Jail {
    /// See [`Workspace::jail`].
    pub(crate) fn new(workspace: &Workspace) -> Self {
        let jail = Jail {
            binary: binary(),
            probe: workspace.probe(),
            clone: workspace.clone_dir(),
            out_dir: None,
            situation: Vec::new(),
            flags: Vec::new(),
            env: Vec::new(),
            // The tests may run on GitHub Actions themselves.
            absent_env: vec!["GITHUB_ACTIONS".into()],
            cwd: None,
            stdio: [None, None, None],
        };
        jail.flag("--ro-file", workspace.probe())
    }

    /// `--FLAG VALUE`.
    #[must_use]
    pub(crate) fn flag(mut self, flag: &str, value: impl AsRef<OsStr>) -> Self {
        match flag {
            "--out-dir" => self.out_dir = Some(PathBuf::from(value.as_ref())),
            "--clone" => {
                self.clone = PathBuf::from(value.as_ref());
                return self;
            }
            _ => {}
        }
        self.flags.extend([flag.into(), value.as_ref().to_owned()]);
        self
    }

    /// A flag without a value.
    #[must_use]
    pub(crate) fn switch(mut self, flag: &str) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// `--clone-mode rw-git-ro`.
    #[must_use]
    pub(crate) fn writable(self) -> Self {
        self.flag("--clone-mode", "rw-git-ro")
    }

    /// groom-ns's own environment.
    #[must_use]
    pub(crate) fn host_env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// A variable that groom-ns doesn't find in its environment.
    #[must_use]
    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.absent_env.push(name.into());
        self
    }

    /// groom-ns's own current folder.
    #[must_use]
    pub(crate) fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }

    /// Starts it in surroundings that the probe makes (`probe SITUATION… --`).
    #[must_use]
    pub(crate) fn in_situation(mut self, situation: &[&str]) -> Self {
        self.situation = situation.iter().map(ToString::to_string).collect();
        self
    }

    /// Another copy of the binary, for tests that need it by its name.
    #[must_use]
    pub(crate) fn binary(mut self, path: PathBuf) -> Self {
        self.binary = path;
        self
    }

    /// Descriptor 0, 1 or 2.
    #[must_use]
    pub(crate) fn stdio(mut self, fd: usize, to: impl Into<Stdio>) -> Self {
        self.stdio[fd] = Some(to.into());
        self
    }

    /// The whole command line, ready to spawn. By default stdin is empty, and
    /// stdout and stderr are pipes.
    pub(crate) fn command(self, argv: &[impl AsRef<OsStr>]) -> Command {
        let mut command = if self.situation.is_empty() {
            Command::new(&self.binary)
        } else {
            let mut wrapper = Command::new(&self.probe);
            wrapper.args(&self.situation).arg("--").arg(&self.binary);
            wrapper
        };
        command
            .arg("run")
            .arg("--clone")
            .arg(&self.clone)
            .args(&self.flags)
            .arg("--")
            .args(argv);
        for name in self.absent_env {
            command.env_remove(name);
        }
        command.envs(self.env);
        if let Some(cwd) = self.cwd {
            command.current_dir(cwd);
        }
        let [stdin, stdout, stderr] = self.stdio;
        command.stdin(stdin.unwrap_or_else(Stdio::null));
        command.stdout(stdout.unwrap_or_else(Stdio::piped));
        command.stderr(stderr.unwrap_or_else(Stdio::piped));
        command
    }

    /// Runs the probe in the jail.
    pub(crate) fn run(self, probe: &[impl AsRef<OsStr>]) -> Run {
        finish(self.start(probe))
    }

    /// Starts the probe in the jail.
    pub(crate) fn start(self, probe: &[impl AsRef<OsStr>]) -> Child {
        let mut argv = vec![self.probe.clone().into_os_string()];
        argv.extend(probe.iter().map(|word| word.as_ref().to_owned()));
        self.command(&argv).spawn().expect("groom-ns starts")
    }

    /// Runs another program in the jail.
    pub(crate) fn run_program(self, argv: &[impl AsRef<OsStr>]) -> Run {
        finish(self.command(argv).spawn().expect("groom-ns starts"))
    }

    /// Runs a command that would leave traces, and asserts that it was refused
    /// with this code, that nothing was made, and that nothing ran.
    pub(crate) fn refused(self, code: &str) -> Run {
        let out = self.out_dir.clone();
        let before = self.traces();
        let clone = self.clone.clone();
        let marker = out.clone().unwrap_or(clone.clone()).join("marker");
        let write = format!("write {} ran", host::path_str(&marker));
        let run = self.run(&["seq", "say ran", &write]);
        run.assert_refused(code);
        assert_eq!(run.stdout, "", "a refused command ran");
        let after = [Some(clone), out]
            .into_iter()
            .flatten()
            .map(|dir| trace(&dir));
        assert_eq!(
            after.collect::<Vec<_>>(),
            before,
            "a refusal left something: {}",
            run.stderr
        );
        run
    }

    fn traces(&self) -> Vec<String> {
        let places = [Some(self.clone.clone()), self.out_dir.clone()];
        places
            .into_iter()
            .flatten()
            .map(|dir| trace(&dir))
            .collect()
    }
}

/// What there is at a path of the test's own; of the system's only that it is there.
fn trace(path: &Path) -> String {
    let own = path.starts_with(std::env::temp_dir()) && path != std::env::temp_dir();
    match path.symlink_metadata() {
        Err(_) => "absent".into(),
        Ok(meta) if meta.is_dir() && own => format!("{:?}", snapshot(path)),
        Ok(_) => "there".into(),
    }
}

/// How a run ended, and what it said.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code; none if a signal ended groom-ns itself.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Run {
    /// The probe's outcome, where the command ran to its end.
    pub(crate) fn outcome(&self) -> &str {
        assert_eq!(self.code, Some(0), "the command ends with 0: {self:#?}");
        self.stdout.trim_end()
    }

    /// Standard error without the one line that depends on who runs the tests:
    /// the warning of a user's groups.
    pub(crate) fn stderr_but_for_groups(&self) -> String {
        self.stderr
            .split_inclusive('\n')
            .filter(|line| !line.starts_with("groom-ns: warning: the command keeps your groups"))
            .collect()
    }

    /// The text after `ok`.
    pub(crate) fn ok(&self) -> &str {
        let outcome = self.outcome();
        let text = outcome
            .strip_prefix("ok")
            .unwrap_or_else(|| panic!("not ok: {self:#?}"));
        text.trim_start_matches([' ', '\n'])
    }

    /// The outcomes of `each` and `seq`.
    pub(crate) fn lines(&self) -> Vec<&str> {
        self.ok().lines().collect()
    }

    /// Exit code 125 and exactly one line with this code, which says what to do.
    pub(crate) fn assert_refused(&self, code: &str) {
        assert_eq!(self.code, Some(125), "refused with `{code}`: {self:#?}");
        let refusals: Vec<&str> = self
            .stderr
            .lines()
            .filter(|line| line.starts_with("groom-ns: refused ("))
            .collect();
        let expected = format!("groom-ns: refused ({code}): ");
        assert_eq!(refusals.len(), 1, "one line of refusal: {self:#?}");
        assert!(
            refusals[0].starts_with(&expected),
            "refused with `{code}`: {self:#?}"
        );
        assert!(
            refusals[0].contains("; "),
            "a refusal has a remedy: {}",
            refusals[0]
        );
    }

    /// The one line of refusal.
    pub(crate) fn refusal(&self) -> &str {
        let mut lines = self
            .stderr
            .lines()
            .filter(|line| line.starts_with("groom-ns: refused"));
        lines
            .next()
            .unwrap_or_else(|| panic!("not refused: {self:#?}"))
    }
}

/// Starts a program with empty stdin and both outputs as pipes.
pub(crate) fn spawn(command: &mut Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Waits for the end of a run and of everything that holds its outputs. A run
/// that doesn't end is killed and fails the test.
pub(crate) fn finish(mut child: Child) -> Run {
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let end = Instant::now() + host::patience(LIMIT);
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child of this process") {
            break status;
        }
        if Instant::now() > end {
            let _ = child.kill();
            panic!("the run doesn't end; stderr: {:?}", stderr.try_recv());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    // Whoever still holds an output outlived groom-ns.
    let rest = |output: mpsc::Receiver<String>, name: &str| {
        let text = output.recv_timeout(host::patience(Duration::from_secs(20)));
        text.unwrap_or_else(|_| panic!("somebody holds {name} after the run's end"))
    };
    Run {
        code: code(status),
        stdout: rest(stdout, "stdout"),
        stderr: rest(stderr, "stderr"),
    }
}

/// The process of a child that wasn't waited for.
pub(crate) fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a pid"))
}

/// As a shell has it: of the command's interrupt groom-ns dies itself.
pub(crate) fn code(status: ExitStatus) -> Option<i32> {
    let interrupted = status.signal().filter(|signal| *signal == libc::SIGINT);
    status.code().or(interrupted.map(|signal| 128 + signal))
}

fn collect(output: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (give, take) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut output) = output {
            output.read_to_end(&mut bytes).expect("a readable pipe");
        }
        // The test may have given up.
        let _ = give.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    take
}

/// Reads from a child's stdout until a line appears: the command is running.
pub(crate) fn wait_for_line(child: &mut Child, wanted: &str) {
    let stdout = child.stdout.as_mut().expect("stdout is a pipe");
    let mut line = Vec::new();
    let mut byte = [0];
    // Byte by byte, so that nothing after the line is taken.
    while stdout.read(&mut byte).expect("a readable pipe") == 1 {
        if byte != *b"\n" {
            line.push(byte[0]);
        } else if line == wanted.as_bytes() {
            return;
        } else {
            line.clear();
        }
    }
    let mut stderr = String::new();
    if let Some(mut output) = child.stderr.take() {
        let _ = output.read_to_string(&mut stderr);
    }
    panic!("no line `{wanted}` before the end of stdout: {stderr}");
}
