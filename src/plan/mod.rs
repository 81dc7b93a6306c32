//! The plan of a run: ordered steps, pure data. No effect is imported here.
//!
//! [`make`] is a pure function of a judged policy and facts about the host;
//! `--plan` prints what it returns, and a run executes the same value.

pub mod command;
#[cfg(test)]
mod golden;
mod layout;
pub mod limits;
mod print;
pub mod step;

use std::path::{Path, PathBuf};

use crate::broker::provider::VariableValue;
use crate::broker::route::Routes;
use crate::confine::{landlock, seccomp};
use crate::host::Host;
use crate::policy::{BrokerPolicy, CloneMode, Limits, OutDir, Pids, Policy, Size};

use command::{
    Check, Confine, EnvValue, EnvVar, Exec, Grant, Landlock, LandlockRule, Limit, OnDenial,
    Resource, Seccomp,
};
use step::{Identity, MakeDir, Plan, Route};

/// The namespaces of the jail, as `clone(2)` names them.
pub const NAMESPACES: [&str; 7] = [
    "CLONE_NEWUSER",
    "CLONE_NEWNS",
    "CLONE_NEWPID",
    "CLONE_NEWNET",
    "CLONE_NEWIPC",
    "CLONE_NEWUTS",
    "CLONE_NEWCGROUP",
];

/// The command's HOME, a private tmpfs.
pub const HOME: &str = "/home/agent";

/// The jail's own pseudo-terminals.
pub const DEVPTS: &str = "/dev/pts";

/// A file in the jail's root that permissions let the command read and landlock
/// doesn't: the self-check tries it.
pub const CANARY: &str = "/.groom-ns-canary";

/// Where a broker is reached, ours or the caller's own.
pub const BROKER_SOCKET: &str = "/run/broker.sock";

/// Orders the steps of a run.
pub fn make(policy: &Policy, host: &Host, identity: Identity) -> Plan {
    let abi = host.landlock.unwrap_or(0).min(landlock::NEWEST);
    let mut warnings = host.warnings.clone();
    if abi == 0 {
        warnings.push(
            "landlock is absent, as --landlock=best-effort allows: mounts alone keep files apart"
                .to_owned(),
        );
    }
    warnings.extend(policy.warnings.iter().cloned());
    let granted = granted(policy, &identity);
    let (build, mounts) = layout::build(policy, host, &identity, &granted);
    Plan {
        warnings,
        profile: policy.profile.clone(),
        make_out_dir: make_out_dir(policy, &identity),
        namespaces: NAMESPACES.to_vec(),
        build,
        mounts,
        cgroup: policy.limits.cgroup.clone(),
        max_output: policy.limits.max_output.map(Size::bytes),
        broker: policy.broker.as_ref().map(broker),
        confine: Confine {
            umask: 0o022,
            limits: resource_limits(&policy.limits),
            landlock: Landlock {
                mode: policy.landlock,
                abi,
                absent: landlock::absent(abi),
                rules: if abi == 0 {
                    Vec::new()
                } else {
                    let with_socket = policy.uds.is_some() || policy.broker.is_some();
                    landlock_rules(host, &granted, with_socket)
                },
            },
            seccomp: filter(policy.allow_ptrace, policy.on_denial),
            self_check: self_check(policy, abi),
        },
        exec: Exec {
            cwd: policy.clone.path.clone(),
            env: environment(policy),
            argv: policy.argv.clone(),
        },
        identity,
        times: policy.times,
    }
}

/// Everything of the host that the caller named, by path, outermost first.
fn granted(policy: &Policy, identity: &Identity) -> Vec<layout::Place> {
    let clone_access = match policy.clone_mode {
        CloneMode::Ro => step::Access::Ro,
        CloneMode::RwGitRo(_) => step::Access::Rw,
    };
    let mut places = vec![layout::Place::of(&policy.clone, clone_access, identity)];
    match &policy.out_dir {
        None => {}
        Some(OutDir::Exists(dir)) => {
            places.push(layout::Place::of(dir, step::Access::Rw, identity));
        }
        Some(OutDir::Missing { path, alias }) => {
            places.push(layout::Place::to_be_made(
                path,
                alias.as_deref(),
                policy.clone.owner,
                identity,
            ));
        }
    }
    let linked = policy.linked.iter();
    let linked = linked.flat_map(|linked| [&linked.common, &linked.git_dir]);
    places.extend(
        linked
            .chain(&policy.ro_files)
            .map(|file| layout::Place::of(file, step::Access::Ro, identity)),
    );
    // Parents before children, or the parent would be mounted over the child;
    // what is named twice is bound once.
    places.sort_by(|one, other| one.bind.target.cmp(&other.bind.target));
    places.dedup_by(|one, other| one.bind.target == other.bind.target);
    places
}

/// The out-dir that is yet to be made. Root gives it the clone's owner, as if
/// whoever made the checkout had made it.
fn make_out_dir(policy: &Policy, identity: &Identity) -> Option<MakeDir> {
    match &policy.out_dir {
        Some(OutDir::Missing { path, .. }) => Some(MakeDir {
            path: path.clone(),
            owner: match identity.route {
                Route::User => None,
                Route::Root => Some(policy.clone.owner),
            },
        }),
        _ => None,
    }
}

/// What may be shown of the broker.
fn broker(asked: &BrokerPolicy) -> step::Broker {
    let config = &asked.config;
    step::Broker {
        provider: config.provider.name(),
        upstream: config.upstream.to_string(),
        routes: Routes::of(config.provider, config.routes.clone())
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

/// RLIMIT_CORE is 1 and not 0: with a pipe handler in core_pattern the kernel
/// runs it, on the host and as root, for a limit of 0 but not for 1 (measured on
/// 6.18; core(5)). NOFILE is what login shells have.
pub(crate) fn resource_limits(asked: &Limits) -> Vec<Limit> {
    let both = |resource, most| Limit {
        resource,
        soft: most,
        hard: most,
    };
    let mut limits = vec![
        both(Resource::Core, 1),
        Limit {
            resource: Resource::Nofile,
            soft: 1024,
            hard: 1_048_576,
        },
    ];
    let file_size = asked.file_size.map(Size::bytes);
    limits.extend(file_size.map(|bytes| both(Resource::Fsize, bytes)));
    // Counted in the jail's own user namespace, whatever else the user runs (m). A
    // cgroup counts the same, and how often it refused.
    let by_cgroup = asked
        .cgroup
        .as_ref()
        .is_some_and(|cgroup| cgroup.pids.is_some());
    let pids = asked.pids.filter(|_| !by_cgroup).map(Pids::in_jail);
    limits.extend(pids.map(|number| both(Resource::Nproc, number)));
    limits
}

/// The command's filter.
pub(crate) fn filter(allow_ptrace: bool, on_denial: OnDenial) -> Seccomp {
    Seccomp {
        allow_ptrace,
        on_denial,
        rules: seccomp::rule_count(allow_ptrace, on_denial),
        ceiling: seccomp::CEILING,
    }
}

fn landlock_rules(host: &Host, granted: &[layout::Place], with_socket: bool) -> Vec<LandlockRule> {
    let rule = |path: &Path, grant| LandlockRule {
        path: path.to_owned(),
        grant,
    };
    let mut rules = vec![rule(Path::new("/"), Grant::List)];
    rules.extend(layout::system_binds(host).map(|bind| rule(&bind.target, Grant::Execute)));
    rules.push(rule(Path::new("/proc"), Grant::Read));
    for (name, _) in layout::DEVICES {
        let grant = if name == "tty" {
            Grant::Terminal
        } else {
            Grant::Device
        };
        rules.push(rule(&Path::new("/dev").join(name), grant));
    }
    rules.push(rule(Path::new(DEVPTS), Grant::Terminal));
    for writable in ["/dev/shm", "/tmp", HOME] {
        rules.push(rule(Path::new(writable), Grant::Write));
    }
    if with_socket {
        rules.push(rule(Path::new(BROKER_SOCKET), Grant::Connect));
    }
    for place in granted {
        let grant = match place.bind.access {
            step::Access::Ro => Grant::Execute,
            step::Access::Rw => Grant::Write,
        };
        rules.push(rule(&place.bind.target, grant));
    }
    rules
}

fn self_check(policy: &Policy, abi: u32) -> Vec<Check> {
    let mut checks = vec![
        Check::NoPrivileges,
        Check::Socket {
            family: "AF_VSOCK",
            number: libc::AF_VSOCK,
        },
        Check::Socket {
            family: "AF_ALG",
            number: libc::AF_ALG,
        },
        Check::UserNamespace,
    ];
    if abi > 0 {
        checks.push(Check::Canary {
            path: CANARY.into(),
        });
    }
    let clone = &policy.clone.path;
    // A folder: a linked worktree's own .git is a file.
    let read_only: PathBuf = match (&policy.clone_mode, &policy.linked) {
        (CloneMode::Ro, _) => clone.clone(),
        (CloneMode::RwGitRo(_), Some(linked)) => linked.common.path.clone(),
        (CloneMode::RwGitRo(_), None) => clone.join(".git"),
    };
    checks.extend(["/usr".into(), read_only].map(|path| Check::ReadOnly { path }));
    checks
}

/// HOME, PATH, TERM, what leads to the broker, and the caller's `--env`s, which
/// win; nothing else.
fn environment(policy: &Policy) -> Vec<EnvVar> {
    let term = policy.term.as_deref().unwrap_or("dumb");
    let ours = [
        ("HOME", HOME),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("TERM", term),
    ];
    let ours = ours.map(|(name, value)| EnvVar {
        name: name.to_owned(),
        value: EnvValue::Ours(value.to_owned()),
    });
    let brokers = policy.broker.iter().flat_map(broker_variables);
    let is_overridden = |name: &str| policy.env.iter().any(|var| var.name == name);
    ours.into_iter()
        .chain(brokers)
        .filter(|var| !is_overridden(&var.name))
        .chain(policy.env.iter().cloned())
        .collect()
}

/// What clients of the API look for.
fn broker_variables(asked: &BrokerPolicy) -> impl Iterator<Item = EnvVar> {
    let port = asked.shim_port;
    let variables = asked.config.provider.variables().iter();
    variables.map(move |variable| EnvVar {
        name: variable.name.to_owned(),
        value: match variable.value {
            VariableValue::BaseUrl(path) => EnvValue::BrokerUrl { port, path },
            VariableValue::Token => EnvValue::BrokerToken,
            VariableValue::Fixed(value) => EnvValue::Ours(value.to_owned()),
        },
    })
}
