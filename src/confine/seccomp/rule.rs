//! The words that the table is written in.

use std::fmt;

use libc::c_long;

/// What the filter answers instead of making the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// As on a kernel without it, where callers know a fallback.
    Enosys,
    /// As without the privilege.
    Eperm,
    /// As without the protocol family.
    Eafnosupport,
    /// As without the protocol.
    Eprotonosupport,
    /// Success, with nothing done.
    Zero,
    /// As where somebody listens already.
    Ebusy,
}

impl Answer {
    /// In the order in which the filter asks: the first that matches decides.
    pub const ALL: [Answer; 6] = [
        Answer::Enosys,
        Answer::Eperm,
        Answer::Eafnosupport,
        Answer::Eprotonosupport,
        Answer::Zero,
        Answer::Ebusy,
    ];

    /// The errno, positive.
    pub fn errno(self) -> u32 {
        let errno = match self {
            Answer::Enosys => libc::ENOSYS,
            Answer::Eperm => libc::EPERM,
            Answer::Eafnosupport => libc::EAFNOSUPPORT,
            Answer::Eprotonosupport => libc::EPROTONOSUPPORT,
            Answer::Zero => 0,
            Answer::Ebusy => libc::EBUSY,
        };
        errno.unsigned_abs()
    }

    /// Its name, as it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Answer::Enosys => "ENOSYS",
            Answer::Eperm => "EPERM",
            Answer::Eafnosupport => "EAFNOSUPPORT",
            Answer::Eprotonosupport => "EPROTONOSUPPORT",
            Answer::Zero => "0",
            Answer::Ebusy => "EBUSY",
        }
    }
}

/// A test of one argument, by its index from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Its lower 32 bits are this.
    Is(u8, u32),
    /// Its lower 32 bits are anything but this.
    Not(u8, u32),
    /// Its lower 32 bits, masked by the first, are the second.
    Bits(u8, u32, u32),
    /// It is a pointer, and not null.
    NotNull(u8),
}

impl Test {
    /// Whether a call with these arguments passes it.
    pub(super) fn holds(self, args: &[u64; 6]) -> bool {
        let whole = |index: u8| args.get(usize::from(index)).copied().unwrap_or_default();
        let low = |index| whole(index) & u64::from(u32::MAX);
        match self {
            Test::Is(index, value) => low(index) == u64::from(value),
            Test::Not(index, value) => low(index) != u64::from(value),
            Test::Bits(index, mask, value) => low(index) & u64::from(mask) == u64::from(value),
            Test::NotNull(index) => whole(index) != 0,
        }
    }
}

/// A system call by name and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The name of its `SYS_` constant.
    pub(super) constant: &'static str,
    /// Its number on x86_64.
    pub number: c_long,
}

impl Call {
    /// The name, as the manual has it.
    pub fn name(&self) -> &'static str {
        self.constant.strip_prefix("SYS_").unwrap_or(self.constant)
    }
}

/// A rule: calls that share an answer and a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The calls.
    pub calls: &'static [Call],
    /// When it applies: always if empty, else if all tests of any one list hold.
    pub when: &'static [&'static [Test]],
    /// The same in words; empty if always.
    pub condition: &'static str,
    /// The answer.
    pub answer: Answer,
    /// Why, and who notices.
    pub why: &'static str,
    /// `--allow-ptrace` lifts it.
    pub tracing: bool,
    /// It is there with `--explain-denials` alone.
    pub explaining: bool,
}

impl Rule {
    /// How many calls it decides on.
    pub fn count(&self) -> usize {
        self.calls.len()
    }

    /// The flag that lifts it, if there is one.
    pub fn remedy(&self) -> Option<&'static str> {
        self.tracing.then_some("--allow-ptrace")
    }
}

/// One line: "mount, umount2: EPERM (why)".
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, call) in self.calls.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}", call.name())?;
        }
        if !self.condition.is_empty() {
            write!(f, " {}", self.condition)?;
        }
        write!(f, ": {} ({})", self.answer.name(), self.why)
    }
}

macro_rules! calls {
    ($($name:ident)*) => {
        &[$(Call { constant: stringify!($name), number: libc::$name }),*]
    };
}
pub(super) use calls;

/// A rule without conditions.
pub(super) const fn always(answer: Answer, calls: &'static [Call], why: &'static str) -> Rule {
    when(answer, calls, &[], "", why)
}

/// A rule that looks at arguments.
pub(super) const fn when(
    answer: Answer,
    calls: &'static [Call],
    when: &'static [&'static [Test]],
    condition: &'static str,
    why: &'static str,
) -> Rule {
    Rule {
        calls,
        when,
        condition,
        answer,
        why,
        tracing: false,
        explaining: false,
    }
}

/// The same rule, but lifted by `--allow-ptrace`.
pub(super) const fn unless_traced(rule: Rule) -> Rule {
    Rule {
        tracing: true,
        ..rule
    }
}

/// The same rule, but for a filter that the supervisor is asked by.
pub(super) const fn where_explained(rule: Rule) -> Rule {
    Rule {
        explaining: true,
        ..rule
    }
}
