//! What this machine says of itself, as text, for [`super::environment`] to judge.

use std::fs;
use std::path::Path;

/// Texts as the kernel and others wrote them; empty where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `/proc/version`.
    pub version: String,
    /// `/proc/self/status`.
    pub status: String,
    /// `/proc/self/mountinfo`.
    pub mountinfo: String,
    /// `/proc/self/uid_map`.
    pub uid_map: String,
    /// `/proc/1/comm`.
    pub init: String,
    /// The line `flags` of `/proc/cpuinfo`.
    pub cpu_flags: String,
    /// Whether `/.dockerenv` is there.
    pub dockerenv: bool,
    /// Whether `/run/.containerenv` is there, which podman makes.
    pub containerenv: bool,
    /// The variable `container`, as systemd and podman set it.
    pub container: String,
    /// The variable `GITHUB_ACTIONS`.
    pub github_actions: String,
    /// The variable `RUNNER_ENVIRONMENT`.
    pub runner_environment: String,
}

/// Reads them. What can't be read says nothing: it serves advice alone.
pub(super) fn look() -> Facts {
    let read = |path: &str| {
        let bytes = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let flags = read("/proc/cpuinfo");
    let flags = flags.lines().find(|line| line.starts_with("flags"));
    Facts {
        version: read("/proc/version"),
        status: read("/proc/self/status"),
        mountinfo: read("/proc/self/mountinfo"),
        uid_map: read("/proc/self/uid_map"),
        init: read("/proc/1/comm"),
        cpu_flags: flags.unwrap_or_default().to_owned(),
        dockerenv: Path::new("/.dockerenv").exists(),
        containerenv: Path::new("/run/.containerenv").exists(),
        container: variable("container"),
        github_actions: variable("GITHUB_ACTIONS"),
        runner_environment: variable("RUNNER_ENVIRONMENT"),
    }
}
