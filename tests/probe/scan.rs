//! A search for a secret in everything that /proc shows of every process.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

/// Every byte of a needle is given and kept as its complement, so that the
/// search doesn't find itself.
const MASK: u8 = 0xff;
const CHUNK: usize = 1 << 20;

/// The places where the needle (masked, in hexadecimal) is: `PID/FILE …`,
/// and how many files could be read.
pub(crate) fn needle(masked: &str, pids: &[u32]) -> String {
    let needle: Vec<u8> = (0..masked.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&masked[at..at + 2], 16).expect("hexadecimal"))
        .collect();
    let own = std::process::id();
    let mut pids = pids.to_owned();
    // This process first: later, its buffer holds what it read of others.
    pids.sort_by_key(|pid| *pid != own);
    let (mut read, mut found) = (0, Vec::new());
    for pid in pids {
        for name in ["environ", "cmdline", "auxv", "comm", "stat", "mem"] {
            let Some(chunks) = chunks_of(pid, name) else {
                continue;
            };
            read += 1;
            let (file, ranges) = chunks;
            if ranges
                .iter()
                .any(|(from, to)| range_has(&file, *from, *to, &needle))
            {
                found.push(format!("{pid}/{name}"));
            }
        }
    }
    format!("{} in {read} files: {}", found.len(), found.join(" "))
}

/// A file of a process and the ranges that may be read of it.
fn chunks_of(pid: u32, name: &str) -> Option<(File, Vec<(u64, u64)>)> {
    let file = File::open(format!("/proc/{pid}/{name}")).ok()?;
    if name != "mem" {
        return Some((file, vec![(0, CHUNK as u64)]));
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let ranges = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        // The kernel's own pages fail to read; nothing of a process is there.
        (rest.starts_with('r') && !rest.ends_with("[vvar]")).then_some((hex(from)?, hex(to)?))
    });
    Some((file, ranges.collect()))
}

fn range_has(file: &File, from: u64, to: u64, masked: &[u8]) -> bool {
    let overlap = masked.len() as u64 - 1;
    let mut buffer = vec![0; CHUNK];
    let mut at = from;
    while at < to {
        let want = usize::try_from((to - at).min(CHUNK as u64)).expect("at most a chunk");
        let Ok(length @ 1..) = file.read_at(&mut buffer[..want], at) else {
            return false;
        };
        if holds(&buffer[..length], masked) {
            return true;
        }
        let step = length as u64;
        if at + step >= to || step <= overlap {
            return false;
        }
        at += step - overlap;
    }
    false
}

fn holds(bytes: &[u8], masked: &[u8]) -> bool {
    let first = masked[0] ^ MASK;
    bytes.windows(masked.len()).any(|window| {
        window[0] == first
            && window
                .iter()
                .zip(masked)
                .all(|(byte, masked)| byte ^ masked == MASK)
    })
}
