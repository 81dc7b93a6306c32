//! The limits of a run, as they were typed and as they are meant.

use crate::cgroup::Way;
use crate::cli;
use crate::plan::limits::Cgroup;
use crate::refusal::{Reason, Refusal, shown};

/// What a run may use up; all that isn't there has no limit but the host's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// What only a cgroup can hold, and how one is come by.
    pub cgroup: Option<Cgroup>,
    /// Processes and threads of the command's.
    pub pids: Option<Pids>,
    /// The size of each private folder.
    pub tmp_size: Option<TmpSize>,
    /// The largest file.
    pub file_size: Option<Size>,
    /// Standard output and error together.
    pub max_output: Option<Size>,
}

/// Bytes; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(u64);

/// A number of processes and threads, the command itself among them; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pids(u64);

/// A share of processors, in thousandths of one; at least ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cpus(u64);

/// The size of a tmpfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TmpSize {
    /// Bytes.
    Bytes(Size),
    /// Hundredths of the host's memory, 1 to 100.
    Share(u8),
}

/// The least that a jail can be built in; the kernel counts in pages.
const LEAST_MEMORY: u64 = 4 << 20;
const PAGE: u64 = 4096;
/// PID_MAX_LIMIT, linux/threads.h, beyond which `pids.max` takes none; one is pid 1.
const MOST_PIDS: u64 = (4 << 20) - 1;
/// The kernel takes no quota below a millisecond in a period of 100 (cgroup v2's cpu.max).
const LEAST_CPU: u64 = 10;
const MOST_CPU: u64 = 8192 * 1000;

impl Limits {
    /// Judges what was typed; `find` is asked how a cgroup can be had where one is needed.
    ///
    /// # Errors
    /// `usage`: a number that can't be read or that would be no limit. `limits`: a cgroup is
    /// needed, and there is no way to one.
    pub(crate) fn judge(
        typed: &cli::Limits,
        find: impl FnOnce(&[&'static str]) -> Result<Way, Refusal>,
    ) -> Result<Limits, Refusal> {
        let memory = read(typed.memory.as_deref(), "--memory", memory)?;
        let cpus = read(typed.cpus.as_deref(), "--cpus", Cpus::read)?;
        let pids = read(typed.pids.as_deref(), "--pids", Pids::read)?;
        let tmp_size = read(typed.tmp_size.as_deref(), "--tmp-size", TmpSize::read)?;
        let file_size = read(typed.file_size.as_deref(), "--file-size", Size::read)?;
        let max_output = read(typed.max_output.as_deref(), "--max-output", Size::read)?;
        let needed: Vec<&'static str> = [
            memory.map(|_| "memory"),
            cpus.map(|_| "cpu"),
            // By a cgroup that there is anyway; alone, RLIMIT_NPROC needs none.
            pids.filter(|_| memory.is_some() || cpus.is_some())
                .map(|_| "pids"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let cgroup = if needed.is_empty() {
            None
        } else {
            Some(Cgroup {
                way: find(&needed)?,
                memory: memory.map(Size::bytes),
                cpu_quota: cpus.map(Cpus::quota),
                pids: pids.map(Pids::in_jail),
            })
        };
        Ok(Limits {
            cgroup,
            pids,
            tmp_size,
            file_size,
            max_output,
        })
    }
}

impl Size {
    /// Bytes, or with K, M, G or T that many KiB, MiB, GiB or TiB.
    fn read(typed: &str) -> Result<Size, &'static str> {
        let (digits, shift) = match typed.char_indices().next_back() {
            Some((at, 'K' | 'k')) => (typed.get(..at), 10),
            Some((at, 'M' | 'm')) => (typed.get(..at), 20),
            Some((at, 'G' | 'g')) => (typed.get(..at), 30),
            Some((at, 'T' | 't')) => (typed.get(..at), 40),
            _ => (Some(typed), 0),
        };
        let number = digits.and_then(whole).ok_or(
            "a size is a whole number of bytes, or of KiB, MiB, GiB or TiB: 4096, 512K, 2G",
        )?;
        match number.checked_mul(1 << shift) {
            Some(0) => Err("0 is no limit that anything runs under: leave the flag out for none"),
            // The kernel's sizes are signed.
            Some(bytes) if i64::try_from(bytes).is_ok() => Ok(Size(bytes)),
            _ => Err("that is more than the kernel can count: leave the flag out for no limit"),
        }
    }

    /// The number.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

/// Whole pages, rounded down as the kernel does.
fn memory(typed: &str) -> Result<Size, &'static str> {
    let Size(bytes) = Size::read(typed)?;
    if bytes < LEAST_MEMORY {
        return Err("the jail itself needs some: 4M is the least");
    }
    Ok(Size(bytes - bytes % PAGE))
}

impl Pids {
    fn read(typed: &str) -> Result<Pids, &'static str> {
        match whole(typed) {
            Some(number @ 1..=MOST_PIDS) => Ok(Pids(number)),
            _ => Err("a whole number from 1 to 4194303: the command itself is one"),
        }
    }

    /// With pid 1, which is counted with the command.
    pub fn in_jail(self) -> u64 {
        self.0 + 1
    }
}

impl Cpus {
    fn read(typed: &str) -> Result<Cpus, &'static str> {
        let wrong = "a number of processors, 0.01 to 8192, with at most three decimals: 2, 0.5";
        let (whole_part, decimals) = match typed.split_once('.') {
            Some((before, after)) if (1..=3).contains(&after.len()) => (before, after),
            Some(_) => return Err(wrong),
            None => (typed, "0"),
        };
        let thousandths = whole(&format!("{decimals:0<3}"));
        let number = whole(whole_part)
            .and_then(|number| number.checked_mul(1000))
            .zip(thousandths)
            .and_then(|(number, rest)| number.checked_add(rest));
        match number {
            Some(number @ LEAST_CPU..=MOST_CPU) => Ok(Cpus(number)),
            _ => Err(wrong),
        }
    }

    /// Microseconds in each period of 100 000.
    fn quota(self) -> u64 {
        self.0 * 100
    }
}

/// A page: tmpfs(5) has nothing smaller.
const LEAST_TMP: u64 = 4096;

impl TmpSize {
    fn read(typed: &str) -> Result<TmpSize, &'static str> {
        match typed.strip_suffix('%') {
            None => match Size::read(typed)? {
                Size(bytes) if bytes < LEAST_TMP => Err("4K is the least; a share has a %: 10%"),
                size => Ok(TmpSize::Bytes(size)),
            },
            Some(share) => match whole(share).map(u8::try_from) {
                Some(Ok(share @ 1..=100)) => Ok(TmpSize::Share(share)),
                _ => Err("a share is 1% to 100%"),
            },
        }
    }

    /// As tmpfs(5) takes it.
    pub fn option(self) -> String {
        match self {
            TmpSize::Bytes(Size(bytes)) => bytes.to_string(),
            TmpSize::Share(share) => format!("{share}%"),
        }
    }
}

/// Digits alone: no sign, which `u64::from_str` takes, and no more than there are numbers for.
pub(super) fn whole(typed: &str) -> Option<u64> {
    let is_number = typed.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| typed.parse().ok()).flatten()
}

fn read<T>(
    typed: Option<&str>,
    flag: &'static str,
    judge: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<Option<T>, Refusal> {
    typed
        .map(|typed| {
            judge(typed).map_err(|remedy| {
                Refusal::new(Reason::Usage, format!("read {flag}"))
                    .about(shown(typed.as_ref()))
                    .remedy(remedy)
            })
        })
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere(_: &[&'static str]) -> Result<Way, Refusal> {
        Err(Refusal::new(Reason::Limits, "find a cgroup"))
    }

    #[test]
    fn sizes() {
        for (typed, bytes) in [
            ("1", 1),
            ("4096", 4096),
            ("512K", 512 << 10),
            ("3m", 3 << 20),
            ("2G", 2 << 30),
            ("7t", 7 << 40),
        ] {
            assert_eq!(Size::read(typed), Ok(Size(bytes)), "{typed}");
        }
        for typed in [
            "",
            "0",
            "0K",
            "K",
            "-1",
            "+1",
            "1.5G",
            "1 K",
            "1KiB",
            "1kb",
            "\u{661}",
            "1\u{212a}",
            "9223372036854775808",
            "8388608T",
            "99999999999999999999",
            "max",
            "10%",
        ] {
            assert!(Size::read(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn processors() {
        for (typed, quota) in [
            ("1", 100_000),
            ("0.5", 50_000),
            ("0.01", 1000),
            ("1.255", 125_500),
        ] {
            assert_eq!(Cpus::read(typed).map(Cpus::quota), Ok(quota), "{typed}");
        }
        for typed in [
            "",
            "0",
            ".5",
            "1.",
            "0.009",
            "0.0",
            "1.2345",
            "-1",
            "1e3",
            "8192.001",
            "1.+1",
            "1,5",
            "99999999999999999999",
        ] {
            assert!(Cpus::read(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn shares_numbers_and_memory() {
        assert_eq!(TmpSize::read("10%").map(TmpSize::option), Ok("10%".into()));
        assert_eq!(
            TmpSize::read("1M").map(TmpSize::option),
            Ok("1048576".into())
        );
        for typed in ["0%", "101%", "%", "1.5%", "256%", "0", "10", "4095", "10 %"] {
            assert!(TmpSize::read(typed).is_err(), "{typed}");
        }
        assert_eq!(Pids::read("1").map(Pids::in_jail), Ok(2));
        // The most that `pids.max` takes.
        assert_eq!(Pids::read("4194303").map(Pids::in_jail), Ok(4 << 20));
        for typed in ["0", "4194304", "1K", "", "-3"] {
            assert!(Pids::read(typed).is_err(), "{typed}");
        }
        assert_eq!(memory("4194305"), Ok(Size(4 << 20)), "whole pages");
        assert!(memory("4194303").is_err());
    }

    #[test]
    fn a_cgroup_is_looked_for_only_where_one_is_needed() {
        let typed = |flags: &[(&str, &str)]| {
            let mut typed = cli::Limits::default();
            for (flag, value) in flags {
                let value = Some((*value).to_owned());
                match *flag {
                    "memory" => typed.memory = value,
                    "cpus" => typed.cpus = value,
                    _ => typed.pids = value,
                }
            }
            typed
        };
        assert_eq!(Limits::judge(&typed(&[]), nowhere), Ok(Limits::default()));
        let pids = Limits::judge(&typed(&[("pids", "3")]), nowhere).expect("no cgroup");
        assert_eq!((pids.pids, pids.cgroup), (Some(Pids(3)), None));
        for flags in [
            &[("memory", "1G")][..],
            &[("cpus", "1")],
            &[("cpus", "1"), ("pids", "3")],
        ] {
            let refusal = Limits::judge(&typed(flags), nowhere).expect_err("no cgroup");
            assert_eq!(refusal.reason, Reason::Limits);
        }
        let mut asked = Vec::new();
        let limits = Limits::judge(&typed(&[("memory", "1G"), ("pids", "3")]), |needed| {
            asked.extend_from_slice(needed);
            Ok(Way::Within("/sys/fs/cgroup/a".into()))
        });
        assert_eq!(asked, ["memory", "pids"]);
        let cgroup = limits.expect("a way").cgroup.expect("a cgroup");
        assert_eq!(
            (cgroup.memory, cgroup.cpu_quota, cgroup.pids),
            (Some(1 << 30), None, Some(4))
        );
        let refusal = Limits::judge(&typed(&[("memory", "1\n")]), nowhere).expect_err("no number");
        assert_eq!(refusal.reason, Reason::Usage);
        assert!(!refusal.to_string().contains('\n'));
    }
}
