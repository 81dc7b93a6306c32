//! `groom-ns check`: whether this host can run the jail, primitive by primitive, and
//! what to do where it can't. What is tried are a run's own functions, in children and
//! namespaces that are thrown away; nothing of the host is changed.

mod cgroups;
pub mod environment;
mod facts;
mod report;
mod row;
mod trial;
mod tries;
mod whole;

use std::collections::BTreeMap;

use nix::unistd::Pid;

use crate::cli::{self, Command};
use crate::confine::landlock;
use crate::host::{self, Host};
use crate::identity;
use crate::plan;
use crate::plan::step::{Bind, Build, Ids, Plan};
use crate::policy::{self, Kept};
use crate::refusal::{Reason, Refusal};

use row::Finding;
use trial::Found;

pub use report::Report;
pub use row::{Primitive, Row, Verdict};

/// Tries everything. `begun` is what leaving the caller's state behind came to, which a
/// run does first; `parent` is the process that started this one.
pub fn run(begun: Result<(), Refusal>, parent: Pid) -> Report {
    let facts = facts::look();
    let environment = environment::recognise(&facts);
    // For a stranger's set-user-id start nothing is done in its owner's name. Where what
    // the caller left can't be closed, a run is refused, and the rest is tried all the same.
    let is_trusted = !matches!(&begun, Err(refusal) if refusal.reason == Reason::Identity);
    let caller = begun.map(|()| "real and effective ids are the same".to_owned());
    let mut found = vec![(Primitive::Caller, caller.into())];
    if is_trusted {
        found.extend(host_rows());
        found.extend(tries::supervisor(parent));
        found.push((Primitive::Cgroups, cgroups::look()));
        found.extend(tries::namespaces());
        found.extend(tries::confinement());
        found.extend(jail_rows());
        found.push((Primitive::Jail, whole::run().into()));
    }
    Report::of(environment, &found)
}

/// What every run looks at first, each for itself.
fn host_rows() -> Found {
    let kernel = host::kernel();
    let system = host::system().map(|all| format!("{} folders and links", all.len()));
    let proc = host::masks().map(|_| "its own".to_owned());
    let cores = host::cores_can_be_stopped().map(|()| "can be stopped".to_owned());
    vec![
        (Primitive::Kernel, kernel.into()),
        (Primitive::System, system.into()),
        (Primitive::HostProc, proc.into()),
        (Primitive::CoreDumps, cores.into()),
    ]
}

/// What depends on who starts a run, and on the current folder.
fn jail_rows() -> Found {
    // What is amiss here has its row already, but for the groups.
    let host = match Host::look(landlock::kernel_abi) {
        Ok(host) => host,
        Err(refusal) if refusal.reason == Reason::Identity => {
            return vec![(Primitive::Groups, Finding::Missing(refusal))];
        }
        Err(_) => return Vec::new(),
    };
    let mut found = vec![(Primitive::Groups, groups(&host))];
    match plan_here(&host) {
        Ok(plan) => {
            let path = crate::refusal::shown(&plan.exec.cwd);
            found.push((Primitive::Clone, Finding::Ok(path)));
            let Ids { uid, gid } = plan.identity.host;
            let ids = Finding::Ok(format!("uid {uid}, gid {gid}"));
            found.push((Primitive::Identity, ids));
            let (rows, trees) = tries::trees(&plan);
            found.extend(rows);
            found.extend(tries::jail(&plan.identity, clone_of(&plan), trees));
        }
        Err(refusal) => {
            let primitive = match refusal.reason {
                Reason::Identity => Primitive::Identity,
                _ => Primitive::Clone,
            };
            found.push((primitive, Finding::Missing(refusal)));
            // The rest is tried as for a clone of the caller's own.
            if let Ok(identity) = identity::pick(&host, host.ids) {
                found.extend(tries::jail(&identity, None, BTreeMap::new()));
            }
        }
    }
    found
}

/// The plan of `groom-ns run -- true` in the current folder. Landlock has its own row.
fn plan_here(host: &Host) -> Result<Plan, Refusal> {
    let words = ["groom-ns", "run", "--landlock=best-effort", "--", "true"];
    let run = match cli::parse(words.map(Into::into)) {
        Ok(Command::Run(run)) => run,
        Ok(_) => return Err(Refusal::new(Reason::Usage, "plan a run")),
        Err(error) => return Err(error.refusal),
    };
    let (policy, _held, ..) = policy::judge(&run, host, Kept::default())?;
    let identity = identity::pick(host, policy.clone.owner)?;
    Ok(plan::make(&policy, host, identity))
}

fn clone_of(plan: &Plan) -> Option<&Bind> {
    plan.build.iter().find_map(|step| match step {
        Build::Bind(bind) if bind.target == plan.exec.cwd => Some(bind),
        _ => None,
    })
}

fn groups(host: &Host) -> Finding {
    match host.warnings.as_slice() {
        [] => Finding::Ok("none".to_owned()),
        [first, ..] => Finding::Degraded {
            found: first.clone(),
            remedy: "start it as a user without them, or with sudo".to_owned(),
        },
    }
}
