//! What is forwarded: targets, routes, `--allow-route` and the query, against a matcher
//! that is written for nothing but being right.
//!
//! `fuzz/run.sh route -max_total_time=300`

#![no_main]

use groom_ns::broker::front::{Target, target};
use groom_ns::broker::provider::Provider;
use groom_ns::broker::route::{Decision, Route, Routes};
use groom_ns::broker::upstream::url::Upstream;
use http::Method;
use libfuzzer_sys::fuzz_target;

#[path = "route/oracle.rs"]
mod oracle;
#[path = "route/queries.rs"]
mod queries;

/// More would only make an input slower.
const MAX_ROUTES: usize = 4;
/// The longest path that an example is made for.
const MAX_EXAMPLE: usize = 4096;

// Lines: the provider by its first letter; what `--allow-route` says, any number of
// times; last the request, `METHOD target`.
fuzz_target!(|input: &[u8]| {
    let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let (Some(last), false) = (lines.pop(), lines.is_empty()) else {
        return;
    };
    let provider = match lines.remove(0) {
        b"a" => Provider::Anthropic,
        b"o" => Provider::OpenAi,
        b"g" => Provider::Gemini,
        _ => Provider::Custom,
    };
    let mut added = Vec::new();
    for typed in lines.into_iter().take(MAX_ROUTES) {
        if let Ok(typed) = std::str::from_utf8(typed) {
            added.extend(allowed(typed));
        }
    }
    for typed in &added {
        fits_something(provider, typed);
    }
    if let Some((method, sent)) = request(last) {
        forwarded(provider, &added, &method, sent);
    }
});

/// Only what the front lets in.
fn request(line: &[u8]) -> Option<(Method, &[u8])> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let method = oracle::METHODS
        .into_iter()
        .find(|known| known.as_bytes() == &line[..space])?;
    Some((
        Method::from_bytes(method.as_bytes()).unwrap(),
        &line[space + 1..],
    ))
}

/// What `--allow-route` takes, as it was typed; none where it refuses.
fn allowed(typed: &str) -> Option<String> {
    let judged = Route::judge(typed);
    assert_eq!(judged.is_ok(), oracle::is_route(typed), "{typed:?}");
    match judged {
        Ok(route) => {
            assert_eq!(route.to_string(), typed);
            assert_eq!(Route::judge(&route.to_string()), Ok(route));
            Some(typed.to_owned())
        }
        Err(refusal) => {
            assert!(!refusal.to_string().contains(char::is_control));
            assert_eq!(refusal.reason.code(), "usage");
            None
        }
    }
}

/// A pattern that no request could ever match is a mistake, and refused as one.
fn fits_something(provider: Provider, typed: &str) {
    let (method, pattern) = typed.split_once(' ').unwrap();
    let path = pattern.replace("**", "a/b").replace('*', "x");
    if path.len() > MAX_EXAMPLE {
        return;
    }
    let routes = Routes::of(provider, vec![Route::judge(typed).unwrap()]);
    let judged = target::judge(path.as_bytes()).expect("what a route names is a target");
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    assert_ne!(
        routes.decide(&method, judged.path),
        Decision::NotFound,
        "{typed:?}"
    );
}

fn forwarded(provider: Provider, added: &[String], method: &Method, sent: &[u8]) {
    let judged = target::judge(sent);
    if oracle::is_harmless(sent) {
        assert!(judged.is_ok());
    }
    let Ok(Target { path, query }) = judged else {
        return;
    };
    let listed = oracle::routes(provider, added);
    let is_allowed = |path: &str| {
        listed.iter().any(|(known, pattern)| {
            *known == method.as_str()
                && oracle::fits(
                    pattern.as_bytes(),
                    path.as_bytes(),
                    provider != Provider::Gemini,
                )
        })
    };
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let expected = match path {
        "/healthz" if reads => Decision::Healthz,
        "/" if reads => Decision::Root,
        path if is_allowed(path) => Decision::Forward,
        _ => Decision::NotFound,
    };
    let typed = added.iter().map(|typed| Route::judge(typed).unwrap());
    let routes = Routes::of(provider, typed.collect());
    assert_eq!(routes.decide(method, path), expected);
    if expected != Decision::Forward {
        return;
    }
    // Whatever a server makes of it, it makes it of a path that is allowed.
    let (once, lax) = (oracle::once(path), oracle::lax(path));
    assert_eq!(once, lax);
    assert!(is_allowed(&lax), "{lax:?}");
    if let Ok(kept) = queries::check(provider, query) {
        written(path, kept.as_deref(), |again| {
            assert_eq!(routes.decide(method, again), Decision::Forward);
        });
    }
}

/// The target for the API is what was judged, beneath the prefix, and reads the same there.
fn written(path: &str, query: Option<&str>, decide: impl Fn(&str)) {
    for (url, prefix) in [
        ("https://api.example.com", ""),
        ("http://127.0.0.1:8080/gw/v2", "/gw/v2"),
    ] {
        let upstream = Upstream::judge(url).unwrap();
        let Ok(uri) = upstream.uri(path, query) else {
            continue;
        };
        let text = uri.to_string();
        let query_text = query.map_or(String::new(), |query| format!("?{query}"));
        assert_eq!(text, format!("{prefix}{path}{query_text}"));
        assert!(
            text.bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'#')
        );
        assert_eq!(uri.query(), query);
        let again = target::judge(text.as_bytes()).expect("what is sent would be let in");
        let beneath = again.path.strip_prefix(prefix).unwrap();
        assert_eq!((beneath, again.query), (path, query));
        decide(beneath);
    }
}
