//! A row of the report: one primitive, what a run needs of it, and what is here.

use serde::{Deserialize, Serialize};

use crate::refusal::{Reason, Refusal};

/// A variant, its name in the table and in JSON, and what a run needs of it.
macro_rules! primitives {
    ($($variant:ident $name:literal $needed:literal)*) => {
        /// What a run needs, in the order of the report. The names are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Primitive {
            $(#[doc = $needed] #[serde(rename = $name)] $variant,)*
        }

        impl Primitive {
            /// Every row, in order.
            pub const ALL: &[Primitive] = &[$(Primitive::$variant),*];

            /// Its name, in the table and in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Primitive::$variant => $name,)* }
            }

            /// What a run needs of it.
            pub fn needed(self) -> &'static str {
                match self { $(Primitive::$variant => $needed,)* }
            }
        }
    };
}

primitives! {
    Caller "caller" "no set-user-id start"
    Kernel "kernel" "Linux 5.19"
    System "system" "/usr and /etc, directories"
    HostProc "host-proc" "/proc, of this pid namespace"
    CoreDumps "core-dumps" "none that a handler of the host gets"
    Groups "groups" "none that opens what is the host's"
    Clone "clone" "this folder may be --clone"
    Identity "identity" "an unprivileged id for the command"
    UserNamespace "user-namespace" "CLONE_NEWUSER"
    MountNamespace "mount-namespace" "CLONE_NEWNS"
    PidNamespace "pid-namespace" "CLONE_NEWPID"
    NetNamespace "net-namespace" "CLONE_NEWNET"
    IpcNamespace "ipc-namespace" "CLONE_NEWIPC"
    UtsNamespace "uts-namespace" "CLONE_NEWUTS"
    CgroupNamespace "cgroup-namespace" "CLONE_NEWCGROUP"
    AllNamespaces "all-namespaces" "all seven in one clone(2)"
    IdMaps "id-maps" "uid_map, gid_map, setgroups"
    Capabilities "capabilities" "CAP_SYS_ADMIN in the new namespaces"
    Loopback "loopback" "lo raised over netlink"
    Tmpfs "tmpfs" "fsopen, fsmount, move_mount"
    IdMappedMounts "id-mapped-mounts" "MOUNT_ATTR_IDMAP (root)"
    BindMounts "bind-mounts" "open_tree, mount_setattr, move_mount"
    Procfs "procfs" "a fresh /proc"
    Devpts "devpts" "a devpts of the jail's own"
    PivotRoot "pivot-root" "pivot_root"
    CapabilityDrop "capability-drop" "five empty sets"
    Limits "limits" "RLIMIT_CORE, RLIMIT_NOFILE"
    Landlock "landlock" "ABI 2"
    Seccomp "seccomp" "SECCOMP_SET_MODE_FILTER"
    SeccompListener "seccomp-listener" "a listener (prove, --explain-denials)"
    Pidfds "pidfds" "pidfd_open, pidfd_send_signal"
    LockedMemory "locked-memory" "two pages (--broker)"
    Cgroups "cgroups" "a writable cgroup v2 (limits)"
    Jail "jail" "a whole run"
}

/// What was found of a primitive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finding {
    /// As a run needs it.
    Ok(String),
    /// A run works, but not all of it, or with less behind it.
    Degraded {
        /// What is here.
        found: String,
        /// What the caller can do.
        remedy: String,
    },
    /// A run is refused, like this.
    Missing(Refusal),
}

impl From<Result<String, Refusal>> for Finding {
    fn from(tried: Result<String, Refusal>) -> Finding {
        match tried {
            Ok(found) => Finding::Ok(found),
            Err(refusal) => Finding::Missing(refusal),
        }
    }
}

/// What a row comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is there.
    Ok,
    /// It isn't, and runs work without.
    Degraded,
    /// It isn't, and runs are refused.
    Missing,
    /// It couldn't be tried, since something before it is missing; or it plays no
    /// part for this caller.
    Untried,
}

impl Verdict {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Degraded => "degraded",
            Verdict::Missing => "missing",
            Verdict::Untried => "untried",
        }
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Which.
    pub name: Primitive,
    /// What a run needs.
    pub needed: &'static str,
    /// What is here.
    pub found: String,
    /// What that comes to.
    pub verdict: Verdict,
    /// The code of the refusal, where it is missing.
    pub reason: Option<Reason>,
    /// What the caller can do; the refusal's own words.
    pub remedy: Option<String>,
}

impl Row {
    /// The row of a primitive, tried or not.
    pub fn of(name: Primitive, finding: Option<&Finding>) -> Row {
        let (found, verdict, reason, remedy) = match finding {
            None => (String::new(), Verdict::Untried, None, None),
            Some(Finding::Ok(found)) => (found.clone(), Verdict::Ok, None, None),
            Some(Finding::Degraded { found, remedy }) => {
                (found.clone(), Verdict::Degraded, None, Some(remedy.clone()))
            }
            Some(Finding::Missing(refusal)) => (
                what_failed(refusal),
                Verdict::Missing,
                Some(refusal.reason),
                Some(refusal.remedy.clone().into_owned()),
            ),
        };
        Row {
            name,
            needed: name.needed(),
            found,
            verdict,
            reason,
            remedy: remedy.filter(|remedy| !remedy.is_empty()),
        }
    }
}

/// The middle of a refusal's line: step, subject and errno.
fn what_failed(refusal: &Refusal) -> String {
    let errno = refusal.errno.as_deref().unwrap_or_default();
    let parts = [refusal.step.as_ref(), &refusal.subject, errno];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_row_has_the_refusals_words() {
        let refusal = Refusal::new(Reason::Maps, "write").about("x").remedy("y");
        let row = Row::of(Primitive::IdMaps, Some(&Finding::Missing(refusal)));
        assert_eq!(row.found, "write: x");
        assert_eq!(row.reason, Some(Reason::Maps));
        assert_eq!(row.remedy.as_deref(), Some("y"));
        let untried = Row::of(Primitive::IdMaps, None);
        assert_eq!(untried.verdict, Verdict::Untried);
    }
}
