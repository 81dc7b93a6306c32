//! Who may spend: whoever holds the run's token and lives in its jail.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::host::{processes_with, program, unique};
use crate::common::jail::{Run, finish, spawn, wait_for_line};
use crate::common::upstream::{PATIENCE, ok};
use crate::common::{Broker, Upstream, is_root};
use crate::hostile::get;
use crate::in_run::{SOCKET, Setup, item, lines, request};

const WRONG: &str = "sk-ant-wrong-0000000000000000000000000000000000000000000000000000000000000000";

/// Fields and query, and the status that they get. `{token}` is the right one.
fn presentations() -> Vec<(Vec<String>, String, u16)> {
    let places = ["x-api-key: ", "Authorization: Bearer ", "x-goog-api-key: "];
    let path = || "/v1/models".to_owned();
    let mut all = vec![(Vec::new(), path(), 401)];
    for place in places {
        let right = format!("{place}{{token}}");
        all.push((vec![right.clone()], path(), 200));
        for wrong in [WRONG, "", "{token}x", "x{token}", "{token},{token}"] {
            all.push((vec![format!("{place}{wrong}")], path(), 401));
        }
        for other in places {
            all.push((vec![right.clone(), format!("{other}{WRONG}")], path(), 401));
            all.push((vec![format!("{other}{WRONG}"), right.clone()], path(), 401));
        }
        all.push((vec![right.clone()], format!("/v1/models?key={WRONG}"), 401));
        all.push((
            vec![right.clone()],
            format!("/v1/models?%6bey={WRONG}"),
            401,
        ));
        all.push((vec![right], "/v1/models?key={token}".into(), 200));
    }
    for scheme in ["authorization: bearer {token}", "X-API-KEY: {token}"] {
        all.push((vec![scheme.into()], path(), 200));
    }
    for scheme in ["Authorization: Basic {token}", "Cookie: {token}"] {
        all.push((vec![scheme.into()], path(), 401));
    }
    all.push((Vec::new(), "/v1/models?key={token}".into(), 200));
    all.push((Vec::new(), format!("/v1/models?key={WRONG}"), 401));
    all.push((Vec::new(), "/v1/models?key={token}&key=x".into(), 401));
    // Whoever may not ask isn't told what there is to ask for.
    all.push((Vec::new(), "/v1/files".into(), 401));
    all.push((vec!["x-api-key: {token}".into()], "/v1/files".into(), 404));
    // Nothing is spent on these.
    all.push((Vec::new(), "/healthz".into(), 200));
    all.push((Vec::new(), "/".into(), 200));
    all
}

#[test]
fn in_a_run_every_token_that_is_presented_must_be_right() {
    let setup = Setup::new(Upstream::start(|_| ok("spent")));
    let presentations = presentations();
    let spent = presentations
        .iter()
        .filter(|(_, path, status)| *status == 200 && path.starts_with("/v1/"));
    let spent = 2 * spent.count();
    let mut items = vec!["seq".to_owned()];
    for place in ["shim", SOCKET] {
        for (fields, target, _) in &presentations {
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            items.push(item(place, target, &fields));
        }
    }
    let run = setup.jail().run(&items);
    let lines = run.lines();
    assert_eq!(lines.len(), 2 * presentations.len(), "{run:#?}");
    let expected = [&presentations[..], &presentations].concat();
    let mut wrong = Vec::new();
    for (line, (fields, target, status)) in lines.iter().zip(&expected) {
        if !line.starts_with(&format!("ok {status} ")) {
            wrong.push(format!("{target} {fields:?}: {line}, not {status}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let requests = setup.upstream.requests();
    assert_eq!(requests.len(), spent);
    for request in requests {
        assert_eq!(request.head.one("x-api-key"), Some(setup.key.as_str()));
        assert!(!request.head.line.contains("key="), "{:?}", request.head);
    }
    // Refusals are on record, and no token is.
    let log = std::fs::read_to_string(setup.log()).expect("a log");
    assert!(log.contains("401"), "{log}");
    assert!(!log.contains(WRONG) && !log.contains(&setup.key), "{log}");
}

#[test]
fn alone_a_token_is_asked_for_where_there_is_one() {
    let token = "groom-ns-token-of-a-test-0123456789";
    let upstream = Upstream::start(|_| ok("spent"));
    let brokers = [
        Broker::before(&upstream).token(token).start(),
        Broker::before(&upstream).token(token).tcp().start(),
    ];
    let mut spent = 0;
    for broker in brokers {
        for (fields, target, status) in presentations() {
            let fields = lines(&fields);
            let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let text = text.replace("{token}", token);
            let answer = broker.client().ask(text.as_bytes());
            assert_eq!(answer.status, status, "{text}");
            spent += usize::from(status == 200 && target.starts_with("/v1/"));
        }
        broker.assert_alive();
    }
    assert_eq!(upstream.requests().len(), spent);
    assert!(
        !upstream.got(token.as_bytes()),
        "the token is for the broker alone"
    );
}

#[test]
fn every_run_has_a_token_of_its_own() {
    let setup = Setup::new(Upstream::start(|_| ok("spent")));
    let tokens: Vec<String> = (0..2)
        .map(|_| {
            let run = setup.jail().run(&["env"]);
            let lines = run.lines();
            let token = lines
                .iter()
                .find_map(|line| line.strip_prefix("ANTHROPIC_API_KEY="));
            let base = lines
                .iter()
                .find_map(|line| line.strip_prefix("ANTHROPIC_BASE_URL="));
            assert!(
                base.is_some_and(|url| url.starts_with("http://127.0.0.1:")),
                "{run:#?}"
            );
            token.unwrap_or_else(|| panic!("{run:#?}")).to_owned()
        })
        .collect();
    assert_ne!(tokens[0], tokens[1]);
    // 32 random bytes, at least.
    assert!(tokens.iter().all(|token| token.len() >= 64), "{tokens:?}");
    assert!(!tokens.contains(&setup.key));
}

/// A run that waits, the host's number of its command, and its token.
struct Waiting {
    child: Child,
    pid: i32,
    token: String,
}

impl Waiting {
    fn start(setup: &Setup) -> Self {
        let marker = unique("marker");
        let mut child = setup
            .jail()
            .start(&["seq", "env", &format!("sleep 60 {marker}")]);
        wait_for_line(&mut child, "ready");
        let is_command = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "probe\n")
        };
        let pids: Vec<i32> = processes_with(&marker)
            .into_iter()
            .filter(is_command)
            .collect();
        let [pid] = pids[..] else {
            panic!("one process of the command: {pids:?}")
        };
        let environ = std::fs::read(format!("/proc/{pid}/environ")).expect("its environment");
        let environ = String::from_utf8_lossy(&environ).into_owned();
        let token = environ
            .split('\0')
            .find_map(|line| line.strip_prefix("ANTHROPIC_API_KEY="));
        let token = token.expect("a token").to_owned();
        Waiting { child, pid, token }
    }

    fn socket(&self) -> String {
        format!("/proc/{}/root{SOCKET}", self.pid)
    }

    fn end(mut self) {
        self.child.kill().expect("our child");
        let _ = finish(self.child);
    }
}

/// The right token from the wrong place. The connection itself may succeed.
fn from_outside(setup: &Setup, mut command: Command, waiting: &Waiting) -> Run {
    let token = format!("x-api-key: {}", waiting.token);
    command
        .arg("http")
        .arg(waiting.socket())
        .arg(request("/v1/models", &[&token]));
    let run = finish(spawn(&mut command));
    assert_eq!(setup.upstream.requests().len(), 0, "{run:#?}");
    run
}

#[test]
fn a_process_of_the_host_is_refused_with_the_right_token() {
    let setup = Setup::new(Upstream::start(|_| ok("spent")));
    let waiting = Waiting::start(&setup);
    let run = from_outside(&setup, Command::new(setup.workspace.probe()), &waiting);
    let outcome = run.outcome();
    assert!(
        ["ok closed", "ok 401", "ok 403"]
            .iter()
            .any(|r| outcome.starts_with(r)),
        "{run:#?}"
    );
    // And without a token, or with a wrong one.
    for fields in [&[][..], &["x-api-key: wrong"]] {
        let run =
            setup
                .workspace
                .unjailed(&["http", &waiting.socket(), &request("/v1/models", fields)]);
        let outcome = run.outcome();
        assert!(
            outcome == "ok closed" || outcome.starts_with("ok 40"),
            "{run:#?}"
        );
    }
    assert_eq!(setup.upstream.requests().len(), 0);
    wait_for_words(&setup, "\"reason\":\"peer\"", 3);
    waiting.end();
    // Control: inside, the token is good.
    let inside = setup.jail().run(&[
        "http",
        SOCKET,
        &request("/v1/models", &["x-api-key: {token}"]),
    ]);
    assert_eq!(inside.ok(), "200 spent");
}

/// Waits until so many lines of the log hold these words.
fn wait_for_words(setup: &Setup, words: &str, count: usize) {
    let end = Instant::now() + PATIENCE;
    loop {
        let log = std::fs::read_to_string(setup.log()).expect("a log");
        if log.lines().filter(|line| line.contains(words)).count() == count {
            return;
        }
        assert!(Instant::now() < end, "{log}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn another_user_of_the_host_is_refused() {
    let setup = Setup::new(Upstream::start(|_| ok("spent")));
    let waiting = Waiting::start(&setup);
    let probe = setup.workspace.probe();
    let command = if is_root() {
        // The probe, where anybody may run it.
        let place = std::env::temp_dir().join(unique("groom-ns-probe"));
        crate::common::host::install(&probe, &place);
        let mut command = program("setpriv", "util-linux");
        command
            .args(["--reuid=54321", "--regid=54321", "--clear-groups", "--"])
            .arg(place);
        command
    } else {
        // Another id of its own, in a namespace, is what a user can be.
        let mut command = program("unshare", "util-linux");
        command
            .args(["--user", "--map-root-user", "--"])
            .arg(&probe);
        command
    };
    let place = Path::new(command.get_args().last().expect("a path")).to_owned();
    let run = from_outside(&setup, command, &waiting);
    if is_root() {
        std::fs::remove_file(place).expect("our copy");
    }
    let outcome = run.outcome();
    let refused = ["ok closed", "ok 401", "ok 403", "EACCES", "EPERM"];
    assert!(
        refused.iter().any(|answer| outcome.starts_with(answer)),
        "{run:#?}"
    );
    waiting.end();
}

#[test]
fn events_come_one_by_one_in_the_jail() {
    use crate::common::http::chunk;
    use crate::common::upstream::{Act, events_head};
    let setup = Setup::new(Upstream::start(|_| {
        let mut acts = vec![Act::Send(events_head())];
        for number in 0..5 {
            let event = format!("data: {number}\n\n");
            acts.extend([Act::Watch, Act::Send(chunk(event.as_bytes()))]);
        }
        [&acts[..], &[Act::Send(b"0\r\n\r\n".to_vec())]].concat()
    }));
    for place in ["shim", SOCKET] {
        let request = request("/v1/models", &["x-api-key: {token}"]);
        let mut child = setup.jail().start(&["http-watch", place, &request]);
        let mut output = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
        for number in 0..5 {
            setup.upstream.open();
            let mut line = String::new();
            std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
            let (_, event) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
            assert_eq!(event, format!("data: {number}\\n\\n\n"));
        }
        let mut end = String::new();
        std::io::Read::read_to_string(&mut output, &mut end).expect("the end");
        let run = finish(child);
        assert_eq!(end, "ok 200 whole\n", "{run:#?}");
    }
    // The broker has no token beside the run's.
    assert_eq!(
        setup
            .workspace
            .jail()
            .run(&["connect-unix", SOCKET])
            .outcome(),
        "ENOENT"
    );
    let alone = Broker::start(&setup.upstream);
    assert_eq!(alone.client().ask(&get("/healthz")).status, 200);
}
