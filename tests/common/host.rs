//! The host, looked at from the outside.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// This long on the machine that tests are written for; `GROOM_NS_TEST_SLOWDOWN` times
/// that where each syscall is emulated.
pub(crate) fn patience(time: Duration) -> Duration {
    let factor = std::env::var("GROOM_NS_TEST_SLOWDOWN").ok();
    time * factor.map_or(1, |text| text.parse().expect("a whole number"))
}

/// Whether the tests run as root: some promises then have another form.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Paths of tests are text.
pub(crate) fn path_str(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

/// chmod(2).
pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a path of our own");
}

/// Copies an executable. Not by this process: a descriptor that is open for
/// writing would be inherited by what other tests start at this moment, and
/// the copy couldn't be executed (ETXTBSY).
pub(crate) fn install(from: &Path, to: &Path) {
    let status = program("cp", "coreutils")
        .args([from, to])
        .status()
        .expect("cp starts");
    assert!(status.success(), "cp {} {}", from.display(), to.display());
    chmod(to, 0o755);
}

/// A program that a test can't do without; its absence is a failure.
pub(crate) fn program(name: &str, package: &str) -> Command {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()));
    assert!(
        found,
        "this test needs `{name}`: install the package {package}"
    );
    Command::new(name)
}

/// The same, where the jail's fixed PATH must have it; returns its path.
pub(crate) fn system_program(name: &str, package: &str) -> String {
    let places = ["/usr/local/bin", "/usr/bin", "/bin"];
    let found = places.iter().map(|place| format!("{place}/{name}"));
    let mut found = found.filter(|path| Path::new(path).is_file());
    found
        .next()
        .unwrap_or_else(|| panic!("`{name}` isn't in {places:?}: install {package}"))
}

/// Host process numbers whose command line holds `marker`.
pub(crate) fn processes_with(marker: &str) -> Vec<i32> {
    processes(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(marker.len())
            .any(|part| part == marker.as_bytes())
    })
}

/// Host process numbers of this name (at most 15 bytes). It is readable of
/// every process, also of one that wiped its arguments; zombies don't count.
pub(crate) fn processes_named(name: &str) -> Vec<i32> {
    processes(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let dead = stat
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'));
        stat.contains(&format!("({name})")) && !dead
    })
}

fn processes(wanted: impl Fn(i32) -> bool) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| wanted(*pid)).collect()
}

/// Waits until `left` lists nothing, or panics with what is left.
pub(crate) fn wait_until_gone(what: &str, left: impl Fn() -> Vec<i32>) {
    let end = Instant::now() + patience(Duration::from_secs(10));
    while !left().is_empty() {
        assert!(Instant::now() < end, "{what} survived: {:?}", left());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The same command, which a shell's script starts as `exec "$@"`, or the like; with empty
/// stdin, and both outputs as pipes.
pub(crate) fn in_shell(script: &str, command: &Command) -> Command {
    let mut shell = program("sh", "dash");
    shell
        .args(["-c", script, "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// The processes that one has started, but for those that are gone, the oldest first.
pub(crate) fn children_of(pid: i32) -> Vec<i32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let pid = |pid: &str| pid.parse().expect("a pid");
    children
        .unwrap_or_default()
        .split_whitespace()
        .map(pid)
        .collect()
}

/// A line of /proc/PID/status.
pub(crate) fn status_field(pid: i32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a live process");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .expect("a known field");
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A name that no other test and no other run of the tests uses; also a comm.
pub(crate) fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{}-{next}", std::process::id())
}

/// The checkout. Its place at build time is nothing that every user can read.
pub(crate) fn checkout() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), Into::into)
}
