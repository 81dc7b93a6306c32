//! Fifty thousand requests that somebody bent, from a fixed seed.

use std::thread;
use std::time::Duration;

use crate::common::upstream::{Request, ok};
use crate::common::{Broker, Client, Upstream};
use crate::hostile::EVIL;

/// SplitMix64: the same numbers everywhere, and no two streams alike.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `limit`, which may be 0.
    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).expect("64 bits");
        usize::try_from(self.roll() % limit).expect("less than a usize")
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn byte(&mut self) -> u8 {
        self.roll().to_le_bytes()[0]
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let head = "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nanthropic-version: 2023-06-01\r\n\
                Content-Type: application/json\r\nUser-Agent: agent/1\r\n";
    let evil = format!("X-Api-Key: {EVIL}\r\nAuthorization: Bearer {EVIL}\r\nCookie: a={EVIL}\r\n");
    [
        format!("{head}Content-Length: 13\r\n\r\n{{\"model\":\"x\"}}"),
        format!("{head}{evil}Content-Length: 2\r\n\r\n{{}}"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"),
        format!("{head}Transfer-Encoding: chunked\r\nTrailer: X-Api-Key\r\n\r\n7;a=b\r\n{{\"a\":1}}\r\n0\r\nX-Api-Key: {EVIL}\r\n\r\n"),
        format!("GET /v1/models?limit=5&after_id=a%20b HTTP/1.1\r\nHost: localhost\r\n{evil}\r\n"),
        String::from("GET /v1/models/claude-x HTTP/1.1\r\nHost: localhost\r\nConnection: close, x-api-key\r\n\r\n"),
        format!("GET /v1/models?key={EVIL}&%6bey={EVIL} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Host: {EVIL}\r\n\r\n"),
        format!("{head}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{{}}"),
        String::from("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n{head}Content-Length: 2\r\n\r\n{{}}"),
    ]
    .map(String::into_bytes)
    .to_vec()
}

const WORDS: [&[u8]; 24] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"\r\n ",
    b"\r\n\r\n",
    b"%2e%2e/",
    b"../",
    b"//",
    b"%00",
    b"#",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 2\r\n",
    b"Host: evil\r\n",
    b"Connection: anthropic-version\r\n",
    b"0\r\n\r\n",
    b"HTTP/1.0",
    b"\xff",
    b"?key=",
    b"GET /v2/admin HTTP/1.1\r\n",
];

/// A place in the bytes, and one not before it.
fn range(dice: &mut Dice, bytes: &[u8]) -> std::ops::Range<usize> {
    let start = dice.below(bytes.len() + 1);
    let length = dice.below((bytes.len() - start + 1).min(64));
    start..start + length
}

fn mutate(dice: &mut Dice, corpus: &[Vec<u8>], bytes: &mut Vec<u8>) {
    let at = dice.below(bytes.len());
    match dice.below(9) {
        _ if bytes.is_empty() => {}
        0 => bytes[at] ^= 1 << dice.below(8),
        1 => bytes[at] = dice.byte(),
        2 => {
            let word = dice.pick(&WORDS);
            bytes.splice(at..at, word.iter().copied());
        }
        3 => {
            let other = &corpus[dice.below(corpus.len())];
            let piece = other[range(dice, other)].to_vec();
            let over = range(dice, bytes);
            bytes.splice(over, piece);
        }
        4 => {
            // A line twice.
            let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
            let line = lines[dice.below(lines.len())].to_vec();
            let before: usize = lines[..dice.below(lines.len())]
                .iter()
                .map(|line| line.len())
                .sum();
            bytes.splice(before..before, line);
        }
        5 => {
            let gone = range(dice, bytes);
            bytes.drain(gone);
        }
        6 => bytes.truncate(at),
        7 => {
            // Another line end, once or everywhere.
            let end = dice.pick(&[&b"\n"[..], b"\r", b"\r\r\n", b"\n\r", b"\r\n "]);
            let ends: Vec<usize> = (0..bytes.len().saturating_sub(1))
                .filter(|at| &bytes[*at..*at + 2] == b"\r\n")
                .collect();
            let chosen = dice.below(ends.len() + 1);
            for (index, at) in ends.iter().enumerate().rev() {
                if chosen == ends.len() || chosen == index {
                    bytes.splice(*at..*at + 2, end.iter().copied());
                }
            }
        }
        _ => {
            let again = bytes[range(dice, bytes)].to_vec();
            bytes.splice(at..at, again);
        }
    }
}

/// One of the bent requests; every number gives another, always the same.
fn bent(number: u64, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut dice = Dice(number);
    let mut bytes = corpus[dice.below(corpus.len())].clone();
    for _ in 0..=dice.below(3) {
        mutate(&mut dice, corpus, &mut bytes);
    }
    bytes
}

/// Sends it, and sees to it that the connection comes to its end.
fn throw(client: &mut Client, bytes: &[u8], ends: bool) {
    let _ = client.send(bytes);
    if !ends {
        // No request goes on like this: whoever waited for more is refused.
        let _ = client.send(&[b"\r\n\r\n", &[0; 200][..]].concat());
        // Whoever still waits, for the body of a large length, waits in vain.
        client.drain_for(Duration::from_millis(200));
    }
    client.half_close();
    client.rest();
}

/// What of a request that arrived should not have.
fn wrong_with(request: &Request, key: &str, authority: &str) -> Option<String> {
    let head = &request.head;
    let once = |name: &str, value: &str| head.all(name) == [value];
    let denied = [
        "authorization",
        "proxy-authorization",
        "cookie",
        "api-key",
        "x-goog-api-key",
        "trailer",
        "te",
        "upgrade",
        "connection",
        "expect",
        "forwarded",
        "via",
        "keep-alive",
        "x-forwarded-host",
    ];
    let is_bad = |name: &str| denied.contains(&name) || name.contains('_');
    let fields = &head.fields;
    if !once("x-api-key", key) || !once("host", authority) || !once("accept-encoding", "identity") {
        return Some(format!("fields of the broker's own: {head:?}"));
    }
    if let Some((name, _)) = fields.iter().find(|(name, _)| is_bad(name)) {
        return Some(format!("{name}: {head:?}"));
    }
    let words: Vec<&str> = head.line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = words[..] else {
        return Some(format!("line: {head:?}"));
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_route = match method {
        "POST" => ["/v1/messages", "/v1/messages/count_tokens"].contains(&path),
        "GET" => {
            let model = path.strip_prefix("/v1/models");
            model.is_some_and(|rest| {
                rest.is_empty()
                    || rest
                        .strip_prefix('/')
                        .is_some_and(|id| !id.is_empty() && !id.contains(['/', '\\']))
            })
        }
        _ => false,
    };
    let is_crooked = ["..", "%2e", "%2E", "%2f", "%2F", "%5c", "%5C", "%00", "#"]
        .iter()
        .any(|part| path.contains(part));
    if !is_route || is_crooked {
        return Some(format!("route: {head:?}"));
    }
    let names = query
        .split('&')
        .map(|pair| pair.split('=').next().unwrap_or_default());
    let mut names = names.map(|name| name.replace('%', ""));
    if names.any(|name| ["key", "6bey", "api_key", "access_token"].contains(&name.as_str())) {
        return Some(format!("query: {head:?}"));
    }
    None
}

/// Throws the requests of these numbers from several threads.
fn throw_all(numbers: std::ops::Range<u64>, connect: impl Fn() -> Client + Sync) {
    const THREADS: u64 = 16;
    let corpus = corpus();
    thread::scope(|scope| {
        for first in 0..THREADS {
            let (numbers, corpus, connect) = (numbers.clone(), &corpus, &connect);
            scope.spawn(move || {
                for number in numbers.filter(|number| number % THREADS == first) {
                    let bytes = bent(number, corpus);
                    throw(&mut connect(), &bytes, number % 3 == 0);
                }
            });
        }
    });
}

/// Everything that is wrong with what arrived.
fn all_wrong(upstream: &Upstream, key: &str) -> Vec<String> {
    let authority = upstream.authority();
    let seen = upstream.wait_until_alone();
    let broken = seen.iter().filter_map(|one| one.broken.clone());
    let requests = seen.iter().flat_map(|one| &one.requests);
    let wrong = requests.filter_map(|request| wrong_with(request, key, &authority));
    broken.chain(wrong).collect()
}

fn assert_harmless(upstream: &Upstream, numbers: std::ops::Range<u64>) {
    let broker = Broker::start(upstream);
    throw_all(numbers.clone(), || broker.client());
    broker.assert_alive();
    let key = broker.key.clone();
    let (run, log) = broker.stop();
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:#?}");
    let wrong = all_wrong(upstream, &key);
    let shown = wrong.iter().take(20).cloned().collect::<Vec<_>>();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        shown.join("\n")
    );
    // Some were good enough to be sent on, and not all were.
    let arrived = u64::try_from(upstream.requests().len()).expect("64 bits");
    let thrown = numbers.end - numbers.start;
    assert!(
        (thrown / 100..thrown * 2).contains(&arrived),
        "vacuous: {arrived} of {thrown}"
    );
    assert!(!log.contains(&key), "the key is in the log");
}

#[test]
fn most_of_fifty_thousand_without_tls() {
    let upstream = Upstream::plain(|_| ok("spent"));
    assert_harmless(&upstream, 0..45_000);
}

#[test]
fn the_rest_of_fifty_thousand_over_tls() {
    let upstream = Upstream::start(|_| ok("spent"));
    assert_harmless(&upstream, 45_000..50_000);
}

#[test]
fn straight_they_are_harmful() {
    let upstream = Upstream::plain(|_| ok("spent"));
    throw_all(0..320, || Client::straight(&upstream));
    let wrong = all_wrong(&upstream, "the key");
    assert!(wrong.len() > 160, "vacuous: {}", wrong.len());
    assert!(upstream.got(EVIL.as_bytes()));
    let corpus = corpus();
    assert_eq!(bent(7, &corpus), bent(7, &corpus));
    assert_ne!(bent(7, &corpus), bent(8, &corpus));
}
