//! Why namespaces or maps were refused here, and what can be done about it.
//! Nothing of this is read unless something has failed.

use std::borrow::Cow;
use std::fs;

use nix::errno::Errno;
use nix::unistd::geteuid;

use crate::refusal::{Reason, Refusal};

/// The way that is open where only unprivileged namespaces are closed.
const AS_ROOT: &str = "`sudo groom-ns run` builds the same jail, and the command still isn't root";

/// Where root is that of a user namespace without all ids, trees can't be id-mapped.
pub(crate) const UNMAPPED: &str = "root of a user namespace that doesn't map every group can't hand the clone to the \
     command: start groom-ns as a normal user there, or outside of it";

/// clone(2) failed.
pub fn namespaces_refused(errno: Errno, namespaces: &[&str]) -> Refusal {
    Refusal::new(Reason::Userns, "make the namespaces")
        .about(format!("clone({})", namespaces.join("|")))
        .errno(errno)
        .remedy(namespaces_remedy(errno))
}

/// The namespaces were made, but the first call that needs one of their
/// capabilities failed: AppArmor's restriction on Ubuntu lets unshare succeed
/// and denies what comes after.
pub fn capabilities_refused(call: &'static str, errno: Errno) -> Refusal {
    Refusal::new(
        Reason::Userns,
        "use the capabilities of the new user namespace",
    )
    .about(call)
    .errno(errno)
    .remedy(if apparmor_restricts() {
        apparmor_remedy()
    } else {
        outer_sandbox_remedy()
    })
}

/// An id map couldn't be written.
pub fn map_refused(file: &str, errno: Errno) -> Refusal {
    Refusal::new(Reason::Maps, "write the id map of the new user namespace")
        .about(format!("/proc/PID/{file}"))
        .errno(errno)
        .remedy(if apparmor_restricts() {
            apparmor_remedy()
        } else if geteuid().is_root() && lacks_groups() {
            UNMAPPED.into()
        } else {
            outer_sandbox_remedy()
        })
}

/// Whether there are groups that this user namespace doesn't map (user_namespaces(7)):
/// then it may not map them on.
fn lacks_groups() -> bool {
    let map = fs::read_to_string("/proc/self/gid_map").unwrap_or_default();
    let counts = map
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    let mapped: u64 = counts.filter_map(|count| count.parse::<u64>().ok()).sum();
    mapped < u64::from(u32::MAX)
}

fn namespaces_remedy(errno: Errno) -> Cow<'static, str> {
    match errno {
        Errno::EINVAL | Errno::ENOMEM if is_half_unshared() => {
            "this process's children would be in another pid namespace than it is: start it by \
             `unshare --fork`"
                .into()
        }
        Errno::ENOSPC | Errno::EUSERS => match exhausted_limit() {
            Some((name, value)) => {
                format!("user.{name} is {value}: raise it with `sysctl -w user.{name}=10000`").into()
            }
            None => "a limit of /proc/sys/user or the nesting of user namespaces (32) is reached".into(),
        },
        Errno::EPERM if sysctl("kernel/unprivileged_userns_clone").as_deref() == Some("0") => format!(
            "kernel.unprivileged_userns_clone is 0: set it with `sysctl -w kernel.unprivileged_userns_clone=1`; or {AS_ROOT}"
        )
        .into(),
        Errno::EPERM | Errno::EACCES if apparmor_restricts() => apparmor_remedy(),
        Errno::EPERM | Errno::EACCES => outer_sandbox_remedy(),
        Errno::EINVAL | Errno::ENOSYS => "the kernel was built without a kind of namespace: CONFIG_USER_NS, \
             CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS, CONFIG_UTS_NS and CONFIG_CGROUPS are needed"
            .into(),
        Errno::EAGAIN | Errno::ENOMEM => "too many processes or too little memory: see `ulimit -u`".into(),
        _ => "please report this with `uname -r`".into(),
    }
}

/// Whether `unshare --pid` without `--fork` has been here: such a process can have one
/// child, pid 1, and then none any more (pid_namespaces(7)).
fn is_half_unshared() -> bool {
    let own = fs::read_link("/proc/self/ns/pid");
    let childrens = fs::read_link("/proc/self/ns/pid_for_children");
    // Before the first child there is nothing to link to.
    own.is_ok() && own.ok() != childrens.ok()
}

/// A namespace limit of zero, or else the one on user namespaces: the kernel
/// answers ENOSPC for each without saying which.
fn exhausted_limit() -> Option<(&'static str, String)> {
    const LIMITS: [&str; 7] = [
        "max_user_namespaces",
        "max_mnt_namespaces",
        "max_pid_namespaces",
        "max_net_namespaces",
        "max_ipc_namespaces",
        "max_uts_namespaces",
        "max_cgroup_namespaces",
    ];
    let value = |name: &'static str| sysctl(&format!("user/{name}")).map(|value| (name, value));
    LIMITS
        .iter()
        .filter_map(|name| value(name))
        .find(|(_, value)| value == "0")
        .or_else(|| value("max_user_namespaces"))
}

fn apparmor_restricts() -> bool {
    sysctl("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1")
}

fn apparmor_remedy() -> Cow<'static, str> {
    format!(
        "AppArmor (kernel.apparmor_restrict_unprivileged_userns=1) keeps this binary from using user namespaces: \
         give it a profile with `sudo groom-ns setup apparmor --install`; or {AS_ROOT}"
    )
    .into()
}

fn outer_sandbox_remedy() -> Cow<'static, str> {
    format!(
        "an outer sandbox (a container's seccomp filter, an LSM, a chroot) forbids it: \
         run groom-ns outside of it or loosen it there; or, if only unprivileged namespaces are closed, {AS_ROOT}"
    )
    .into()
}

pub(crate) fn sysctl(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{name}"))
        .ok()
        .map(|value| value.trim().to_owned())
}
