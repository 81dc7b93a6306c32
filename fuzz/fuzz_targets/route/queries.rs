//! What goes on of a query.

use groom_ns::broker::front::Refused;
use groom_ns::broker::provider::Provider;
use groom_ns::broker::query;

use crate::oracle::decode;

/// Judges the query and the judgement.
pub fn check(provider: Provider, sent: Option<&str>) -> Result<Option<String>, Refused> {
    let Some(sent) = sent else {
        return Ok(None);
    };
    let kept = query::outgoing(provider, sent);
    assert_eq!(kept.is_err(), is_refused(provider, sent), "{sent:?}");
    let kept = kept?;
    let expected: Vec<&str> = pairs(sent)
        .filter(|pair| is_kept(provider, &name(pair)))
        .collect();
    assert_eq!(kept.as_deref().unwrap_or_default(), expected.join("&"));
    if let Some(kept) = &kept {
        assert_eq!(query::outgoing(provider, kept), Ok(Some(kept.clone())));
        no_credentials(kept);
    }
    Ok(kept)
}

fn pairs(query: &str) -> impl Iterator<Item = &str> {
    query.split('&').filter(|pair| !pair.is_empty())
}

fn name(pair: &str) -> Vec<u8> {
    let name = pair.split('=').next().unwrap();
    decode(name.replace('+', " ").as_bytes())
}

fn value(pair: &str) -> Vec<u8> {
    let value = pair.split_once('=').map_or("", |(_, value)| value);
    decode(value.replace('+', " ").as_bytes())
}

fn is_refused(provider: Provider, sent: &str) -> bool {
    let broken = |text: &str| {
        text.split('%').skip(1).any(|after| {
            !(after.len() >= 2 && after.bytes().take(2).all(|digit| digit.is_ascii_hexdigit()))
        })
    };
    let hides = |pair: &str| {
        name(pair)
            .iter()
            .any(|byte| *byte < b' ' || *byte == 0x7f || *byte == b'%')
    };
    let twice = |pair: &str| {
        let same = pairs(sent).filter(|other| name(other) == name(pair));
        is_known(provider, &name(pair)) && same.count() > 1
    };
    let strange = |pair: &str| {
        provider == Provider::Gemini
            && name(pair) == b"alt"
            && !matches!(&value(pair)[..], b"sse" | b"json")
    };
    sent.contains(';')
        || broken(sent)
        || pairs(sent).any(|pair| hides(pair) || twice(pair) || strange(pair))
}

fn is_known(provider: Provider, name: &[u8]) -> bool {
    let known = match provider {
        Provider::Anthropic => "beta limit before_id after_id",
        Provider::OpenAi => "after before limit order stream starting_after include_obfuscation",
        Provider::Gemini => "alt pageSize pageToken",
        Provider::Custom => "",
    };
    known
        .split_ascii_whitespace()
        .any(|one| one.as_bytes() == name)
}

fn is_kept(provider: Provider, name: &[u8]) -> bool {
    match provider {
        Provider::Custom => !is_credential(name),
        _ => is_known(provider, name),
    }
}

fn is_credential(name: &[u8]) -> bool {
    let plain: Vec<u8> = name
        .iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .copied()
        .collect();
    let plain = plain.to_ascii_lowercase();
    [
        "key",
        "apikey",
        "accesstoken",
        "oauthtoken",
        "authorization",
        "proxyauthorization",
        "xapikey",
        "xgoogapikey",
        "httpheaders",
        "httpmethod",
    ]
    .iter()
    .any(|denied| denied.as_bytes() == plain)
}

/// A server that divides at `;` too, and decodes twice, finds none either.
fn no_credentials(kept: &str) {
    assert!(
        kept.bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
    );
    for pair in kept.split(['&', ';']) {
        let name = name(pair);
        assert!(
            !is_credential(&name) && !is_credential(&decode(&name)),
            "{pair:?}"
        );
    }
}
