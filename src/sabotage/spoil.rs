//! Mechanisms that are steps of the plan, or limits: they are taken out of it.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Mechanism, at_most, stands};
use crate::broker::Limits;
use crate::plan::command::{EnvValue, EnvVar, Grant, LandlockMode, Resource};
use crate::plan::step::{Access, Bind, Build, Ids, Inode, Kind, Plan, Route, Standing};

/// Namespaces, by the names that the plan uses.
const NAMESPACES: [(&str, Mechanism); 7] = [
    ("CLONE_NEWUSER", Mechanism::NewUserNamespace),
    ("CLONE_NEWNS", Mechanism::NewMountNamespace),
    ("CLONE_NEWPID", Mechanism::NewPidNamespace),
    ("CLONE_NEWNET", Mechanism::NewNetNamespace),
    ("CLONE_NEWIPC", Mechanism::NewIpcNamespace),
    ("CLONE_NEWUTS", Mechanism::NewUtsNamespace),
    ("CLONE_NEWCGROUP", Mechanism::NewCgroupNamespace),
];

/// The system's trees, where the host has them as folders.
const SYSTEM: [&str; 8] = [
    "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
];

/// The newest landlock ABI without scopes.
const WITHOUT_SCOPES: u32 = 5;

/// Takes what was asked for out of a plan.
pub fn plan(plan: &mut Plan) {
    plan.namespaces.retain(|name| {
        let of = NAMESPACES.iter().find(|(known, _)| known == name);
        of.is_none_or(|(_, mechanism)| stands(*mechanism))
    });
    if plan.identity.route == Route::Root && !stands(Mechanism::UnprivilegedId) {
        plan.identity.host = Ids { uid: 0, gid: 0 };
    }
    let is_mapped = stands(Mechanism::UnprivilegedId) && stands(Mechanism::IdMappedTrees);
    plan.max_output = plan.max_output.filter(|_| stands(Mechanism::OutputLimit));
    plan.build.retain(is_built);
    for step in &mut plan.build {
        shows_the_host(step, &mut plan.mounts);
        match step {
            Build::Bind(bind) => {
                if !stands(read_only(bind)) {
                    bind.access = Access::Rw;
                }
                bind.idmap = bind.idmap.filter(|_| is_mapped);
            }
            Build::Tmpfs { tmpfs, .. } if !stands(Mechanism::TmpfsLimits) => {
                "100%".clone_into(&mut tmpfs.size);
                tmpfs.inodes = 0;
            }
            _ => {}
        }
    }
    if !stands(Mechanism::MountVerification) {
        // Anything beneath `/` obeys.
        plan.mounts = vec![Standing {
            path: "/".into(),
            access: Access::Rw,
            tree: true,
        }];
    }
    confinement(plan);
}

/// Whether a step stays.
fn is_built(step: &Build) -> bool {
    let of_proc = |path: &Path| path.starts_with("/proc");
    stands(match step {
        Build::Hostname { .. } => Mechanism::OwnHostname,
        Build::SessionKeyring => Mechanism::OwnKeyring,
        Build::LoopbackUp => Mechanism::LoopbackUp,
        Build::Pin { access, .. } if *access == Access::Ro => Mechanism::CoveredGit,
        Build::Pin { .. } => Mechanism::PinnedParents,
        Build::MaskFile { path } if !of_proc(path) => Mechanism::CoveredSockets,
        Build::MaskFile { .. } | Build::MaskDir { .. } => Mechanism::MaskedProc,
        Build::ReadOnly { .. } => Mechanism::ReadOnlyProcSys,
        Build::NoUserNamespaces => Mechanism::NoNestedUserNamespaces,
        Build::Pivot => Mechanism::PivotedRoot,
        Build::Seal { .. } => Mechanism::SealedRoot,
        Build::DropCapabilities => Mechanism::DroppedCapabilities,
        _ => return true,
    })
}

/// What makes a bind read-only.
fn read_only(bind: &Bind) -> Mechanism {
    if matches!(bind.kind, Kind::Device { .. }) {
        Mechanism::ReadOnlyDevices
    } else if SYSTEM.iter().any(|path| bind.target == Path::new(path)) {
        Mechanism::ReadOnlySystem
    } else {
        Mechanism::ReadOnlyGiven
    }
}

/// Shows the host's /proc or /dev/pts in the place of a fresh one.
fn shows_the_host(step: &mut Build, mounts: &mut [Standing]) {
    let path: PathBuf = match step {
        Build::Proc { path } if !stands(Mechanism::OwnProc) => path.clone(),
        Build::Devpts { path } if !stands(Mechanism::OwnDevpts) => path.clone(),
        _ => return,
    };
    let identity = std::fs::metadata(&path).ok().map(|is| Inode {
        dev: is.dev(),
        ino: is.ino(),
    });
    for standing in mounts.iter_mut().filter(|one| one.path == path) {
        standing.tree = true;
    }
    *step = Build::Bind(Bind {
        source: path.clone(),
        target: path,
        kind: Kind::Dir,
        access: Access::Rw,
        identity,
        idmap: None,
    });
}

fn confinement(plan: &mut Plan) {
    let confine = &mut plan.confine;
    if !stands(Mechanism::OwnUmask) {
        confine.umask = 0;
    }
    confine.limits.retain(|limit| {
        stands(match limit.resource {
            Resource::Core => Mechanism::CoreLimit,
            Resource::Nofile => Mechanism::FilesLimit,
            Resource::Fsize => Mechanism::FileSizeLimit,
            Resource::Nproc => Mechanism::ProcessesLimit,
        })
    });
    let landlock = &mut confine.landlock;
    if !stands(Mechanism::LandlockScopes) {
        landlock.abi = landlock.abi.min(WITHOUT_SCOPES);
    }
    if !stands(Mechanism::LandlockRules) {
        for rule in &mut landlock.rules {
            rule.grant = Grant::Write;
        }
    }
    if !stands(Mechanism::LandlockDomain) {
        landlock.mode = LandlockMode::BestEffort;
        landlock.abi = 0;
        landlock.rules.clear();
    }
    if !stands(Mechanism::SelfCheck) {
        confine.self_check.clear();
    }
    if !stands(Mechanism::CleanEnvironment) {
        let callers = std::env::vars_os().filter_map(|(name, value)| {
            Some(EnvVar {
                name: name.into_string().ok()?,
                value: EnvValue::Callers(CString::new(value.into_vec()).ok()?),
            })
        });
        plan.exec.env.extend(callers);
    }
}

/// Lifts the limits of the broker that were asked for.
pub fn limits(limits: &mut Limits) {
    limits.connections = at_most(Mechanism::ConnectionLimit, limits.connections);
    limits.exchanges = at_most(Mechanism::ExchangeLimit, limits.exchanges);
    if !stands(Mechanism::HeadTime) {
        limits.head = Duration::from_hours(1);
    }
}
