use std::collections::BTreeSet;

use super::*;

/// The head's fields as the front gives them.
fn sent<'a>(fields: &'a [(&str, &'static str)]) -> impl Iterator<Item = (&'a [u8], Bytes)> {
    let bytes = |value: &'static str| Bytes::from_static(value.as_bytes());
    fields
        .iter()
        .map(move |(name, value)| (name.as_bytes(), bytes(value)))
}

fn go(
    provider: Provider,
    fields: &[(&str, &'static str)],
    connection: &[&str],
) -> Result<HeaderMap, Refused> {
    let connection: Vec<_> = connection.iter().map(|name| name.as_bytes()).collect();
    let auth = HeaderName::from_static("x-service-key");
    let auth = (provider == Provider::Custom).then_some(&auth);
    outgoing(provider, auth, sent(fields), &connection)
}

fn names(headers: &HeaderMap) -> BTreeSet<&str> {
    headers.keys().map(HeaderName::as_str).collect()
}

const NAMED: [Provider; 3] = [Provider::Anthropic, Provider::OpenAi, Provider::Gemini];

#[test]
fn what_the_clients_of_each_provider_send_arrives() {
    for (provider, fields) in [
        (
            Provider::Anthropic,
            &[
                ("Content-Type", "application/json"),
                ("Accept", "application/json"),
                ("User-Agent", "claude-cli/2.1 (external, cli)"),
                ("anthropic-version", "2023-06-01"),
                ("anthropic-beta", "a-1,b-2"),
                ("anthropic-dangerous-direct-browser-access", "true"),
                ("Idempotency-Key", "i"),
                ("x-app", "cli"),
                ("X-Claude-Code-Session-Id", "s"),
                ("X-Claude-Code-Agent-Id", "a"),
                ("x-claude-code-parent-agent-id", "p"),
                ("anthropic-client-platform", "web"),
                ("x-anthropic-additional-protection", "true"),
                ("x-client-request-id", "r"),
                ("X-Stainless-Lang", "js"),
                ("X-Stainless-Retry-Count", "0"),
                ("x-stainless-read-timeout", "600"),
            ][..],
        ),
        (
            Provider::OpenAi,
            &[
                ("content-type", "application/json"),
                ("accept", "text/event-stream"),
                ("user-agent", "codex_cli_rs/0.72.0"),
                ("OpenAI-Beta", "responses=experimental"),
                ("OpenAI-Organization", "o"),
                ("OpenAI-Project", "p"),
                ("originator", "codex_cli_rs"),
                ("version", "0.72.0"),
                ("session_id", "s"),
                ("Session-Id", "s"),
                ("conversation_id", "c"),
                ("thread-id", "c"),
                ("x-codex-beta-features", "b"),
                ("x-codex-parent-thread-id", "p"),
                ("x-codex-turn-metadata", "m"),
                ("x-codex-turn-state", "t"),
                ("x-codex-window-id", "w"),
                ("x-openai-subagent", "review"),
                ("x-responsesapi-include-timing-metrics", "true"),
                ("X-Client-Request-Id", "r"),
                ("X-Stainless-OS", "Linux"),
            ],
        ),
        (
            Provider::Gemini,
            &[
                ("Content-Type", "application/json"),
                ("User-Agent", "google-genai-sdk/1.0"),
                ("x-goog-api-client", "google-genai-sdk/1.0"),
                ("X-Server-Timeout", "60"),
            ],
        ),
    ] {
        let headers = go(provider, fields, &["keep-alive"]).expect("fit");
        for (name, value) in fields {
            assert_eq!(headers[*name], value, "{provider} {name}");
        }
        assert_eq!(headers["accept-encoding"], "identity");
        assert_eq!(headers.len(), fields.len() + 1);
    }
}

/// Ways to bring a credential of one's own, or to be another request than one seems.
const SMUGGLED: &[(&str, &str)] = &[
    ("X-Api-Key", "attacker"),
    ("x_api_key", "attacker"),
    ("X-API_Key", "attacker"),
    ("X.Api.Key", "attacker"),
    ("Authorization", "Basic YTpi"),
    ("Authorization", "Bearer attacker"),
    ("authorization_", "attacker"),
    ("Proxy-Authorization", "Basic YTpi"),
    ("proxy_authorization", "Basic YTpi"),
    ("Proxy-Authenticate", "Basic"),
    ("Cookie", "session=attacker"),
    ("Api-Key", "attacker"),
    ("api_key", "attacker"),
    ("ApiKey", "attacker"),
    ("X-Goog-Api-Key", "attacker"),
    ("x_goog_api_key", "attacker"),
    ("X-Service-Key", "attacker"),
    ("x_service_key", "attacker"),
    ("X-Forwarded-For", "1.2.3.4"),
    ("X-Forwarded-Host", "attacker.example"),
    ("x_forwarded_proto", "http"),
    ("Forwarded", "for=1.2.3.4"),
    ("Via", "1.1 attacker"),
    ("X-Original-URL", "/v1/files"),
    ("X-Rewrite-URL", "/v1/files"),
    ("X-HTTP-Method", "DELETE"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("X-Method-Override", "DELETE"),
    ("Host", "attacker.example"),
    ("Connection", "x-api-key"),
    ("Keep-Alive", "timeout=5"),
    ("Proxy-Connection", "keep-alive"),
    ("TE", "trailers"),
    ("Trailer", "X-Api-Key"),
    ("Transfer-Encoding", "chunked"),
    ("transfer_encoding", "chunked"),
    ("Content-Length", "5"),
    ("Expect", "100-continue"),
    ("Upgrade", "h2c"),
    ("HTTP2-Settings", "AAMAAABk"),
    ("Accept-Encoding", "gzip"),
    ("accept_encoding", "gzip"),
];

#[test]
fn no_credential_of_the_clients_passes() {
    for provider in Provider::ALL {
        for smuggled in SMUGGLED {
            let fields = [("Accept", "*/*"), *smuggled, *smuggled];
            let headers = go(provider, &fields, &["x-api-key", "close"]).expect("fit");
            let left = BTreeSet::from(["accept", "accept-encoding"]);
            assert_eq!(names(&headers), left, "{provider} {smuggled:?}");
            assert_eq!(
                headers["accept-encoding"], "identity",
                "{provider} {smuggled:?}"
            );
        }
    }
}

#[test]
fn what_a_named_provider_does_not_know_is_dropped() {
    for provider in NAMED {
        for name in [
            "accept-language",
            "sec-fetch-mode",
            "traceparent",
            "x-auth-token",
            "x-stainles",
            "x_stainless_lang",
            "x-stainless",
            "origin",
            "referer",
            "range",
            "x-oai-attestation",
            "x-goog-fieldmask",
            "x-goog-iam-authorization-token",
            "anthropic_version",
            "content_type",
            "x-amz-security-token",
        ] {
            let headers = go(provider, &[(name, "v"), (name, "v")], &[]).expect(name);
            assert_eq!(
                names(&headers),
                BTreeSet::from(["accept-encoding"]),
                "{provider} {name}"
            );
        }
    }
}

#[test]
fn custom_passes_the_rest_in_order() {
    let fields = [
        ("X-Tag", "1"),
        ("Accept", "*/*"),
        ("x-tag", "2"),
        ("Content-Type", "a/b"),
        ("Content-Encoding", "gzip"),
        ("X-Hop", "h"),
        ("Range", "bytes=0-1"),
        ("X-TAG", "\u{e4}\t3"),
    ];
    let headers = go(Provider::Custom, &fields, &["X-HOP", "keep-alive"]).expect("fit");
    let tags: Vec<_> = headers
        .get_all("x-tag")
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    assert_eq!(tags, [b"1", b"2", "\u{e4}\t3".as_bytes()]);
    assert_eq!(headers["content-encoding"], "gzip");
    let left = [
        "accept",
        "accept-encoding",
        "content-encoding",
        "content-type",
        "range",
        "x-tag",
    ];
    assert_eq!(names(&headers), BTreeSet::from(left));
}

/// Provider, fields with `|` between, what Connection names, reason.
#[rustfmt::skip]
const REFUSED: &[(Provider, &str, &str, &str)] = &[
    (Provider::Anthropic, "anthropic-beta: a|Anthropic-Beta: b", "", "field-twice"),
    (Provider::OpenAi, "content-type: a/b|content-type: a/b", "", "field-twice"),
    (Provider::Gemini, "x-stainless-os: a|X-Stainless-OS: a", "", "field-twice"),
    (Provider::Anthropic, "", "close,Anthropic-Version", "connection-names-field"),
    (Provider::Anthropic, "", "x-stainless-lang", "connection-names-field"),
    (Provider::OpenAi, "Content-Type: a/b", "content-type", "connection-names-field"),
    (Provider::Custom, "Content-Type: a/b", "content-type", "connection-names-field"),
    (Provider::Custom, "", "Content-Encoding", "connection-names-field"),
    (Provider::OpenAi, "Content-Encoding: zstd", "", "content-encoding"),
    (Provider::Gemini, "content-encoding: identity|content-encoding: gzip", "", "content-encoding"),
    (Provider::OpenAi, "ChatGPT-Account-Id: a", "", "account-choice"),
    (Provider::Gemini, "x-goog-user-project: p", "", "account-choice"),
    (Provider::Anthropic, "anthropic-workspace-id: w", "", "account-choice"),
    (Provider::Anthropic, "anthropic-user-profile-id: u", "", "account-choice"),
    (Provider::OpenAi, "accept: a\u{1}b", "", "field-value"),
    (Provider::Custom, "x-tag: a\rb", "", "field-value"),
];

#[test]
fn what_dropping_would_change_is_refused() {
    for (provider, fields, connection, reason) in REFUSED {
        let fields: Vec<_> = fields
            .split('|')
            .filter_map(|field| field.split_once(": "))
            .collect();
        let connection: Vec<_> = connection.split(',').collect();
        let unfit = go(*provider, &fields, &connection).expect_err(reason);
        assert_eq!(unfit, bad_request(reason), "{provider} {fields:?}");
        assert_eq!((unfit.status, unfit.close), (400, false));
    }
    for provider in NAMED {
        let headers = go(provider, &[("Content-Encoding", "Identity")], &[]).expect("fit");
        assert_eq!(names(&headers), BTreeSet::from(["accept-encoding"]));
    }
}

#[test]
fn every_credential_that_is_presented_is_found() {
    for (fields, query, expected) in [
        (&[][..], None, &[][..]),
        (&[("X-API-Key", "a")], None, &["a"]),
        (&[("Authorization", "Bearer a")], None, &["a"]),
        (&[("authorization", "bEaReR   a ")], None, &["a"]),
        (&[("Authorization", "Basic a")], None, &[""]),
        (&[("Authorization", "Bearer")], None, &[""]),
        (&[("Authorization", "Bearera")], None, &[""]),
        (&[("Authorization", "a")], None, &[""]),
        (&[("Authorization", "")], None, &[""]),
        (
            &[
                ("x-goog-api-key", "a"),
                ("x-api-key", "b"),
                ("x-api-key", "c"),
            ],
            None,
            &["a", "b", "c"],
        ),
        (
            &[("Accept", "a"), ("Cookie", "b"), ("x_api_key", "c")],
            Some("keys=a&Key=b"),
            &[],
        ),
        (
            &[("x-api-key", "a")],
            Some("key=b&x=1&%6bey=c%2B+d&key"),
            &["a", "b", "c+ d", ""],
        ),
        (&[], Some("key=%zz&%zz=a&&=&key=a=b"), &["%zz", "a=b"]),
    ] {
        let fields: &[(&str, &str)] = fields;
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let found: Vec<_> = presented(fields, query).collect();
        let expected: Vec<_> = expected.iter().map(|one| one.as_bytes()).collect();
        assert_eq!(found, expected);
    }
}
