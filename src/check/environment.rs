//! Where this is: a pure function of [`Facts`]. It serves one line and the advice that
//! fits; whether the jail stands is tried, not concluded.

#[cfg(test)]
mod tests;

use std::path::Path;

use serde::Serialize;

use crate::mountinfo;
use crate::refusal::Reason;

pub use super::facts::Facts;

/// Where groom-ns was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact for itself, in any combination"
)]
pub struct Environment {
    /// Whose kernel it is.
    pub platform: Platform,
    /// The container around it, if any.
    pub container: Option<Container>,
    /// Whether a container leaves `CAP_SYS_ADMIN` in the bounding set (`--privileged`).
    pub privileged: bool,
    /// Whether something of `/proc` is covered, so that no fresh one can be mounted.
    pub masked_proc: bool,
    /// What runs the job on GitHub Actions.
    pub runner: Option<Runner>,
    /// Whether a seccomp filter is in force.
    pub seccomp: bool,
    /// Whether no_new_privs is set: set-user-id programs, sudo among them, don't work.
    pub no_new_privs: bool,
    /// Whether it is in a user namespace below the first.
    pub user_namespace: bool,
    /// Whether pid 1 is bubblewrap's.
    pub bubblewrap: bool,
}

/// Whose kernel it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Linux on a machine.
    Host,
    /// Linux in a virtual machine.
    Vm,
    /// Linux in Windows' virtual machine.
    Wsl2,
    /// Windows' imitation of Linux.
    Wsl1,
    /// gVisor's imitation of Linux.
    Gvisor,
}

/// A container, by what made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Container {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// Something else that says so.
    Other,
}

/// What runs a job on GitHub Actions (`RUNNER_ENVIRONMENT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runner {
    /// GitHub's own machine.
    GithubHosted,
    /// Somebody else's machine.
    SelfHosted,
}

/// Recognises it by what each is known to show (docs/check.md).
pub fn recognise(facts: &Facts) -> Environment {
    let container = container(facts);
    let bounding = field(&facts.status, "CapBnd").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    // CAP_SYS_ADMIN, linux/capability.h
    let admin = bounding.is_some_and(|set| set & (1 << 21) != 0);
    Environment {
        platform: platform(facts),
        container,
        privileged: container.is_some() && admin,
        masked_proc: masked_proc(&facts.mountinfo),
        runner: runner(facts),
        seccomp: field(&facts.status, "Seccomp").is_some_and(|mode| mode == "2"),
        no_new_privs: field(&facts.status, "NoNewPrivs").is_some_and(|value| value == "1"),
        user_namespace: !facts.uid_map.is_empty()
            && !facts
                .uid_map
                .split_whitespace()
                .eq(["0", "0", "4294967295"]),
        bubblewrap: facts.init.trim() == "bwrap",
    }
}

fn platform(facts: &Facts) -> Platform {
    // The build date that gVisor gives in every version (pkg/sentry/syscalls/linux).
    let is_gvisor = facts.version.contains("-gvisor")
        || facts
            .version
            .contains("#1 SMP Sun Jan 10 15:06:54 PST 2016");
    let version = facts.version.to_lowercase();
    let has_flag = |wanted| {
        facts
            .cpu_flags
            .split_whitespace()
            .any(|flag| flag == wanted)
    };
    if is_gvisor {
        Platform::Gvisor
    } else if version.contains("wsl2") {
        Platform::Wsl2
    } else if version.contains("-microsoft") && !version.contains("microsoft-standard") {
        Platform::Wsl1
    } else if version.contains("microsoft-standard") {
        Platform::Wsl2
    } else if has_flag("hypervisor") {
        Platform::Vm
    } else {
        Platform::Host
    }
}

fn container(facts: &Facts) -> Option<Container> {
    match facts.container.as_str() {
        "podman" => Some(Container::Podman),
        "docker" => Some(Container::Docker),
        _ if facts.containerenv => Some(Container::Podman),
        _ if facts.dockerenv => Some(Container::Docker),
        // WSL's own systemd says so of its virtual machine.
        "" | "wsl" => None,
        _ => Some(Container::Other),
    }
}

fn runner(facts: &Facts) -> Option<Runner> {
    match (
        facts.github_actions.as_str(),
        facts.runner_environment.as_str(),
    ) {
        ("true", "github-hosted") => Some(Runner::GithubHosted),
        ("true", _) => Some(Runner::SelfHosted),
        _ => None,
    }
}

/// A cover of whatever kind beneath `/proc`; binfmt_misc is mounted in a folder that is
/// made for it, and covers nothing.
fn masked_proc(table: &str) -> bool {
    let Some(table) = mountinfo::parse(table.as_bytes()) else {
        return false;
    };
    table.iter().any(|mount| {
        mount.point.starts_with("/proc")
            && mount.point != Path::new("/proc")
            && !mount.point.starts_with("/proc/sys/fs/binfmt_misc")
    })
}

fn field<'text>(status: &'text str, name: &str) -> Option<&'text str> {
    let mut lines = status.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

impl Environment {
    /// One line.
    pub fn summary(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.runner.map(|runner| match runner {
            Runner::GithubHosted => "a GitHub-hosted runner",
            Runner::SelfHosted => "a self-hosted runner",
        }));
        parts.extend(self.container.map(|container| match container {
            Container::Docker => "a Docker container",
            Container::Podman => "a Podman container",
            Container::Other => "a container",
        }));
        if self.container.is_some() {
            parts.push(if self.privileged {
                "privileged"
            } else {
                "unprivileged"
            });
        }
        if self.bubblewrap {
            parts.push("a bubblewrap sandbox");
        }
        parts.push(match self.platform {
            Platform::Host => "on Linux",
            Platform::Vm => "on Linux in a virtual machine",
            Platform::Wsl2 => "on WSL 2",
            Platform::Wsl1 => "on WSL 1",
            Platform::Gvisor => "on gVisor",
        });
        for (is_so, words) in [
            (self.masked_proc, "/proc has covers"),
            (self.seccomp, "an outer seccomp filter"),
            (self.no_new_privs, "no_new_privs"),
            (self.user_namespace, "in a user namespace"),
        ] {
            parts.extend(is_so.then_some(words));
        }
        parts.join(", ")
    }

    /// What fits this place where runs are refused for `reason`; none where the
    /// refusal's own remedy says it all.
    pub fn advice(&self, reason: Reason) -> Option<&'static str> {
        let of_namespaces = matches!(reason, Reason::Userns | Reason::Maps);
        let of_sandbox = of_namespaces
            || matches!(
                reason,
                Reason::Mount
                    | Reason::Proc
                    | Reason::Net
                    | Reason::Caps
                    | Reason::Landlock
                    | Reason::Seccomp
                    | Reason::Setup
            );
        match self.platform {
            Platform::Gvisor if of_sandbox || reason == Reason::Kernel => {
                return Some(
                    "gVisor has not what a jail is made of: start groom-ns outside of it, \
                     or use a runtime with a kernel of its own",
                );
            }
            Platform::Wsl1 => return Some("WSL 1 has no Linux kernel: `wsl --set-version NAME 2`"),
            Platform::Wsl2 if reason == Reason::Kernel => return Some("`wsl --update`"),
            _ => {}
        }
        if reason == Reason::Owner && self.container.is_some() {
            return Some("mount the workspace as a volume (`docker run -v`), or add `--user`");
        }
        if !of_sandbox {
            return None;
        }
        if self.container.is_some() {
            return Some(OF_CONTAINER);
        }
        match self.runner {
            Some(Runner::GithubHosted) if of_namespaces => Some(
                "a step before it: `sudo groom-ns setup apparmor --install`; \
                 or start it with `sudo` (docs/github-actions.md)",
            ),
            _ if self.bubblewrap || self.seccomp || self.user_namespace => {
                Some("it is in a sandbox already: start groom-ns outside, and the sandbox in it")
            }
            _ => None,
        }
    }
}

/// What docker run and podman run take.
const OF_CONTAINER: &str = "start the container with `--security-opt seccomp=unconfined \
     --security-opt apparmor=unconfined --security-opt systempaths=unconfined --user UID` \
     (podman: `--security-opt unmask=ALL` for the last), or groom-ns outside of it (docs/container.md)";
