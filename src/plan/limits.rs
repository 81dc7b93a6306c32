//! What bounds a run from outside of its own processes, as pure data.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::cgroup::Way;

/// The cgroup that the jail lives in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cgroup {
    /// How it is come by.
    pub way: Way,
    /// `memory.max`, bytes; no swap beside it, and whoever goes over it takes the whole
    /// jail along (`memory.swap.max` 0, `memory.oom.group` 1).
    pub memory: Option<u64>,
    /// `cpu.max`: microseconds in each period of [`CPU_PERIOD`].
    pub cpu_quota: Option<u64>,
    /// `pids.max`, with pid 1.
    pub pids: Option<u64>,
}

/// The kernel's own default, in microseconds.
pub const CPU_PERIOD: u64 = 100_000;

impl Cgroup {
    /// What is written, file by file, in this order.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = Vec::new();
        if let Some(bytes) = self.memory {
            settings.push(("memory.max", bytes.to_string()));
            settings.push(("memory.swap.max", "0".to_owned()));
            settings.push(("memory.oom.group", "1".to_owned()));
        }
        let cpu = self.cpu_quota.map(|quota| format!("{quota} {CPU_PERIOD}"));
        settings.extend(cpu.map(|cpu| ("cpu.max", cpu)));
        settings.extend(self.pids.map(|pids| ("pids.max", pids.to_string())));
        settings
    }

    /// The controllers that it needs.
    pub fn controllers(&self) -> Vec<&'static str> {
        let needed = [
            ("memory", self.memory.is_some()),
            ("cpu", self.cpu_quota.is_some()),
            ("pids", self.pids.is_some()),
        ];
        needed
            .iter()
            .filter_map(|(name, is_needed)| is_needed.then_some(*name))
            .collect()
    }
}

impl Display for Cgroup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "make a cgroup for the jail {}:", self.way)?;
        for (number, (file, value)) in self.settings().into_iter().enumerate() {
            write!(f, "{} {file} {value}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}
