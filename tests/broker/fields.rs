//! Whose credential arrives: the real one, once, and never another's. An
//! attacker's own key upstream would turn the API into a drop box.

use std::collections::BTreeSet;

use crate::common::http::holds;
use crate::common::upstream::{Request, ok};
use crate::common::{Broker, Client, Upstream};
use crate::hostile::{EVIL, get, post};

/// Fields that a server somewhere takes a credential from, or a path, or a name.
fn credentials() -> Vec<String> {
    let names = [
        "X-Api-Key",
        "x-api-key",
        "X_Api_Key",
        "X-API_KEY",
        "X-Secret",
        "Authorization",
        "authorization",
        "Proxy-Authorization",
        "Proxy_Authorization",
        "Cookie",
        "Api-Key",
        "api_key",
        "X-Goog-Api-Key",
        "X_Goog_Api_Key",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "Forwarded",
        "Via",
        "X-Original-Url",
        "X-Rewrite-Url",
        "X-Http-Method-Override",
        "X-Forwarded-Proto",
    ];
    names
        .iter()
        .map(|name| format!("{name}: {EVIL}\r\n"))
        .collect()
}

/// Names of the query that a server somewhere takes a credential from.
const QUERY: [&str; 11] = [
    "key",
    "%6bey",
    "k%65y",
    "%6B%65%79",
    "api_key",
    "api%5fkey",
    "apiKey",
    "access_token",
    "access%5Ftoken",
    "oauth_token",
    "%61%70%69Key",
];
/// What only a list of what is allowed keeps out.
const OTHERS: [&str; 5] = ["key%20", "KEY", "Api_Key", "x-api-key", "session"];

fn requests_with_evil(names: &[&str]) -> Vec<(String, Vec<u8>)> {
    let mut requests = Vec::new();
    for field in credentials() {
        requests.push((
            field.clone(),
            post(&format!("{field}Content-Length: 2\r\n"), "{}"),
        ));
        let name = field.split(':').next().expect("a name");
        let fields = format!("{field}Connection: {name}\r\nContent-Length: 2\r\n");
        requests.push((format!("{field} named by Connection"), post(&fields, "{}")));
    }
    for name in names {
        for query in [
            format!("{name}={EVIL}"),
            format!("limit=1&{name}={EVIL}"),
            format!("{name}={EVIL}&limit=1"),
        ] {
            requests.push((query.clone(), get(format!("/v1/models?{query}"))));
        }
    }
    let twice = format!("X-Api-Key: {EVIL}\r\nx-api-key: {EVIL}\r\nContent-Length: 2\r\n");
    requests.push(("twice".into(), post(&twice, "{}")));
    let bearer = format!("Authorization: Bearer {EVIL}\r\nContent-Length: 2\r\n");
    requests.push(("bearer".into(), post(&bearer, "{}")));
    requests
}

/// Stand-alone without a token file nobody asks for a token: all that a client
/// presents is dropped, or refused.
fn nothing_evil_arrives(upstream: &Upstream, broker: Broker, key_field: &str, names: &[&str]) {
    let control = Upstream::start(|_| ok("spent"));
    for (what, request) in requests_with_evil(names) {
        let answer = broker.client().ask(&request);
        assert!([200, 400].contains(&answer.status), "{what}: {answer:?}");
        Client::straight(&control).ask(&request);
        let arrived = control.requests().pop().expect("a request");
        let text = arrived.head.sorted();
        assert!(
            text.contains(EVIL),
            "vacuous: {what} doesn't arrive straight"
        );
    }
    let _ = broker.client().ask(&get("/v1/models"));
    let key = broker.key.clone();
    let _ = broker.stop();
    for seen in upstream.wait_until_alone() {
        assert!(
            !holds(&seen.bytes, EVIL.as_bytes()),
            "{}",
            seen.bytes.escape_ascii()
        );
        for Request { head, .. } in seen.requests {
            assert_eq!(head.one(key_field), Some(key.as_str()), "{head:?}");
        }
    }
    assert!(
        !upstream.requests().is_empty(),
        "vacuous: everything was refused"
    );
}

#[test]
fn only_the_real_key_arrives() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::start(&upstream);
    let names = [&QUERY[..], &OTHERS].concat();
    nothing_evil_arrives(&upstream, broker, "x-api-key", &names);
}

#[test]
fn only_the_real_key_arrives_at_an_api_of_ones_own() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::before(&upstream).custom().start();
    nothing_evil_arrives(&upstream, broker, "x-secret", &QUERY);
}

#[test]
fn each_provider_has_its_routes_and_its_place_for_the_key() {
    let cases = [
        ("anthropic", "/v1/messages?beta=true", "x-api-key", ""),
        ("openai", "/v1/chat/completions", "authorization", "Bearer "),
        ("openai", "/v1/responses", "authorization", "Bearer "),
        (
            "gemini",
            "/v1beta/models/gemini-2.5-pro:generateContent",
            "x-goog-api-key",
            "",
        ),
        (
            "gemini",
            "/v1beta/models/g:streamGenerateContent?alt=sse",
            "x-goog-api-key",
            "",
        ),
        ("gemini", "/v1/models/g:countTokens", "x-goog-api-key", ""),
    ];
    for (provider, path, field, prefix) in cases {
        let upstream = Upstream::start(|_| ok("spent"));
        let broker = Broker::before(&upstream).provider(provider).start();
        let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n");
        let request = format!("{head}Content-Length: 2\r\n\r\n{{}}");
        assert_eq!(
            broker.client().ask(request.as_bytes()).whole(),
            b"spent",
            "{provider}"
        );
        let [request] = &upstream.requests()[..] else {
            panic!("one request")
        };
        assert_eq!(request.head.line, format!("POST {path} HTTP/1.1"));
        let key = format!("{prefix}{}", broker.key);
        assert_eq!(request.head.one(field), Some(key.as_str()), "{provider}");
        let names: BTreeSet<_> = request
            .head
            .fields
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        let wanted = [
            "accept-encoding",
            "content-length",
            "content-type",
            "host",
            field,
        ];
        assert_eq!(names, BTreeSet::from(wanted), "{provider}");
        // What is another provider's is nobody's here.
        for (other, path, ..) in cases.iter().filter(|case| case.0 != provider) {
            let path = path.split('?').next().expect("a path");
            let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
            let status = broker.client().ask(head.as_bytes()).status;
            assert_eq!(status, 404, "{provider} answers {other}'s {path}");
        }
        assert_eq!(upstream.requests().len(), 1);
    }
}

#[test]
fn an_oauth_token_goes_as_bearer() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::before(&upstream)
        .key("sk-ant-oat01-canary-of-a-token")
        .start();
    let fields = "anthropic-beta: tools-1\r\nContent-Length: 2\r\n";
    assert_eq!(broker.client().ask(&post(fields, "{}")).status, 200);
    let [request] = &upstream.requests()[..] else {
        panic!("one request")
    };
    let bearer = "Bearer sk-ant-oat01-canary-of-a-token";
    assert_eq!(request.head.one("authorization"), Some(bearer));
    assert_eq!(request.head.one("x-api-key"), None);
    let beta = request.head.all("anthropic-beta").join(",");
    let flags: BTreeSet<_> = beta.split(',').map(str::trim).collect();
    assert_eq!(flags, BTreeSet::from(["tools-1", "oauth-2025-04-20"]));
}

#[test]
fn what_the_api_needs_is_passed_on() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::start(&upstream);
    let fields = "Accept: application/json\r\nContent-Type: application/json\r\nUser-Agent: agent/1\r\n\
                  anthropic-version: 2023-06-01\r\nanthropic-beta: a,b\r\nx-stainless-lang: js\r\n\
                  Accept-Encoding: gzip, br\r\nX-Unknown: 1\r\nContent-Length: 2\r\n";
    assert_eq!(broker.client().ask(&post(fields, "{}")).status, 200);
    let sent = crate::hostile::arrived(
        &broker,
        &upstream,
        "POST /v1/messages HTTP/1.1",
        &[
            "accept: application/json",
            "content-type: application/json",
            "user-agent: agent/1",
            "anthropic-version: 2023-06-01",
            "anthropic-beta: a,b",
            "x-stainless-lang: js",
            "content-length: 2",
        ],
    );
    assert_eq!(upstream.requests()[0].head.sorted(), sent);
}

#[test]
fn a_path_prefix_is_kept_and_a_route_can_be_added() {
    let upstream = Upstream::start(|_| ok("spent"));
    let url = format!("{}/gateway", upstream.url());
    let broker = Broker::before(&upstream)
        .provider("custom")
        .flag("--auth-header", "Authorization:Token ")
        .flag("--allow-route", "DELETE /admin/cache")
        .flag("--upstream", &url);
    // The later flag is no second upstream.
    broker.refused("usage");
    drop(broker);
    let start = Broker::to(&url, &upstream.ca_file())
        .provider("custom")
        .flag("--auth-header", "Authorization:Token ")
        .flag("--allow-route", "DELETE /admin/cache");
    let broker = start.start();
    let delete = b"DELETE /admin/cache HTTP/1.1\r\nHost: h\r\n\r\n";
    assert_eq!(broker.client().ask(delete).whole(), b"spent");
    assert_eq!(
        broker.client().ask(&get("/v1/any/thing?a=1")).whole(),
        b"spent"
    );
    assert_eq!(broker.client().ask(&get("/admin/cache")).status, 404);
    let requests = upstream.requests();
    let lines: Vec<_> = requests
        .iter()
        .map(|request| request.head.line.as_str())
        .collect();
    let kept = [
        "DELETE /gateway/admin/cache HTTP/1.1",
        "GET /gateway/v1/any/thing?a=1 HTTP/1.1",
    ];
    assert_eq!(lines, kept);
    let token = format!("Token {}", broker.key);
    assert_eq!(requests[0].head.one("authorization"), Some(token.as_str()));
}

#[test]
fn local_answers_never_spend() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::start(&upstream);
    for (method, path) in [
        ("GET", "/healthz"),
        ("HEAD", "/healthz"),
        ("GET", "/"),
        ("HEAD", "/"),
    ] {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let answer = broker.client().ask(request.as_bytes());
        assert_eq!(answer.status, 200, "{method} {path}");
        assert!(method == "GET" || answer.body.is_empty());
    }
    assert_eq!(
        broker.client().ask(&get("/healthz")).whole().trim_ascii(),
        b"ok"
    );
    assert_eq!(upstream.requests().len(), 0);
}
