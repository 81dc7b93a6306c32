//! The plan of what was granted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use groom_ns::plan::command::Grant;
use groom_ns::plan::step::{Access, Bind, Build, Kind, Plan};
use groom_ns::policy::{CloneMode, Policy};

use crate::places::{self, shown, writable};
use crate::{Case, said};

const SOCKET: &str = "/run/broker.sock";

pub fn check(case: &Case, policy: &Policy, plan: &Plan) {
    let (text, json) = said::plan(plan);
    assert!(text.lines().count() > 20);
    assert!(json.is_none_or(|json| json["build"].is_array()));
    binds(case, policy, plan);
    covers(policy, plan);
    writes(policy, plan);
    assert_eq!(plan.exec.cwd, policy.clone.path);
    let made = plan.make_out_dir.as_ref().map(|dir| dir.path.as_path());
    assert_eq!(
        made,
        places::out_dir(policy).filter(|dir| dir.symlink_metadata().is_err())
    );
}

fn all_binds(plan: &Plan) -> impl Iterator<Item = (usize, &Bind)> {
    plan.build
        .iter()
        .enumerate()
        .filter_map(|(at, step)| match step {
            Build::Bind(bind) => Some((at, bind)),
            _ => None,
        })
}

/// Each granted place is bound once, as itself, and nothing but the system beside it.
fn binds(case: &Case, policy: &Policy, plan: &Plan) {
    let can_write: BTreeSet<&Path> = writable(policy).collect();
    let granted: BTreeSet<&Path> = shown(policy).collect();
    for place in &granted {
        let found: Vec<&Bind> = all_binds(plan)
            .map(|it| it.1)
            .filter(|bind| bind.target == *place)
            .collect();
        // A folder of the system is shown in any case.
        let is_system = case.host.system.iter().any(|dir| dir.path == *place);
        assert!(found.len() == 1 || is_system, "{place:?}");
        let access = if can_write.contains(place) {
            Access::Rw
        } else {
            Access::Ro
        };
        assert!(found.iter().all(|bind| bind.access == access), "{found:?}");
    }
    for (_, bind) in all_binds(plan) {
        let is_socket = bind.target == Path::new(SOCKET);
        assert!(is_socket || bind.source == bind.target, "{bind:?}");
        let is_system = case.host.system.iter().any(|dir| dir.path == bind.source);
        let is_device = matches!(bind.kind, Kind::Device { .. });
        let is_uds = is_socket
            && policy
                .uds
                .as_ref()
                .is_some_and(|uds| uds.path == bind.source);
        assert!(
            is_system || is_device || is_uds || granted.contains(&*bind.source),
            "{bind:?}"
        );
        assert!(bind.access == Access::Ro || can_write.contains(&*bind.source));
    }
    // A tree that is bound later hides what was bound in it.
    for (at, inner) in all_binds(plan) {
        let hides =
            |outer: &Bind| inner.target.starts_with(&outer.target) && inner.target != outer.target;
        assert!(
            all_binds(plan).all(|(later, outer)| later < at || !hides(outer)),
            "{inner:?}"
        );
    }
}

/// Each cover comes after all binds, in an order in which none hides another.
fn covers(policy: &Policy, plan: &Plan) {
    let mut pinned = Vec::new();
    let mut masked = BTreeSet::new();
    let last = all_binds(plan).map(|it| it.0).max().unwrap();
    for (at, step) in plan.build.iter().enumerate() {
        match step {
            Build::Pin {
                path,
                access,
                identity,
            } => {
                assert!(at > last);
                pinned.push((path, *access, *identity));
            }
            Build::MaskFile { path } if !path.starts_with("/proc") => {
                assert!(at > last && masked.insert(path.clone()));
            }
            _ => {}
        }
    }
    assert!(masked.iter().eq(&policy.sockets));
    let (mut gits, mut parents) = (Vec::new(), Vec::new());
    if let CloneMode::RwGitRo(covers) = &policy.clone_mode {
        (gits, parents) = (covers.gits.clone(), covers.parents.clone());
    }
    let is_pinned = |path: &PathBuf, access, identity| pinned.contains(&(path, access, identity));
    assert!(
        gits.iter()
            .all(|(path, identity)| is_pinned(path, Access::Ro, *identity))
    );
    assert!(
        parents
            .iter()
            .all(|(path, identity)| is_pinned(path, Access::Rw, *identity))
    );
    assert_eq!(pinned.len(), gits.len() + parents.len());
    for (at, (inner, ..)) in pinned.iter().enumerate() {
        assert!(
            pinned[at + 1..]
                .iter()
                .all(|(outer, ..)| !inner.starts_with(outer)),
            "{inner:?}"
        );
    }
    for (path, _) in gits {
        assert!(
            plan.mounts
                .iter()
                .any(|mount| mount.path == path && mount.access == Access::Ro)
        );
    }
}

/// Mounts and landlock agree on what can be written.
fn writes(policy: &Policy, plan: &Plan) {
    let own = ["/dev/shm", "/tmp", "/home/agent"].map(Path::new);
    let can_write: BTreeSet<&Path> = writable(policy).chain(own).collect();
    for rule in &plan.confine.landlock.rules {
        assert!(
            rule.grant != Grant::Write || can_write.contains(&*rule.path),
            "{rule:?}"
        );
    }
    for mount in plan
        .mounts
        .iter()
        .filter(|mount| mount.access == Access::Rw)
    {
        let is_held = matches!(&policy.clone_mode, CloneMode::RwGitRo(covers)
            if covers.parents.iter().any(|parent| parent.0 == mount.path));
        let is_kernels = mount.path == Path::new("/proc") || mount.path == Path::new("/dev/pts");
        assert!(
            is_held || is_kernels || can_write.contains(&*mount.path),
            "{mount:?}"
        );
    }
}
