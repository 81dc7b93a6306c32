//! Paths, over a small tree that the input bends: what the judge grants, and the plan
//! that is made of it, keep what the documentation promises.
//!
//! `fuzz/run.sh policy -max_total_time=300`

#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use groom_ns::cli::{self, PlanFormat};
use groom_ns::confine::landlock;
use groom_ns::host::Host;
use groom_ns::plan::step::{Identity, Ids, Route};
use groom_ns::policy::{self, Kept};
use groom_ns::{identity, plan};
use libfuzzer_sys::fuzz_target;
use nix::errno::Errno;

#[path = "policy/broker.rs"]
mod broker;
#[path = "policy/git.rs"]
mod git;
#[path = "policy/linked.rs"]
mod linked;
#[path = "policy/places.rs"]
mod places;
#[path = "policy/planned.rs"]
mod planned;
#[path = "shared/said.rs"]
mod said;
#[path = "policy/tree.rs"]
mod tree;
#[path = "policy/way.rs"]
mod way;

use tree::{SLOTS, Tree};

/// More would only make an input slower.
const MAX_WORDS: usize = 12;

// A byte for each of the tree's slots and one for the mode; then words with NUL bytes
// between. A word's first letter says which flag it is for, an `@` after it stands for
// the tree.
fuzz_target!(|input: &[u8]| {
    static TREE: OnceLock<Tree> = OnceLock::new();
    let tree = TREE.get_or_init(Tree::new);
    let Some((shape, rest)) = input.split_at_checked(SLOTS) else {
        return;
    };
    let Some((&mode, rest)) = rest.split_first() else {
        return;
    };
    let words: Vec<&[u8]> = rest.split(|byte| *byte == 0).take(MAX_WORDS).collect();
    let words: Vec<(u8, PathBuf)> = words
        .into_iter()
        .filter_map(|word| word.split_first())
        .map(|(flag, path)| (*flag, tree.expand(path)))
        .collect();
    tree.bend(shape, &words);
    let cwd = tree.enter(mode);
    Case::new(tree, cwd, mode, &words).judge();
});

/// A run, and what it is judged by.
pub struct Case<'t> {
    pub tree: &'t Tree,
    pub cwd: PathBuf,
    pub host: Host,
    pub run: cli::Run,
}

impl<'t> Case<'t> {
    fn new(tree: &'t Tree, cwd: PathBuf, mode: u8, words: &[(u8, PathBuf)]) -> Case<'t> {
        let first = |flag: u8| words.iter().find(|word| word.0 == flag);
        let first = |flag: u8| first(flag).map(|word| word.1.clone());
        let all = words.iter().filter(|word| word.0 == b'r');
        let clone_mode = match mode & 1 {
            0 => cli::CloneMode::Ro,
            _ => cli::CloneMode::RwGitRo,
        };
        let with_broker = first(b'k').is_some() || first(b'l').is_some();
        let run = cli::Run {
            profile: None,
            found_profile: None,
            clone: first(b'c'),
            clone_mode,
            git_worktree: mode & 64 != 0,
            out_dir: first(b'o'),
            ro_files: all.map(|word| word.1.clone()).collect(),
            env: Vec::new(),
            uds: first(b'u').filter(|_| !with_broker),
            broker: with_broker.then_some(cli::Provider::Anthropic),
            broker_args: broker::args(first(b'k'), first(b'a')),
            shim_port: None,
            broker_log: first(b'l'),
            receipt: None,
            status_fd: None,
            landlock: cli::Landlock::BestEffort,
            allow_ptrace: false,
            tty: false,
            no_tty: false,
            timeout: None,
            grace: None,
            explain_denials: false,
            limits: cli::Limits::default(),
            // Nothing is waited for then.
            plan: Some(PlanFormat::Text),
            json_errors: false,
            quiet: false,
            verbose: false,
            command: vec!["true".into()],
        };
        let host = host(mode);
        let mut case = Case {
            tree,
            cwd,
            host,
            run,
        };
        case.tame();
        case
    }

    /// A walk over the whole machine would take all of the time there is.
    fn tame(&mut self) {
        let ends = |path: &Path| {
            way::walk(&self.cwd, path).is_none_or(|way| way.end.starts_with(&self.tree.base))
        };
        let clone = self.run.clone.as_deref().unwrap_or(Path::new("."));
        let is_inside = ends(clone);
        let others = self.run.ro_files.iter().chain(&self.run.out_dir);
        if !is_inside || !others.map(PathBuf::as_path).all(ends) {
            self.host.route = Route::User;
            self.host.landlock = Ok(landlock::NEWEST);
        }
        if !is_inside {
            self.run.clone_mode = cli::CloneMode::Ro;
        }
    }

    fn judge(&self) {
        let judged = policy::judge(&self.run, &self.host, Kept::default());
        // Whether it is granted or refused, nothing is made or changed.
        assert!(self.tree.is_still());
        let (policy, held, supplies, _) = match judged {
            Ok(judged) => judged,
            Err(refusal) => return said::refusal(&refusal),
        };
        places::check(self, &policy, &held);
        linked::check(self, &policy);
        git::check(self, &policy);
        broker::check(self, &policy, supplies.as_ref());
        let identity = match self.host.route {
            Route::User => identity::pick(&self.host, policy.clone.owner).unwrap(),
            // Without looking for an id that is free.
            Route::Root => Identity {
                route: Route::Root,
                host: Ids {
                    uid: 2_100_000_000,
                    gid: 2_100_000_000,
                },
                inside: Ids {
                    uid: 1000,
                    gid: 1000,
                },
                groups: Vec::new(),
            },
        };
        planned::check(self, &policy, &plan::make(&policy, &self.host, identity));
        assert!(self.tree.is_still());
    }

    /// The path without links, once it was typed.
    pub fn end(&self, typed: &Path) -> PathBuf {
        way::walk(&self.cwd, typed)
            .expect("what is granted is there")
            .end
    }
}

fn host(mode: u8) -> Host {
    static HERE: OnceLock<Host> = OnceLock::new();
    let here = HERE.get_or_init(|| Host::look(|| Ok(landlock::NEWEST)).expect("a host"));
    Host {
        route: if mode & 2 == 0 {
            Route::User
        } else {
            Route::Root
        },
        landlock: match mode >> 2 & 3 {
            0 | 1 => Ok(landlock::NEWEST),
            2 => Ok(6),
            _ => Err(Errno::EOPNOTSUPP),
        },
        ..here.clone()
    }
}

/// A word's path as bytes.
pub fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// A path of these bytes.
pub fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
