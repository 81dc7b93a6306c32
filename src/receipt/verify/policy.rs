//! What a receipt should be, as TOML. A key that isn't there asks for nothing; one that
//! isn't known is refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::whole::is_digest;
use super::{Findings, files, times};
use crate::receipt::format::{Jail, Receipt};
use crate::refusal::{Reason, Refusal, shown};

/// The keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Policy {
    /// Exit codes that are right.
    pub exit_code: Option<Vec<u8>>,
    /// Ends that are right, as `end.cause.kind` names them.
    pub ended_by: Option<Vec<String>>,
    /// The oldest groom-ns.
    pub version_min: Option<String>,
    /// The files that groom-ns may be, by SHA-256.
    pub binary_sha256: Option<Vec<String>>,
    /// The oldest kernel.
    pub kernel_min: Option<String>,
    /// `user` or `root`.
    pub route: Option<String>,
    /// The oldest landlock ABI.
    pub landlock_abi_min: Option<u32>,
    /// Landlock's rights that may be absent.
    pub landlock_absent: Option<Vec<String>>,
    /// The filters that the command may have, by SHA-256.
    pub seccomp_sha256: Option<Vec<String>>,
    /// Whether the jail's processes may trace each other.
    pub allow_ptrace: Option<bool>,
    /// Mounts that may be writable, beside the private folders, terminals and /proc.
    pub writable: Option<Vec<String>>,
    /// The names that the command's variables may have.
    pub environment: Option<Vec<String>>,
    /// The first words that the command may have.
    pub program: Option<Vec<String>>,
    /// The commands that are right, by SHA-256 of all words.
    pub command_sha256: Option<Vec<String>>,
    /// How long ago the run may have ended, in seconds.
    pub max_age_s: Option<u64>,
    /// How long the command may have run, in seconds.
    pub max_command_s: Option<u64>,
    /// The longest `--timeout`, in seconds, which must be there.
    pub timeout_max_s: Option<u64>,
    /// The largest `--max-output`, in bytes, which must be there.
    pub max_output: Option<u64>,
    /// Whether groom-ns may have warned.
    pub warnings: Option<bool>,
    /// Whether calls may have been denied, where that was to be explained.
    pub denials: Option<bool>,
    /// Resource limits that must be there, and no higher.
    pub rlimits: BTreeMap<String, u64>,
    /// Limits of the control group that must be there, and no higher.
    pub cgroup: BTreeMap<String, u64>,
    /// The broker.
    pub broker: Option<Broker>,
}

/// What the broker should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Broker {
    /// Whether there may be one.
    pub allowed: Option<bool>,
    /// The APIs that are right.
    pub provider: Option<Vec<String>>,
    /// Where requests may have gone.
    pub upstream: Option<Vec<String>>,
    /// What may have been forwarded.
    pub routes: Option<Vec<String>>,
    /// The most requests.
    pub max_requests: Option<u64>,
    /// The most tokens of answers, by the API's word.
    pub max_output_tokens: Option<u64>,
}

impl Policy {
    /// Reads one.
    ///
    /// # Errors
    /// `receipt`: it isn't TOML, has a key that isn't known, or a value that can't be.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Policy, Refusal> {
        let refusal = |why: &str| {
            let refusal = Refusal::new(Reason::Receipt, "read the policy").path(path);
            refusal.remedy(shown(Path::new(why)))
        };
        let text = std::str::from_utf8(bytes).map_err(|_| refusal("it isn't text"))?;
        let policy: Policy = toml::from_str(text).map_err(|error| {
            let line = error.span().and_then(|span| text.get(..span.start));
            let line = line.map_or(1, |before| before.lines().count().max(1));
            refusal(&format!("line {line}: {}", error.message()))
        })?;
        let digests = [
            &policy.binary_sha256,
            &policy.seccomp_sha256,
            &policy.command_sha256,
        ];
        for digest in digests.into_iter().flatten().flatten() {
            if !is_digest(digest) {
                return Err(refusal(&format!("{digest} isn't a SHA-256 in lower case")));
            }
        }
        for least in [&policy.version_min, &policy.kernel_min]
            .into_iter()
            .flatten()
        {
            if version(least).is_none() {
                return Err(refusal(&format!("{least} isn't a version")));
            }
        }
        Ok(policy)
    }

    /// Notes what isn't as it should be.
    pub(super) fn judge(&self, receipt: &Receipt, found: &mut Findings) {
        self.judge_end(receipt, found);
        self.judge_program(receipt, found);
        if let Some(jail) = &receipt.jail {
            self.judge_jail(jail, found);
        }
        let names = &receipt.command.environment;
        all_among(
            "command.environment",
            names,
            self.environment.as_ref(),
            found,
        );
        if let Some(broker) = &self.broker {
            broker.judge(receipt, found);
        }
    }

    fn judge_end(&self, receipt: &Receipt, found: &mut Findings) {
        among(
            "end.code",
            &receipt.end.code,
            self.exit_code.as_ref(),
            found,
        );
        let cause = serde_json::to_value(&receipt.end.cause).unwrap_or_default();
        let kind = cause.get("kind").and_then(|kind| kind.as_str());
        let kind = kind.unwrap_or_default().to_owned();
        among("end.cause.kind", &kind, self.ended_by.as_ref(), found);
        if let Some(most) = self.max_age_s {
            times::age(&receipt.times.ended, most, found);
        }
        if let Some(most) = self.max_command_s {
            let ms = receipt.times.command_ms;
            let holds = ms.is_some_and(|ms| {
                Duration::try_from_secs_f64(ms / 1e3)
                    .is_ok_and(|ran| ran <= Duration::from_secs(most))
            });
            found.must(
                holds,
                "times.command_ms",
                format!("{most} s at most"),
                format!("{ms:?}"),
            );
        }
        let supervised = &receipt.supervised;
        if let Some(most) = self.timeout_max_s {
            let most = most.saturating_mul(1000);
            at_most("supervised.timeout_ms", supervised.timeout_ms, most, found);
        }
        if let Some(most) = self.max_output {
            at_most("supervised.max_output", supervised.max_output, most, found);
        }
        if self.warnings == Some(false) {
            let warnings = &receipt.warnings;
            found.must(warnings.is_empty(), "warnings", "none", warnings.join("; "));
        }
        if self.denials == Some(false) {
            let denials = receipt.denials.as_ref();
            // Runtimes look for calls that older kernels don't have, and do without.
            let count = denials.map(|all| {
                let grave = all.calls.iter().filter(|call| !call.has_other_ways());
                // A stranger's number: it may be the largest.
                (grave.count() as u64).saturating_add(all.others)
            });
            let count_found = count.map_or("no list".to_owned(), |count| count.to_string());
            found.must(count == Some(0), "denials", "a list with none", count_found);
        }
    }

    fn judge_program(&self, receipt: &Receipt, found: &mut Findings) {
        let program = &receipt.groom_ns;
        at_least(
            "groom_ns.version",
            &program.version,
            self.version_min.as_ref(),
            found,
        );
        among(
            "groom_ns.sha256",
            &program.sha256,
            self.binary_sha256.as_ref(),
            found,
        );
        at_least(
            "kernel.release",
            &receipt.kernel.release,
            self.kernel_min.as_ref(),
            found,
        );
        if let Some(route) = &self.route {
            let is = &receipt.started_by.route;
            found.must(is == route, "started_by.route", route, is);
        }
        among(
            "command.program",
            &receipt.command.program,
            self.program.as_ref(),
            found,
        );
        among(
            "command.sha256",
            &receipt.command.sha256,
            self.command_sha256.as_ref(),
            found,
        );
    }

    fn judge_jail(&self, jail: &Jail, found: &mut Findings) {
        if let Some(least) = self.landlock_abi_min {
            let abi = jail.landlock.abi;
            found.must(
                abi >= least,
                "jail.landlock.abi",
                format!("{least} or more"),
                abi,
            );
        }
        let absent = &jail.landlock.absent;
        all_among(
            "jail.landlock.absent",
            absent,
            self.landlock_absent.as_ref(),
            found,
        );
        let sha256 = jail.seccomp.sha256.clone().unwrap_or_default();
        among(
            "jail.seccomp.sha256",
            &sha256,
            self.seccomp_sha256.as_ref(),
            found,
        );
        if self.allow_ptrace == Some(false) {
            let traces = jail.seccomp.allow_ptrace;
            found.must(!traces, "jail.seccomp.allow_ptrace", false, traces);
        }
        if let Some(writable) = &self.writable {
            files::writable(jail, writable, found);
        }
        for (name, most) in &self.rlimits {
            let hard = jail.limits.rlimits.get(name).and_then(|limit| limit.hard);
            at_most(&format!("jail.limits.rlimits.{name}"), hard, *most, found);
        }
        for (name, most) in &self.cgroup {
            let is = jail.limits.cgroup.as_ref().and_then(|all| all.get(name));
            at_most(
                &format!("jail.limits.cgroup.{name}"),
                is.copied(),
                *most,
                found,
            );
        }
    }
}

impl Broker {
    fn judge(&self, receipt: &Receipt, found: &mut Findings) {
        if self.allowed == Some(false) {
            let uds = receipt.uds.as_deref();
            found.must(uds.is_none(), "uds", "none", uds.unwrap_or_default());
        }
        let Some(broker) = &receipt.broker else {
            return;
        };
        if self.allowed == Some(false) {
            found.must(false, "broker", "none", &broker.provider);
        }
        among(
            "broker.provider",
            &broker.provider,
            self.provider.as_ref(),
            found,
        );
        among(
            "broker.upstream",
            &broker.upstream,
            self.upstream.as_ref(),
            found,
        );
        all_among("broker.routes", &broker.routes, self.routes.as_ref(), found);
        for (name, is, most) in [
            ("requests", broker.totals.requests, self.max_requests),
            (
                "output_tokens",
                broker.totals.output_tokens,
                self.max_output_tokens,
            ),
        ] {
            if let Some(most) = most {
                at_most(&format!("broker.totals.{name}"), Some(is), most, found);
            }
        }
    }
}

/// One of those that are right, if the policy says which.
fn among<T: PartialEq + std::fmt::Debug>(
    what: &str,
    is: &T,
    right: Option<&Vec<T>>,
    found: &mut Findings,
) {
    if let Some(right) = right {
        let expected = format!("one of {right:?}");
        found.must(right.contains(is), what, expected, format!("{is:?}"));
    }
}

/// Each of them is one of those that are right.
fn all_among(what: &str, all: &[String], right: Option<&Vec<String>>, found: &mut Findings) {
    for is in all {
        among(what, is, right, found);
    }
}

/// None is no limit, or a limit that isn't there.
fn at_most(what: &str, is: Option<u64>, most: u64, found: &mut Findings) {
    let shown = is.map_or("none".to_owned(), |is| is.to_string());
    let holds = is.is_some_and(|is| is <= most);
    found.must(holds, what, format!("{most} at most"), shown);
}

fn at_least(what: &str, is: &str, least: Option<&String>, found: &mut Findings) {
    let Some(least) = least else {
        return;
    };
    // One that isn't a version is older than all.
    let holds = version(is) >= version(least);
    found.must(holds, what, format!("{least} or newer"), is);
}

/// The numbers that it begins with: `6.18.2-arch1` is 6, 18, 2.
fn version(text: &str) -> Option<Vec<u64>> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let numbers = text.get(..end.unwrap_or(text.len()))?;
    let numbers = numbers.trim_end_matches('.').split('.');
    numbers.map(|number| number.parse().ok()).collect()
}
