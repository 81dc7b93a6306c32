//! The judgement, in order: what was typed, where it lies, what lies in it, and
//! last of all whether the broker answers, or where its key comes from.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::caller::Caller;
use super::grant::{Candidate, Role, existing, out_dir};
use super::ground::Ground;
use super::survey::{Ask, Found, walk};
use super::{
    BrokerPolicy, CloneMode, GitCovers, Granted, GrantedKind, Held, Judged, Kept, Limits, Linked,
    LogFile, OutDir, Policy, Supplies,
};
use super::{
    broker, env, git, landlock, location, outside, overlap, places, profile, receipt, submounts,
    times, uds, worktree,
};
use crate::cgroup;
use crate::cli;
use crate::host::Host;
use crate::mountinfo::Mount;
use crate::plan::command::OnDenial;
use crate::plan::step::Route;
use crate::refusal::{Reason, Refusal, shown};

/// From this ABI on, landlock itself keeps the command from pathname sockets.
const ABI_SOCKETS: u32 = 9;
/// Each socket is covered by a mount; a tree with more isn't a source tree.
const MAX_SOCKETS: usize = 64;
/// How many bytes are shown of a path that is too long for the kernel.
const SHOWN_OF_TOO_LONG: usize = 200;

/// Judges a run: everything it needs is there, of the right kind, and may be
/// given. Nothing is made or changed; a socket of `--uds` is connected to.
///
/// The descriptors in [`Held`] are the caller's to keep until the jail stands. There
/// are [`Supplies`] where the policy has a broker.
///
/// # Errors
/// `usage`, `path`, `overlap`, `git`, `socket`, `owner`, `landlock`, `proc`, `key`,
/// `broker`, `receipt`.
pub fn judge(run: &cli::Run, host: &Host, kept: Kept) -> Result<Judged, Refusal> {
    judge_for(&Caller::here(), run, host, kept)
}

fn judge_for(caller: &Caller, run: &cli::Run, host: &Host, kept: Kept) -> Result<Judged, Refusal> {
    let argv = env::argv(&run.command)?;
    broker::not_handed_over(run)?;
    let vars = env::judge(&run.env, caller.env)?;
    let landlock = landlock::judge(run.landlock, host.landlock)?;
    let times = times::judge(run)?;
    let terminal = caller.terminal(run);
    let limits = Limits::judge(&run.limits, cgroup::find)?;
    let writable = run.clone_mode == cli::CloneMode::RwGitRo;

    let table = location::mount_table()?;
    let all = candidates(caller, run, &table)?;
    let homes = caller.homes()?;
    may_lie_there(&all, writable, host, &homes, &table)?;
    let ground = Ground::of_run(&caller.cwd, &all, host, &table);
    profile::judge(run, Some(&all[0].granted.path), &ground, &homes, &table)?;
    let broker = broker::judge(run, &ground, caller.env)?;
    let log = broker.as_ref().and_then(|(_, log)| log.as_ref());
    let receipt = receipt::judge(&ground, run, log)?;

    let surveyed = survey(&all, writable, host, &table)?;
    let mut warnings = outside::warnings(&all, host, &homes, &table)?;
    warnings.extend(places::warnings(&all, &homes));
    answers(&all)?;
    let (broker, supplies) = supplied(run, broker, kept, &ground)?;

    let given = sort(all);
    let policy = Policy {
        profile: run.found_profile.as_ref().map(|found| found.path.clone()),
        clone: given.clone,
        clone_mode: surveyed.covers.map_or(CloneMode::Ro, CloneMode::RwGitRo),
        linked: given.linked,
        out_dir: given.out_dir,
        ro_files: given.ro_files,
        uds: given.uds,
        broker,
        sockets: surveyed.sockets.into_iter().collect(),
        env: vars,
        term: (!terminal.is_empty()).then(|| caller.term()).flatten(),
        terminal,
        times,
        argv,
        landlock,
        allow_ptrace: run.allow_ptrace,
        warnings,
        on_denial: if run.explain_denials {
            OnDenial::Ask
        } else {
            OnDenial::Answer
        },
        limits,
    };
    Ok((policy, given.held, supplies, receipt))
}

/// Where each thing lies: none where it may not be given, no two that are one.
fn may_lie_there(
    all: &[Candidate],
    writable: bool,
    host: &Host,
    homes: &[PathBuf],
    table: &[Mount],
) -> Result<(), Refusal> {
    for found in all {
        places::judge(found, host, homes)?;
    }
    places::links(all)?;
    overlap::judge(all, writable, host)?;
    submounts::judge(all, host.route, table)?;
    location::judge(all, writable, host, table)
}

/// Whether a broker listens at `--uds`.
fn answers(all: &[Candidate]) -> Result<(), Refusal> {
    for found in all.iter().filter(|found| found.role == Role::Uds) {
        uds::probe(&found.fd, &found.granted.path)?;
    }
    Ok(())
}

/// A broker of the run's own, and where its key comes from, which is asked last of all.
fn supplied(
    run: &cli::Run,
    broker: Option<(BrokerPolicy, Option<LogFile>)>,
    kept: Kept,
    ground: &Ground,
) -> Result<(Option<BrokerPolicy>, Option<Supplies>), Refusal> {
    let Some((policy, log)) = broker else {
        return Ok((None, None));
    };
    let wait = run.plan.is_none();
    let key = broker::key(&run.broker_args.key, kept.key, ground, wait)?;
    Ok((Some(policy), Some(Supplies { key, log })))
}

/// Every path that was typed, resolved, and the repository that `--git-worktree` stands
/// for; the clone comes first.
fn candidates(caller: &Caller, run: &cli::Run, table: &[Mount]) -> Result<Vec<Candidate>, Refusal> {
    let cwd = &caller.cwd;
    let clone = run.clone.as_deref().unwrap_or(Path::new("."));
    let mut all = vec![existing(Role::Clone, cwd, clone)?];
    if let Some(typed) = &run.out_dir {
        all.push(out_dir(cwd, typed)?);
    }
    for typed in &run.ro_files {
        let found = existing(Role::RoFile, cwd, typed)?;
        let again = |one: &Candidate| {
            one.role == Role::RoFile
                && one.granted.path == found.granted.path
                && one.granted.alias == found.granted.alias
        };
        if !all.iter().any(again) {
            all.push(found);
        }
    }
    if let Some(typed) = &run.uds {
        all.push(existing(Role::Uds, cwd, typed)?);
    }
    if run.git_worktree {
        let found = worktree::repository(&all[0], out_dir_of(&all), table)?;
        all.extend(found.into_iter().flatten());
    }
    Ok(all)
}

fn out_dir_of(all: &[Candidate]) -> Option<&Path> {
    let found = all.iter().find(|found| found.role == Role::OutDir);
    found.map(|found| found.granted.path.as_path())
}

/// What the walks over the granted trees brought.
#[derive(Default)]
struct Surveyed {
    /// Where the clone is writable.
    covers: Option<GitCovers>,
    sockets: BTreeSet<PathBuf>,
}

fn survey(
    all: &[Candidate],
    writable: bool,
    host: &Host,
    table: &[Mount],
) -> Result<Surveyed, Refusal> {
    let mut surveyed = Surveyed::default();
    let hidden = host.landlock.is_ok_and(|abi| abi >= ABI_SOCKETS);
    for tree in all {
        // A git folder lies in the common folder, and is seen there.
        let is_seen = tree.role == Role::GitDir;
        if !tree.exists || is_seen || tree.granted.kind != GrantedKind::Dir {
            continue;
        }
        let owner = tree.granted.owner.uid;
        let can_write = tree.role == Role::OutDir || (writable && tree.role == Role::Clone);
        let ask = Ask {
            gits: writable && tree.role == Role::Clone,
            sockets: !hidden,
            foreign_to: (host.route == Route::Root).then_some(owner),
            privileged: can_write,
            // Root's command is mapped to the tree's owner.
            command: match host.route {
                Route::Root => owner,
                Route::User => host.ids.uid,
            },
        };
        if ask.is_empty() {
            continue;
        }
        let found = walk(tree.fd.as_fd(), &ask);
        refuse_privileged(tree, &found)?;
        refuse_unknown(tree, &ask, can_write, &found)?;
        if ask.gits {
            let common = all.iter().find(|found| found.role == Role::CommonDir);
            let covers = git::judge(tree, common, out_dir_of(all), table, &found)?;
            location::judge_gits(all, &covers, table)?;
            surveyed.covers = Some(covers);
        }
        let sockets = found.sockets.iter();
        surveyed
            .sockets
            .extend(sockets.map(|path| tree.granted.path.join(path)));
        if surveyed.sockets.len() > MAX_SOCKETS {
            return Err(
                Refusal::new(Reason::Socket, "look for sockets in what is given")
                    .path(&tree.granted.path)
                    .remedy(format!(
                        "more than {MAX_SOCKETS} lie there, which this kernel's landlock can't close: remove them, or name a smaller tree"
                    )),
            );
        }
    }
    Ok(surveyed)
}

/// Refuses a set-user-id program and the like where the command can write: a write
/// takes those rights away, but one through a shared mapping doesn't, and the
/// program is the owner's on the host.
fn refuse_privileged(tree: &Candidate, found: &Found) -> Result<(), Refusal> {
    let Some(program) = &found.privileged else {
        return Ok(());
    };
    let flag = tree.role.flag();
    Err(
        Refusal::new(Reason::Owner, format!("look through {flag}"))
            .path(tree.granted.path.join(program))
            .remedy(
                "whoever runs it gets rights, and the command could rewrite it: chmod u-s,g-s and setcap -r it, or move it away",
            ),
    )
}

/// Refuses a tree with a file of another owner, or with a folder whose contents
/// aren't known and that the command could look into.
fn refuse_unknown(
    tree: &Candidate,
    ask: &Ask,
    can_chmod: bool,
    found: &Found,
) -> Result<(), Refusal> {
    let flag = tree.role.flag();
    let root = &tree.granted.path;
    if let Some(foreign) = &found.foreign {
        let uid = tree.granted.owner.uid;
        // Nobody should be told to change the owners of a folder of the system.
        let way = match tree.role {
            Role::RoFile | Role::Uds => "name what is needed of it, or copy that".to_owned(),
            _ => format!("chown -R {uid} the tree"),
        };
        return Err(
            Refusal::new(Reason::Owner, format!("map the owners of {flag}"))
                .path(root.join(foreign))
                .remedy(format!(
                    "it is of another owner than {flag} itself (uid {uid}): {way}, or start groom-ns as its owner"
                )),
        );
    }
    // On a read-only mount nothing can be chmodded: what we can't read, nor can the command.
    let closed = found
        .closed
        .iter()
        .find(|(_, errno)| can_chmod || ask.foreign_to.is_some() || *errno != Errno::EACCES);
    let Some((path, errno)) = closed else {
        return Ok(());
    };
    let reason = match (ask.gits, ask.foreign_to) {
        (true, _) => Reason::Git,
        (false, Some(_)) => Reason::Owner,
        (false, None) => Reason::Socket,
    };
    let refusal = Refusal::new(reason, format!("look through {flag}"));
    let path = root.join(path);
    if *errno == Errno::ENAMETOOLONG {
        return Err(refusal.about(beginning(&path)).errno(*errno).remedy(
            "it lies too deep for a path (PATH_MAX, 4096 bytes), so what lies there can't be known, and the command could reach it: remove it, or move it up",
        ));
    }
    Err(refusal.path(path).errno(*errno).remedy(
        "what lies there can't be known, and the command could reach it: make it readable, or remove it",
    ))
}

/// A path as it may be printed, cut where a line of it would be a page.
fn beginning(path: &Path) -> String {
    match path.as_os_str().as_bytes().get(..SHOWN_OF_TOO_LONG) {
        Some(start) => format!("{}…", shown(Path::new(OsStr::from_bytes(start)))),
        None => shown(path),
    }
}

/// The candidates by role, and their descriptors.
struct Given {
    clone: Granted,
    out_dir: Option<OutDir>,
    ro_files: Vec<Granted>,
    uds: Option<Granted>,
    linked: Option<Linked>,
    held: Held,
}

fn sort(mut all: Vec<Candidate>) -> Given {
    // `candidates` put it there.
    let clone = all.remove(0);
    let mut given = Given {
        held: Held::from([(clone.granted.path.clone(), clone.fd)]),
        clone: clone.granted,
        out_dir: None,
        ro_files: Vec::new(),
        uds: None,
        linked: None,
    };
    let mut git_dir = None;
    for found in all {
        given.held.insert(found.granted.path.clone(), found.fd);
        match found.role {
            Role::OutDir if found.exists => given.out_dir = Some(OutDir::Exists(found.granted)),
            Role::OutDir => {
                given.out_dir = Some(OutDir::Missing {
                    path: found.granted.path,
                    alias: found.granted.alias,
                });
            }
            Role::Uds => given.uds = Some(found.granted),
            Role::GitDir => git_dir = Some(found.granted),
            Role::CommonDir => {
                let common = found.granted;
                given.linked = git_dir.take().map(|git_dir| Linked { git_dir, common });
            }
            Role::RoFile | Role::Clone => given.ro_files.push(found.granted),
        }
    }
    given
}

#[cfg(test)]
mod tests;
