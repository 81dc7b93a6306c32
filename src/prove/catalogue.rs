//! Every proof that is one attempt in one jail.

use super::attempts::{calls, files, identity, network, processes};
use super::broker::{BESIDE, INSIDE};
use super::facts::Facts;
use super::proof::{Outcome, Outside, Proof};

/// The jails that attempts are made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// The clone read-only, an out-dir, a folder given with --ro-file.
    Plain,
    /// The clone writable but for its `.git`s.
    Writable,
    /// As `Plain`, where something is mounted in the given folder, and root has a group.
    Surrounded,
    /// As `Plain`, with a broker.
    Broker,
    /// On the host, beside a run with a broker.
    Beside,
}

impl Scene {
    /// In the order in which they are shown.
    pub(super) const ALL: [Scene; 5] = [
        Scene::Plain,
        Scene::Writable,
        Scene::Surrounded,
        Scene::Broker,
        Scene::Beside,
    ];

    /// As it is passed on to a probe.
    pub(super) fn name(self) -> &'static str {
        match self {
            Scene::Plain => "plain",
            Scene::Writable => "writable",
            Scene::Surrounded => "surrounded",
            Scene::Broker => "broker",
            Scene::Beside => "beside",
        }
    }

    /// The attempts that are made in it.
    pub(super) fn proofs(self, facts: &Facts) -> impl Iterator<Item = &'static Proof> {
        let all = match self {
            Scene::Plain => PLAIN,
            Scene::Writable => WRITABLE,
            Scene::Surrounded => SURROUNDED,
            Scene::Broker => INSIDE,
            Scene::Beside => BESIDE,
        };
        let by_root = facts.by_root;
        all.iter()
            .filter(move |proof| by_root || !proof.of_root_alone)
            .filter(move |proof| !by_root || !proof.of_users_alone)
    }
}

const FILES: &str = "files";
const GIT: &str = "git";
const IDENTITY: &str = "identity";
const PROCESSES: &str = "processes";
const NETWORK: &str = "network";
const SYSCALLS: &str = "syscalls";

pub(super) const fn proof(
    promise: &'static str,
    probe: &'static str,
    attempt: fn(&Facts) -> Outcome,
    must: &'static [&'static str],
) -> Proof {
    Proof {
        promise,
        probe,
        outside: Outside::Plain,
        of_root_alone: false,
        of_users_alone: false,
        must,
        attempt,
    }
}

/// A proof whose control needs capabilities, which a user has in namespaces of its own.
const fn privileged(
    promise: &'static str,
    probe: &'static str,
    attempt: fn(&Facts) -> Outcome,
    must: &'static [&'static str],
) -> Proof {
    Proof {
        outside: Outside::OwnNamespaces,
        ..proof(promise, probe, attempt, must)
    }
}

/// A proof that only concerns a jail of root's.
pub(super) const fn roots(
    promise: &'static str,
    probe: &'static str,
    attempt: fn(&Facts) -> Outcome,
    must: &'static [&'static str],
) -> Proof {
    Proof {
        of_root_alone: true,
        ..proof(promise, probe, attempt, must)
    }
}

/// A proof that says nothing where root makes the attempt, whom nothing denies it.
pub(super) const fn users(
    promise: &'static str,
    probe: &'static str,
    attempt: fn(&Facts) -> Outcome,
    must: &'static [&'static str],
) -> Proof {
    Proof {
        of_users_alone: true,
        ..proof(promise, probe, attempt, must)
    }
}

#[rustfmt::skip] // a table
const PLAIN: &[Proof] = &[
    proof(FILES, "read-beside-the-clone", files::read_beside_the_clone, &["ENOENT"]),
    proof(FILES, "read-through-proc", files::read_through_proc, &["absent"]),
    proof(FILES, "read-shadow", files::read_shadow, &["EACCES"]),
    proof(FILES, "read-what-landlock-denies", files::read_what_only_landlock_denies, &["EACCES"]),
    proof(FILES, "write-clone", files::write_clone, &["EROFS"]),
    proof(FILES, "truncate-in-clone", files::truncate_in_clone, &["EROFS"]),
    proof(FILES, "chmod-in-clone", files::chmod_in_clone, &["EROFS"]),
    proof(FILES, "write-given-folder", files::write_given, &["EROFS"]),
    proof(FILES, "write-usr", files::write_usr, &["EROFS"]),
    proof(FILES, "write-root", files::write_root, &["EROFS"]),
    proof(FILES, "leaked-descriptor", files::use_a_leaked_descriptor, &["ENOENT"]),
    proof(FILES, "truncate-stdin", files::truncate_standard_input, &["EINVAL"]),
    proof(FILES, "chmod-own-program", files::chmod_own_program, &["EROFS"]),
    proof(FILES, "find-device", files::find_a_device, &["ENOENT"]),
    proof(FILES, "usr-without-nodev", files::usr_without_nodev, &["nodev"]),
    proof(FILES, "kernel-listings", files::read_the_kernels_listings, &["covered"]),
    proof(FILES, "find-sysfs", files::find_sysfs, &["ENOENT"]),
    proof(FILES, "writable-proc-sys", files::writable_proc_sys, &["read-only"]),
    privileged(IDENTITY, "capability", identity::hold_a_capability, &["none"]),
    privileged(IDENTITY, "become-root", identity::become_root, &["EINVAL", "EPERM"]),
    proof(IDENTITY, "gain-by-execve", identity::gain_privileges_by_execve, &["no_new_privs"]),
    proof(IDENTITY, "usr-without-nosuid", files::usr_without_nosuid, &["nosuid"]),
    proof(IDENTITY, "leave-setuid-file", files::leave_a_setuid_file, &["EPERM"]),
    proof(IDENTITY, "room-for-user-namespaces", identity::room_for_user_namespaces, &["0"]),
    proof(IDENTITY, "unconfined-pid-1", identity::an_unconfined_pid_1, &["confined"]),
    proof(PROCESSES, "see-launcher", processes::see_the_launcher, &["absent"]),
    proof(PROCESSES, "signal-launcher", processes::signal_the_launcher, &["absent"]),
    proof(PROCESSES, "read-pid-1", processes::read_pid_1, &["EACCES"]),
    proof(PROCESSES, "callers-environment", processes::find_the_callers_environment, &["absent"]),
    proof(PROCESSES, "share-session", processes::share_the_session, &["own"]),
    proof(PROCESSES, "dump-core", processes::dump_core, &["1", "0"]),
    proof(PROCESSES, "share-user-namespace", processes::share_user, &["own"]),
    proof(PROCESSES, "share-mount-namespace", processes::share_mnt, &["own"]),
    proof(PROCESSES, "share-pid-namespace", processes::share_pid, &["own"]),
    proof(PROCESSES, "share-ipc-namespace", processes::share_ipc, &["own"]),
    proof(PROCESSES, "share-uts-namespace", processes::share_uts, &["own"]),
    proof(PROCESSES, "share-cgroup-namespace", processes::share_cgroup, &["own"]),
    proof(PROCESSES, "host-name", processes::see_the_hosts_name, &["another"]),
    proof(PROCESSES, "shared-memory", processes::find_the_hosts_shared_memory, &["EINVAL"]),
    proof(PROCESSES, "file-in-dev-shm", processes::find_a_file_of_the_hosts_dev_shm, &["ENOENT"]),
    proof(NETWORK, "share-net-namespace", processes::share_net, &["own"]),
    proof(NETWORK, "interface-beyond-lo", network::find_an_interface, &["lo"]),
    proof(NETWORK, "route", network::find_a_route, &["ENETUNREACH"]),
    proof(NETWORK, "hosts-loopback", network::connect_to_the_hosts_loopback, &["ECONNREFUSED"]),
    proof(NETWORK, "abstract-socket", network::connect_to_an_abstract_socket, &["ECONNREFUSED", "EPERM"]),
    proof(NETWORK, "socket-in-given-folder", network::connect_to_a_given_socket, &["ECONNREFUSED", "EACCES"]),
    proof(NETWORK, "other-socket-families", calls::make_sockets_of_other_families, &["EAFNOSUPPORT"]),
    proof(SYSCALLS, "make-namespace", calls::make_a_namespace, &["EPERM"]),
    proof(SYSCALLS, "mount", calls::change_mounts, &["EPERM"]),
    proof(SYSCALLS, "mount-by-descriptor", calls::change_mounts_by_descriptor, &["ENOSYS"]),
    proof(SYSCALLS, "trace", calls::trace, &["EPERM"]),
    proof(SYSCALLS, "starve-pid-1", calls::starve_pid_1, &["EPERM"]),
    proof(SYSCALLS, "keyrings", calls::use_keyrings, &["EPERM"]),
    proof(SYSCALLS, "kernel-surface", calls::reach_the_kernels_surface, &["EPERM"]),
    proof(SYSCALLS, "terminal-input", calls::type_into_a_terminal, &["EPERM"]),
    proof(SYSCALLS, "setuid-and-device-files", calls::make_setuid_files_and_devices, &["EPERM"]),
    proof(SYSCALLS, "leases", calls::hold_up_the_hosts_opens, &["EPERM"]),
    proof(SYSCALLS, "clone3-openat2-io-uring", calls::call_what_runtimes_fall_back_from, &["ENOSYS"]),
    proof(SYSCALLS, "newer-than-the-build", calls::call_what_is_newer_than_the_build, &["ENOSYS"]),
    proof(SYSCALLS, "x32", calls::call_by_x32_numbers, &["ENOSYS"]),
    proof(SYSCALLS, "int-0x80", calls::call_by_int_80, &["SIGSYS"]),
];

#[rustfmt::skip] // a table
const WRITABLE: &[Proof] = &[
    proof(GIT, "write-git-config", files::write_git_config, &["EROFS"]),
    proof(GIT, "make-hook", files::make_a_hook, &["EROFS"]),
    proof(GIT, "write-nested-git", files::write_nested_git, &["EROFS"]),
    proof(GIT, "move-git-away", files::move_git_away, &["EBUSY"]),
    proof(GIT, "move-parent-of-git", files::move_a_parent_of_git_away, &["EBUSY"]),
    proof(GIT, "link-git-config", files::link_git_config_into_the_worktree, &["EXDEV"]),
];

#[rustfmt::skip] // a table
const SURROUNDED: &[Proof] = &[
    proof(FILES, "write-submount", files::write_beneath_a_submount, &["EROFS"]),
    roots(IDENTITY, "roots-groups", identity::keep_roots_groups, &["none"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = &'static Proof> {
        [PLAIN, WRITABLE, SURROUNDED, INSIDE, BESIDE]
            .into_iter()
            .flatten()
    }

    #[test]
    fn names_are_unique_and_in_kebab_case() {
        let mut names: Vec<&str> = all().map(|proof| proof.probe).collect();
        let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(
            names.iter().all(|name| name.chars().all(kebab)),
            "{names:?}"
        );
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn success_is_never_what_must_be() {
        for proof in all() {
            assert!(
                !proof.must.is_empty() && !proof.must.contains(&"ok"),
                "{}",
                proof.probe
            );
        }
    }
}
