//! Taking one mechanism away, so that the tests can show that they notice
//! (docs/sabotage.md). Only a debug build with the cargo feature `sabotage` can: in
//! any other each function here is a constant, and none of their names is compiled in.

#[cfg(all(feature = "sabotage", not(debug_assertions)))]
compile_error!("the feature `sabotage` takes the jail apart: it is for debug builds of the tests");

#[cfg(feature = "sabotage")]
mod removed;
#[cfg(feature = "sabotage")]
mod spoil;
#[cfg(feature = "sabotage")]
mod trust;

#[cfg(feature = "sabotage")]
pub use {
    removed::{begin, keep, leave_mounts, rule_stands, stands},
    spoil::{limits, plan},
    trust::trust,
};

#[cfg(not(feature = "sabotage"))]
pub use whole::{begin, keep, leave_mounts, limits, plan, rule_stands, stands, trust};

/// What the jail and the broker are made of, and the name of each for the tests.
macro_rules! mechanisms {
    ($($(#[doc = $what:literal])+ $name:ident,)+) => {
        /// One thing that can be taken away. Some are steps of the plan, which are
        /// taken out of it; the others are asked for with [`stands`] where they are.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum Mechanism {
            $($(#[doc = $what])+ $name,)+
        }

        #[cfg(feature = "sabotage")]
        const ALL: &[(&str, Mechanism)] = &[$((stringify!($name), Mechanism::$name),)+];
    };
}

mechanisms! {
    // Steps of the plan.
    /// `CLONE_NEWUSER`.
    NewUserNamespace,
    /// `CLONE_NEWNS`.
    NewMountNamespace,
    /// `CLONE_NEWPID`.
    NewPidNamespace,
    /// `CLONE_NEWNET`.
    NewNetNamespace,
    /// `CLONE_NEWIPC`.
    NewIpcNamespace,
    /// `CLONE_NEWUTS`.
    NewUtsNamespace,
    /// `CLONE_NEWCGROUP`.
    NewCgroupNamespace,
    /// A host name of the jail's own.
    OwnHostname,
    /// A fresh session keyring.
    OwnKeyring,
    /// `lo` is up: what the broker's port is on.
    LoopbackUp,
    /// A fresh /proc; without it, the host's is shown.
    OwnProc,
    /// A fresh /dev/pts; without it, the host's is shown.
    OwnDevpts,
    /// Sizes and numbers of files of the private folders.
    TmpfsLimits,
    /// The system's trees are read-only.
    ReadOnlySystem,
    /// Device nodes are read-only: nobody changes their modes.
    ReadOnlyDevices,
    /// A read-only clone and every `--ro-file` are read-only.
    ReadOnlyGiven,
    /// Each `.git` of a writable clone is a read-only mount.
    CoveredGit,
    /// Folders on the way to a nested `.git` are held in their place.
    PinnedParents,
    /// A linked worktree's repository points back at it.
    WorktreePointsBack,
    /// A linked worktree and its repository have one owner.
    WorktreeOwner,
    /// A linked worktree's repository lies where no command has written.
    WorktreeApart,
    /// No other worktree lies in a linked worktree's repository.
    WorktreeAlone,
    /// Sockets in given folders are covered.
    CoveredSockets,
    /// What /proc tells of the kernel is covered.
    MaskedProc,
    /// /proc/sys is read-only.
    ReadOnlyProcSys,
    /// `user.max_user_namespaces` is 0.
    NoNestedUserNamespaces,
    /// pivot_root(2).
    PivotedRoot,
    /// The root tmpfs is read-only.
    SealedRoot,
    /// Every capability set is emptied.
    DroppedCapabilities,
    /// Trees of root's are id-mapped.
    IdMappedTrees,
    /// Started by root, the command is no root of the host.
    UnprivilegedId,
    /// The mount table is read back.
    MountVerification,
    /// The command's process tries what must fail.
    SelfCheck,
    /// The landlock domain.
    LandlockDomain,
    /// Its scopes: signals and abstract sockets.
    LandlockScopes,
    /// What its rules withhold: without them everything may be read and written.
    LandlockRules,
    /// `RLIMIT_CORE`.
    CoreLimit,
    /// `RLIMIT_NOFILE`.
    FilesLimit,
    /// `RLIMIT_FSIZE`, if one was asked for.
    FileSizeLimit,
    /// `RLIMIT_NPROC`, likewise.
    ProcessesLimit,
    /// The end of a run that says more than it may.
    OutputLimit,
    /// `umask(2)`.
    OwnUmask,
    /// The caller's environment isn't the command's.
    CleanEnvironment,

    // What is trusted before there is a jail.
    /// A profile is its owner's alone to change: the caller's, or root's.
    ProfileOwner,
    /// A profile lies neither in the clone or its checkout nor in the out-dir, nor does a
    /// link to it.
    ProfileGround,

    // The supervisor.
    /// What the caller left open is closed at the start.
    ClosedAtStart,
    /// The end of the process that started groom-ns ends the run.
    CallerWatch,
    /// Pid 1 is killed when the supervisor has done.
    KilledJail,
    /// What a refused run has made is taken back.
    TakenBack,
    /// The supervisor of a broker, and a broker alone, is not dumpable.
    UndumpableBroker,
    /// Descriptors 0 to 2 are pumped through pipes, or a terminal of the jail's own.
    PumpedStdio,
    /// The caller's terminal is restored when groom-ns is killed.
    TerminalGuard,
    /// A command that outlives its grace is killed.
    GraceKill,

    // Pid 1 of the jail, and the command's process.
    /// `deny` in /proc/PID/setgroups.
    SetgroupsDenied,
    /// `setgroups([])`, as root.
    DroppedGroups,
    /// The ids that were taken are read back.
    IdentityReadBack,
    /// argv and environ are wiped from pid 1's memory.
    WipedStrings,
    /// Pid 1 dies with the supervisor.
    ParentDeathSignal,
    /// Pid 1 is not dumpable.
    UndumpableInit,
    /// Pid 1 has a session of its own.
    SessionOfInit,
    /// Pid 1 stays in the command's mount namespace, which would end without it.
    InitInMounts,
    /// Pid 1 keeps no descriptor that it doesn't use.
    ClosedInInit,
    /// Pid 1's filter.
    FilterOfInit,
    /// Pid 1 passes on the supervisor's signals, and none of the command's own.
    OuterSignalsAlone,
    /// The command leads a process group of its own, in the foreground of the jail's
    /// terminal.
    GroupOfCommand,
    /// Signals are as at the start of a program.
    ResetSignals,
    /// The command's process closes what it doesn't use.
    ClosedInCommand,
    /// The command starts when pid 1 is confined.
    StartGate,
    /// `no_new_privs`.
    NoNewPrivileges,
    /// Every descriptor from 3 up is close-on-exec.
    CloseOnExec,

    // Mounts.
    /// `MOUNT_ATTR_NOSUID`.
    NosuidMounts,
    /// `MOUNT_ATTR_NODEV`.
    NodevMounts,
    /// Attributes of a tree are its submounts' too.
    RecursiveAttributes,
    /// No mount is shared with the host.
    PrivatePropagation,
    /// A source is opened again without a link on its way.
    ResolveNoSymlinks,
    /// A source that is opened again is the one that was judged.
    SourceIdentity,
    /// A folder that is held in its place is the one that was judged.
    PinIdentity,
    /// The host's root is detached.
    DetachedOldRoot,

    // The command's filter; its rules have names of their own (`SeccompRule:…`).
    /// The filter as a whole.
    FilterOfCommand,
    /// Numbers that the table doesn't know, x32 among them, are ENOSYS.
    FilterCeiling,
    /// Another architecture's entry kills.
    FilterArchitecture,
    /// The command's process keeps no listener of it.
    ListenerHandedOver,

    // The key.
    /// Its page is zeroes in a fork.
    KeyWipedOnFork,
    /// Its page is in no core.
    KeyUndumped,
    /// Its page is never swapped.
    KeyLocked,
    /// It is wiped from groom-ns's environment.
    KeyWipedFromEnviron,
    /// A command that would get it is refused.
    KeyRefusedToCommand,

    // The broker.
    /// The token is asked for.
    BrokerToken,
    /// A peer on the UNIX socket lives in the jail's pid namespace.
    PeerNamespace,
    /// A peer of a broker alone is of a user that may.
    PeerUser,
    /// Only listed routes are forwarded.
    ListedRoutes,
    /// Only known headers are forwarded; for `custom`, none that is denied.
    ChosenHeaders,
    /// Only known parts of the query are forwarded; for `custom`, none that is denied.
    ChosenQuery,
    /// Headers of an answer that are the connection's, or reach past it, are dropped.
    ChosenAnswerHeaders,
    /// An answer that is encoded is refused.
    PlainAnswers,
    /// The key is looked for in an answer's headers.
    EchoInHeaders,
    /// The key is looked for in an answer's body.
    EchoInBody,
    /// A body's end is said once.
    SingleFraming,
    /// A request has one Host.
    SingleHost,
    /// A target has no encoding that two servers could read in two ways.
    PlainTargets,
    /// A path has no empty and no dotted segment.
    ResolvedPaths,
    /// The size of a head is limited.
    HeadSize,
    /// The number of a head's fields is limited.
    HeadFields,
    /// The time for a head, and for the next piece of a body, is limited.
    HeadTime,
    /// The number of connections is limited.
    ConnectionLimit,
    /// The number of requests under way is limited.
    ExchangeLimit,
    /// The API's certificate is verified.
    VerifiedUpstream,
    // Of `groom-ns setup apparmor`.
    /// No profile for a binary that others than root could replace.
    ProfileForRootsBinary,
    /// No profile's file is replaced or removed but the own one.
    OwnProfileFile,
}

/// `bits`, if the mechanism stands.
pub fn bits(mechanism: Mechanism, bits: u64) -> u64 {
    if stands(mechanism) { bits } else { 0 }
}

/// `most`, if the mechanism that limits it stands.
pub fn at_most(mechanism: Mechanism, most: usize) -> usize {
    if stands(mechanism) { most } else { usize::MAX }
}

/// Every build but the tests' own: everything stands.
#[cfg(not(feature = "sabotage"))]
mod whole {
    use rustls::ClientConfig;

    use super::Mechanism;
    use crate::broker::Limits;
    use crate::confine::seccomp::Rule;
    use crate::plan::step::Plan;
    use crate::sys::notify::Listener;

    /// Reads, once and before any fork, what is to be taken away: nothing.
    pub const fn begin() {}

    /// Whether a mechanism is there.
    pub const fn stands(_: Mechanism) -> bool {
        true
    }

    /// Whether a rule of the command's filter is there.
    pub const fn rule_stands(_: &Rule) -> bool {
        true
    }

    /// Has pid 1 leave its mounts: it stays.
    pub const fn leave_mounts() {}

    /// Keeps a listener for the command: none.
    pub const fn keep(_: &Listener) {}

    /// Takes steps out of a plan: none.
    pub const fn plan(_: &mut Plan) {}

    /// Lifts limits of the broker: none.
    pub const fn limits(_: &mut Limits) {}

    /// Trusts whoever answers: nobody.
    pub const fn trust(_: &mut ClientConfig) {}
}
