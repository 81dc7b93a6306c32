//! A run's own flags, from the words to the plan.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Once;

use groom_ns::broker::provider::{AuthHeader, Provider};
use groom_ns::broker::route::Route as ApiRoute;
use groom_ns::broker::upstream::url::Upstream;
use groom_ns::cli::{self, PlanFormat};
use groom_ns::host::{Host, Masks};
use groom_ns::plan;
use groom_ns::plan::command::{EnvValue, LandlockMode, OnDenial};
use groom_ns::plan::step::{Identity, Ids, Plan, Route};
use groom_ns::policy::{self, CloneMode, Kept};

use crate::{broker, quiet, said};

/// Stands in what isn't to be shown.
pub const MARK: &str = "S3CRET";

/// groom-ns's own environment, all of it.
const OWN: [(&str, &str); 3] = [
    ("HOME", "/home/nobody-at-all"),
    ("OWN", "mine"),
    ("_own", ""),
];

/// A folder that is there; nothing of it is read.
const CLONE: &str = env!("CARGO_MANIFEST_DIR");

/// An environment without surprises; once.
pub fn set_up() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        for (name, _) in std::env::vars_os() {
            // SAFETY: no other thread looks at the environment.
            unsafe { std::env::remove_var(name) };
        }
        for (name, value) in OWN {
            // SAFETY: as above.
            unsafe { std::env::set_var(name, value) };
        }
    });
}

fn host() -> Host {
    Host {
        ids: IDS,
        groups: Vec::new(),
        route: Route::User,
        kernel: "6.18.0".into(),
        landlock: Ok(9),
        system: Vec::new(),
        masks: Masks::default(),
        warnings: Vec::new(),
    }
}

const IDS: Ids = Ids {
    uid: 1000,
    gid: 1000,
};

/// Judges the run, with paths that are in order.
pub fn check(mut run: cli::Run) {
    let named = run.broker_args.key.key_env.clone();
    let hands_over = named.is_some_and(|name| run.env.contains(&name));
    if !hands_over && run.broker.is_some() {
        broker::without_files(&mut run.broker_args);
    }
    run.clone = Some(CLONE.into());
    run.clone_mode = cli::CloneMode::Ro;
    // Whether there is a cgroup is the host's to say.
    (run.limits.memory, run.limits.cpus) = (None, None);
    (run.out_dir, run.uds, run.broker_log) = (None, None, None);
    run.ro_files.clear();
    run.plan = Some(PlanFormat::Text);
    run.receipt = None;

    let wanted = variables(&run);
    let is_good = wanted.is_some()
        && has_command(&run)
        && has_broker(&run)
        && has_limits(&run)
        && !hands_over;
    match policy::judge(&run, &host(), Kept::default()) {
        Err(refusal) => {
            assert!(!is_good, "{refusal}");
            quiet(&refusal, &run.broker_args);
            assert!(may_show_mark(&run) || !refusal.to_string().contains(MARK));
        }
        Ok((policy, ..)) => {
            assert!(is_good, "{policy:?}");
            let identity = Identity {
                route: Route::User,
                host: IDS,
                inside: IDS,
                groups: Vec::new(),
            };
            assert_eq!(policy.clone_mode, CloneMode::Ro);
            planned(
                &run,
                &plan::make(&policy, &host(), identity),
                &wanted.unwrap(),
            );
        }
    }
}

/// Whether it stands anywhere but in the value of a variable and in what `quiet` knows.
fn may_show_mark(run: &cli::Run) -> bool {
    let has = |text: &OsStr| text.to_string_lossy().contains(MARK);
    let args = &run.broker_args;
    run.command.iter().any(|word| has(word))
        || args.allow_routes.iter().any(|route| route.contains(MARK))
        || args.upstream.as_ref().is_some_and(|url| url.contains(MARK))
        || run.env.iter().any(|one| has(split(one).0))
}

fn split(typed: &OsStr) -> (&OsStr, Option<&[u8]>) {
    let mut parts = typed.as_bytes().splitn(2, |byte| *byte == b'=');
    let name = OsStr::from_bytes(parts.next().unwrap());
    (name, parts.next())
}

/// What `--env` brings, by name; none where it must be refused.
fn variables(run: &cli::Run) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut wanted = BTreeMap::new();
    for typed in &run.env {
        let (name, value) = split(typed);
        let name = name.to_str()?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.chars().all(is_name)
            || name.is_empty()
            || name.starts_with(|c: char| c.is_ascii_digit())
        {
            return None;
        }
        let own = OWN.iter().find(|(own, _)| *own == name);
        let own = own.map(|(_, value)| value.as_bytes());
        wanted.insert(name.to_owned(), value.or(own)?.to_vec());
    }
    Some(wanted)
}

fn has_command(run: &cli::Run) -> bool {
    run.command.first().is_some_and(|first| !first.is_empty())
}

/// Whether each flag of the broker's is in order, and goes with the others.
fn has_broker(run: &cli::Run) -> bool {
    let (Some(provider), args) = (run.broker, &run.broker_args) else {
        return true;
    };
    let is_custom = provider == cli::Provider::Custom;
    let fits = |typed: &Option<String>, judge: fn(&str) -> bool| match typed {
        Some(typed) => judge(typed),
        None => !is_custom,
    };
    fits(&args.upstream, |typed| Upstream::judge(typed).is_ok())
        && fits(&args.auth_header, |typed| AuthHeader::judge(typed).is_ok())
        && (is_custom || args.auth_header.is_none())
        && args
            .allow_routes
            .iter()
            .all(|typed| ApiRoute::judge(typed).is_ok())
}

/// Whether each limit that is left is a number that limits something.
fn has_limits(run: &cli::Run) -> bool {
    let limits = &run.limits;
    let number = |digits: &str| match digits {
        "" => None,
        _ if !digits.bytes().all(|digit| digit.is_ascii_digit()) => None,
        // What is too long is too large.
        _ => Some(digits.parse::<u128>().unwrap_or(u128::MAX)),
    };
    let size = |typed: &String| {
        let units = "kmgt";
        let unit = typed
            .chars()
            .last()
            .and_then(|last| units.find(last.to_ascii_lowercase()));
        let digits = &typed[..typed.len() - usize::from(unit.is_some())];
        let bytes = number(digits)
            .map(|number| number.saturating_mul(1 << unit.map_or(0, |at| 10 * (at + 1))));
        bytes.is_some_and(|bytes| bytes > 0 && bytes <= i64::MAX as u128)
    };
    let share = |typed: &String| {
        let share = typed.strip_suffix('%').map(number);
        share.map_or_else(
            || size(typed),
            |share| share.is_some_and(|share| (1..=100).contains(&share)),
        )
    };
    let pids = |typed: &String| number(typed).is_some_and(|pids| (1..=1 << 22).contains(&pids));
    limits.pids.as_ref().is_none_or(pids)
        && limits.tmp_size.as_ref().is_none_or(share)
        && limits.file_size.as_ref().is_none_or(size)
        && limits.max_output.as_ref().is_none_or(size)
}

/// Each thing that was typed is in the plan, and nothing else of the caller's is.
fn planned(run: &cli::Run, plan: &Plan, wanted: &BTreeMap<String, Vec<u8>>) {
    let argv = plan.exec.argv.iter().map(|word| word.as_bytes());
    assert!(argv.eq(run.command.iter().map(|word| word.as_bytes())));
    let mut left = wanted.clone();
    let mut names = Vec::new();
    for var in &plan.exec.env {
        names.push(&var.name);
        match (&var.value, left.remove(&var.name)) {
            (EnvValue::Callers(value), Some(typed)) => assert_eq!(value.as_bytes(), typed),
            (EnvValue::Ours(_), None) if matches!(&var.name[..], "HOME" | "PATH" | "TERM") => {}
            (EnvValue::Ours(_) | EnvValue::BrokerUrl { .. } | EnvValue::BrokerToken, None) => {
                assert!(is_the_brokers(run, &var.name), "{var:?}");
            }
            (_, typed) => panic!("{var:?} for {typed:?}"),
        }
    }
    assert!(left.is_empty(), "{left:?}");
    names.sort();
    assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
    let strict = plan.confine.landlock.mode == LandlockMode::Required;
    assert_eq!(strict, run.landlock == cli::Landlock::Required);
    assert_eq!(plan.confine.seccomp.allow_ptrace, run.allow_ptrace);
    let is_asked = plan.confine.seccomp.on_denial == OnDenial::Ask;
    assert_eq!(is_asked, run.explain_denials);
    let routes = plan
        .broker
        .as_ref()
        .map_or(&[][..], |broker| &broker.routes);
    assert!(plan.broker.is_some() == run.broker.is_some());
    assert!(
        run.broker_args
            .allow_routes
            .iter()
            .all(|typed| routes.contains(typed))
    );
    let (text, json) = said::plan(plan);
    let json = json.expect("no path was typed");
    assert!(may_show_mark(run) || !(text + &json.to_string()).contains(MARK));
    assert_eq!(
        json["exec"]["env"].as_array().map(Vec::len),
        Some(names.len())
    );
}

fn is_the_brokers(run: &cli::Run, name: &str) -> bool {
    let provider = run.broker.map(|provider| match provider {
        cli::Provider::Anthropic => Provider::Anthropic,
        cli::Provider::Openai => Provider::OpenAi,
        cli::Provider::Gemini => Provider::Gemini,
        cli::Provider::Custom => Provider::Custom,
    });
    let variables = provider.map_or(&[][..], Provider::variables);
    variables.iter().any(|variable| variable.name == name)
}
