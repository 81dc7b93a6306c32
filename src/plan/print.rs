//! A plan as a person reads it: numbered steps, in order, by who does them.

use std::fmt::{self, Display, Formatter};

use super::command::{Check, OnDenial};
use super::step::{Access, Bind, Broker, Build, Kind, Plan, Tmpfs};
use crate::policy::times;
use crate::refusal::{Reason, Refusal, shown};

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        let mut lines = Lines { f, number: 0 };
        lines.heading("the supervisor, on the host")?;
        self.supervisor(&mut lines)?;
        lines.heading("pid 1 of the jail")?;
        for step in &self.build {
            lines.line(&step.to_string())?;
        }
        if let Some(broker) = &self.broker {
            lines.heading("the supervisor, while the command's process confines itself")?;
            broker.show(&mut lines)?;
        }
        lines.heading("pid 1, while the command's process confines itself")?;
        lines.line(&format!(
            "read the mount table back: {} mounts as planned",
            self.mounts.len()
        ))?;
        lines.line("wait for the supervisor's word")?;
        lines.line("no_new_privs, a seccomp filter of its own, then let the command start")?;
        lines.heading("the command's process")?;
        self.command(&mut lines)?;
        lines.heading("the supervisor, from then on")?;
        let grace = times::shown(self.times.grace_ms);
        if let Some(timeout) = self.times.timeout_ms {
            lines.line(&format!("TERM after {}", times::shown(timeout)))?;
        }
        lines.line(&format!(
            "KILL after a second TERM, or {grace} after the first"
        ))
    }
}

/// Numbers what is written.
struct Lines<'a, 'b> {
    f: &'a mut Formatter<'b>,
    number: usize,
}

impl Lines<'_, '_> {
    fn heading(&mut self, text: &str) -> fmt::Result {
        writeln!(self.f, "{text}:")
    }

    fn line(&mut self, text: &str) -> fmt::Result {
        self.number += 1;
        writeln!(self.f, "{:4}  {text}", self.number)
    }
}

impl Plan {
    /// The plan as JSON, over several lines and with a newline at its end.
    ///
    /// # Errors
    /// `path`: one of its paths isn't UTF-8, and JSON is (RFC 8259, section 8.1).
    pub fn json(&self) -> Result<String, Refusal> {
        match serde_json::to_string_pretty(self) {
            Ok(text) => Ok(text + "\n"),
            Err(error) => Err(Refusal::new(Reason::Path, "print the plan as JSON")
                .about(error.to_string())
                .remedy("give paths that are UTF-8, or use --plan=text")),
        }
    }

    fn supervisor(&self, lines: &mut Lines) -> fmt::Result {
        let id = &self.identity;
        if let Some(profile) = &self.profile {
            lines.line(&format!("take flags from {}", shown(profile)))?;
        }
        if let Some(dir) = &self.make_out_dir {
            lines.line(&format!("make the out-dir {}", shown(&dir.path)))?;
        }
        lines.line("stand in for descriptors 0, 1 and 2 that are handles on the host")?;
        if let Some(cgroup) = &self.cgroup {
            lines.line(&cgroup.to_string())?;
            lines.line("enter it, for what comes next")?;
        }
        lines.line(&format!("clone({})", self.namespaces.join("|")))?;
        lines.line(&format!(
            "map uid {} to {} and gid {} to {}{}",
            id.host.uid,
            id.inside.uid,
            id.host.gid,
            id.inside.gid,
            if id.groups.is_empty() {
                "; no other group"
            } else {
                "; the caller's groups stay"
            },
        ))?;
        if self.cgroup.is_some() {
            lines.line("leave the cgroup, which pid 1 stays in")?;
        }
        if let Some(most) = self.max_output {
            lines.line(&format!(
                "end the run when it has said {most} bytes and goes on"
            ))?;
        }
        if self.broker.is_some() {
            lines.line("become non-dumpable, since it will hold the key")?;
        }
        Ok(())
    }

    fn command(&self, lines: &mut Lines) -> fmt::Result {
        self.process(lines)?;
        self.confinement(lines)?;
        for check in &self.confine.self_check {
            lines.line(&check.to_string())?;
        }
        self.execution(lines)
    }

    fn process(&self, lines: &mut Lines) -> fmt::Result {
        let confine = &self.confine;
        lines.line(&format!(
            "umask {:03o}, signals to their defaults, a process group of its own{}",
            confine.umask,
            if self.terminal().is_empty() {
                ""
            } else {
                " in the terminal's foreground"
            }
        ))?;
        for limit in &confine.limits {
            let name = format!("{:?}", limit.resource).to_uppercase();
            lines.line(&format!(
                "RLIMIT_{name} at most {} soft, {} hard",
                limit.soft, limit.hard
            ))?;
        }
        Ok(())
    }

    fn confinement(&self, lines: &mut Lines) -> fmt::Result {
        let confine = &self.confine;
        lines.line("no_new_privs")?;
        let landlock = &confine.landlock;
        let absent = if landlock.absent.is_empty() {
            String::new()
        } else {
            format!("; this kernel lacks {}", landlock.absent.join(", "))
        };
        lines.line(&format!("landlock ABI {}{absent}", landlock.abi))?;
        for rule in &landlock.rules {
            writeln!(
                lines.f,
                "        {:9} {}",
                format!("{:?}", rule.grant).to_lowercase(),
                shown(&rule.path)
            )?;
        }
        lines.line(&format!(
            "seccomp: {} rules, ENOSYS above syscall {}{}",
            confine.seccomp.rules,
            confine.seccomp.ceiling,
            if confine.seccomp.allow_ptrace {
                ", tracing allowed"
            } else {
                ""
            },
        ))?;
        if confine.seccomp.on_denial == OnDenial::Ask {
            lines.line("hand the filter's listener to the supervisor, which answers with the rules' errnos")?;
        }
        Ok(())
    }

    fn execution(&self, lines: &mut Lines) -> fmt::Result {
        let argv: Vec<String> = self
            .exec
            .argv
            .iter()
            .map(|arg| format!("{:?}", arg.to_string_lossy()))
            .collect();
        lines.line(&format!(
            "execve {} in {}",
            argv.join(" "),
            shown(&self.exec.cwd)
        ))?;
        for var in &self.exec.env {
            writeln!(lines.f, "        {var:?}")?;
        }
        Ok(())
    }
}

impl Broker {
    fn show(&self, lines: &mut Lines) -> fmt::Result {
        lines.line("read the key")?;
        let Broker {
            provider, upstream, ..
        } = self;
        lines.line(&format!("serve {provider} on both listeners: {upstream}"))?;
        for route in &self.routes {
            writeln!(lines.f, "        forward   {route}")?;
        }
        Ok(())
    }
}

impl Display for Build {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Build::Hostname { name } => write!(f, "sethostname {name}"),
            Build::SessionKeyring => f.write_str("join a fresh session keyring"),
            Build::LoopbackUp => f.write_str("raise lo over netlink"),
            Build::ShimListener { port: 0 } => {
                f.write_str("listen on 127.0.0.1, on a port of the kernel's choice")
            }
            Build::ShimListener { port } => write!(f, "listen on 127.0.0.1:{port}"),
            Build::Root(tmpfs) => write!(f, "make the root: {tmpfs}"),
            Build::Dir { path } => write!(f, "folder {}", shown(path)),
            Build::File { path } => write!(f, "file {}", shown(path)),
            Build::Symlink { path, target } => {
                write!(f, "link {} -> {}", shown(path), shown(target))
            }
            Build::Tmpfs { path, tmpfs } => write!(f, "mount on {}: {tmpfs}", shown(path)),
            Build::Bind(bind) => bind.fmt(f),
            Build::Pin {
                path,
                access: Access::Ro,
                ..
            } => write!(f, "cover {} with itself, read-only", shown(path)),
            Build::Pin {
                path,
                access: Access::Rw,
                ..
            } => write!(f, "hold {} in its place", shown(path)),
            Build::MaskFile { path } => write!(f, "cover {} with /dev/null", shown(path)),
            Build::MaskDir { path } => write!(f, "cover {} with an empty folder", shown(path)),
            Build::Devpts { path } => write!(f, "mount on {}: a new devpts", shown(path)),
            Build::Terminal {
                devpts,
                descriptors,
            } => {
                let numbers: Vec<String> = descriptors.iter().map(i32::to_string).collect();
                let (devpts, numbers) = (shown(devpts), numbers.join(", "));
                write!(
                    f,
                    "open a terminal in {devpts} for descriptors {numbers}, make it the session's, hand its master to the supervisor"
                )
            }
            Build::Proc { path } => write!(f, "mount on {}: a fresh proc", shown(path)),
            Build::NoUserNamespaces => f.write_str("set user.max_user_namespaces to 0 in the jail"),
            Build::ReadOnly { path } => write!(f, "make {} read-only", shown(path)),
            Build::Pivot => f.write_str("pivot_root into the new root, detach the host's"),
            Build::BrokerSocket { path } => write!(f, "listen on {}, mode 0600", shown(path)),
            Build::HandOut => f.write_str("hand both listeners to the supervisor, keep neither"),
            Build::Seal { path } => write!(f, "make the tmpfs on {} read-only", shown(path)),
            Build::DropCapabilities => f.write_str("empty all five capability sets"),
        }
    }
}

impl Display for Bind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let access = match self.access {
            Access::Ro => "read-only",
            Access::Rw => "writable",
        };
        write!(f, "bind {access} {}", shown(&self.source))?;
        if self.target != self.source {
            write!(f, " on {}", shown(&self.target))?;
        }
        match self.kind {
            Kind::Device { major, minor } => write!(f, " (device {major}:{minor})")?,
            Kind::Dir => f.write_str(" and what is mounted in it")?,
            Kind::File | Kind::Socket => {}
        }
        if let Some(map) = &self.idmap {
            write!(
                f,
                ", uid {} shown as {}, gid {} as {}",
                map.disk.uid, map.host.uid, map.disk.gid, map.host.gid
            )?;
        }
        Ok(())
    }
}

impl Display for Tmpfs {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tmpfs size={},nr_inodes={},mode={:04o}",
            self.size, self.inodes, self.mode
        )
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Check::NoPrivileges => {
                f.write_str("check: no capability in any set, no_new_privs is 1")
            }
            Check::Socket { family, .. } => write!(f, "check: socket({family}) is EAFNOSUPPORT"),
            Check::UserNamespace => f.write_str("check: unshare(CLONE_NEWUSER) is EPERM"),
            Check::Canary { path } => write!(f, "check: reading {} is EACCES", shown(path)),
            Check::ReadOnly { path } => write!(f, "check: a new file in {} is EROFS", shown(path)),
        }
    }
}
