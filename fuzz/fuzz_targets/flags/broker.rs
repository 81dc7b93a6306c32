//! The broker's own flags.

use groom_ns::broker::provider::{AuthHeader, Injection, Provider};
use groom_ns::broker::route::Route;
use groom_ns::broker::upstream::url::{Scheme, Upstream};
use groom_ns::cli::BrokerArgs;
use http::HeaderMap;

use crate::said;

/// Each value by itself.
pub fn check(args: &BrokerArgs) {
    if let Some(typed) = &args.upstream {
        upstream(typed);
    }
    if let Some(typed) = &args.auth_header {
        auth_header(typed);
    }
    for typed in &args.allow_routes {
        match Route::judge(typed) {
            Ok(route) => assert_eq!(&route.to_string(), typed),
            Err(refusal) => said::refusal(&refusal),
        }
    }
}

/// As if the key were on standard input, and nothing else named.
pub fn without_files(args: &mut BrokerArgs) {
    args.upstream_ca = None;
    args.key.key_stdin = true;
    args.key.key_file = None;
    args.key.key_fd = None;
    args.key.key_env = None;
}

fn upstream(typed: &str) {
    let judged = match Upstream::judge(typed) {
        Ok(judged) => judged,
        Err(refusal) => return said::refusal(&refusal),
    };
    let text = judged.to_string();
    assert_eq!(Upstream::judge(&text).as_ref(), Ok(&judged), "{text:?}");
    assert!(
        text.bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"@?#%\\".contains(&byte))
    );
    assert!(judged.port != 0 && judged.host == judged.host.to_ascii_lowercase());
    if judged.scheme == Scheme::Http {
        let is_loopback = judged.host.starts_with("127.") || judged.host == "localhost";
        assert!(is_loopback || judged.host.contains("::"), "{text:?}");
    }
    let segments = judged.prefix.split('/').skip(1);
    assert!(
        segments
            .into_iter()
            .all(|segment| !matches!(segment, "" | "." | ".."))
    );
    // A reader of URLs that knows nothing of ours reads the same.
    let uri: http::Uri = text.parse().expect("a URI");
    assert_eq!(
        uri.host().map(|host| host.trim_matches(['[', ']'])),
        Some(&judged.host[..])
    );
    assert_eq!(uri.path().trim_end_matches('/'), judged.prefix);
}

const KEY: &str = "sk-0123456789";

fn auth_header(typed: &str) {
    let (name, prefix) = typed.split_once(':').unwrap_or((typed, ""));
    let prefix = prefix.trim_matches([' ', '\t']);
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_token) && !is_reserved(name);
    let expected = is_name && prefix.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let judged = AuthHeader::judge(typed);
    assert_eq!(judged.is_ok(), expected, "{typed:?}");
    match judged {
        Err(refusal) => said::refusal(&refusal),
        Ok(auth) => {
            assert!(auth.name().as_str().eq_ignore_ascii_case(name));
            let injection = Injection::new(Provider::Custom, Some(&auth), KEY.as_bytes());
            let Ok(injection) = injection else {
                return;
            };
            let mut headers = HeaderMap::new();
            injection.inject(&mut headers);
            let apart = if prefix.ends_with(|c: char| c.is_ascii_alphanumeric()) {
                " "
            } else {
                ""
            };
            let value = format!("{prefix}{apart}{KEY}");
            assert_eq!(
                (headers.len(), headers[auth.name()].as_bytes()),
                (1, value.as_bytes())
            );
        }
    }
}

/// What is the broker's to write, in any spelling.
fn is_reserved(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    [
        "acceptencoding",
        "connection",
        "contentencoding",
        "contentlength",
        "contenttype",
        "expect",
        "host",
        "http2settings",
        "keepalive",
        "proxyauthenticate",
        "proxyauthorization",
        "proxyconnection",
        "te",
        "trailer",
        "transferencoding",
        "upgrade",
    ]
    .contains(&&plain.to_ascii_lowercase()[..])
}
