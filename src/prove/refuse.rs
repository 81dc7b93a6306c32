//! Promise 1: what can't be built is refused, and nothing has run. A filter around
//! groom-ns makes one call of the setup fail, all through the run; the control is the
//! same run under a filter that stops nothing that it needs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use libc::c_long;
use nix::errno::Errno;
use nix::sys::prctl::set_no_new_privs;
use seccompiler::sock_filter;

use crate::refusal::Refusal;
use crate::sys;

use super::catalogue::Scene;
use super::ground::Ground;
use super::jail::{Side, own_path, refusal_in, trouble, words};
use super::proof::{Finding, SUCCESS};

/// A call that nothing makes.
const NONE: c_long = 4095;

/// Calls that the setup can't do without, a layer each.
const STEPS: &[(&str, c_long)] = &[
    ("run-without-hostname", libc::SYS_sethostname),
    ("run-without-loopback", libc::SYS_sendto),
    ("run-without-read-only-mounts", libc::SYS_mount_setattr),
    ("run-without-mounts", libc::SYS_move_mount),
    ("run-without-new-root", libc::SYS_pivot_root),
    ("run-without-dropping-capabilities", libc::SYS_capset),
    ("run-without-closing-descriptors", libc::SYS_close_range),
    ("run-without-landlock", libc::SYS_landlock_restrict_self),
    ("run-without-filter", libc::SYS_seccomp),
];

/// Runs a command that leaves a mark under each.
pub(super) fn prove(ground: &Ground) -> Result<Vec<Finding>, Refusal> {
    let control = mark_without(NONE, "control", ground)?;
    STEPS
        .iter()
        .map(|(probe, number)| {
            let claim = mark_without(*number, probe, ground)?;
            Ok(Finding::of(
                "refuse",
                probe,
                control.clone(),
                claim,
                &["refused"],
            ))
        })
        .collect()
}

/// `ok` if the command has run, `refused` if it hasn't and that was said.
fn mark_without(number: c_long, probe: &str, ground: &Ground) -> Result<String, Refusal> {
    let mark = ground.facts.out_dir().join(format!("mark-{probe}"));
    let mut command = vec![own_path()?, "probe".into(), "without".into()];
    command.push(number.to_string().into());
    let probe = ["mark".into(), mark.clone().into()];
    command.extend(words(Scene::Plain, Side::Inside, ground, &probe)?);
    let output = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| trouble("start groom-ns").about(error.to_string()))?;
    let refusal = refusal_in(Some(output.stderr.as_slice()));
    Ok(match (mark.exists(), refusal) {
        (true, _) => SUCCESS.to_owned(),
        (false, Some(_)) if output.status.code() == Some(125) => "refused".to_owned(),
        (false, _) => format!("ended with {:?}", output.status.code()),
    })
}

/// `probe mark FILE`.
pub(super) fn mark(file: &Path) -> anyhow::Result<()> {
    Ok(fs::write(file, "")?)
}

/// `probe without NUMBER CMD…`: from here on the call is answered EPERM.
pub(super) fn without(number: &str) -> anyhow::Result<()> {
    // BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K (linux/bpf_common.h).
    let op = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    let denied = libc::SECCOMP_RET_ERRNO | Errno::EPERM as u32;
    set_no_new_privs()?;
    sys::seccomp::install(&[
        op(0x20, 0, 0),
        op(0x15, 1, number.parse()?),
        op(0x06, 0, denied),
        op(0x06, 0, libc::SECCOMP_RET_ALLOW),
    ])?;
    Ok(())
}
