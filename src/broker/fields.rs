//! Headers, on the way in and on the way out.
//!
//! A request's headers are chosen: for a named provider those that its API and its
//! clients know, for `custom` all but those that carry a credential, say where a
//! request came from, or belong to one connection (RFC 9110, section 7.6.1). Each
//! that a client brings its own key in is a way to send what it saw to another's
//! account, so what goes is a matter of what may leave, not of tidiness.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::front::Refused;
use super::provider::Provider;
use super::query;
use crate::sabotage::{Mechanism, stands};

/// A request that would mean something else without what can't be passed on. Its
/// framing was in order, so the connection stays.
pub(super) const fn bad_request(reason: &'static str) -> Refused {
    Refused::open(400, reason)
}

/// What every named provider gets. Other headers of browsers and HTTP libraries
/// (accept-language, sec-fetch-*, traceparent …) are defined by none of the APIs.
static EVERY: [HeaderName; 3] = [header::CONTENT_TYPE, header::ACCEPT, header::USER_AGENT];

/// What the SDKs of Anthropic and OpenAI say of themselves: language, version,
/// operating system, which retry it is. New ones come with new versions.
const SDK: &[u8] = b"x-stainless-";

/// Those of them that most requests have: a name that is there needn't be made.
static USUAL_OF_SDK: [HeaderName; 8] = [
    HeaderName::from_static("x-stainless-arch"),
    HeaderName::from_static("x-stainless-lang"),
    HeaderName::from_static("x-stainless-os"),
    HeaderName::from_static("x-stainless-package-version"),
    HeaderName::from_static("x-stainless-retry-count"),
    HeaderName::from_static("x-stainless-runtime"),
    HeaderName::from_static("x-stainless-runtime-version"),
    HeaderName::from_static("x-stainless-timeout"),
];

static ANTHROPIC: [HeaderName; 11] = [
    // The API's version, which it asks for, and what of it isn't stable yet.
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("anthropic-beta"),
    // The SDK's, where it runs in what looks like a browser (Electron, Deno).
    HeaderName::from_static("anthropic-dangerous-direct-browser-access"),
    HeaderName::from_static("idempotency-key"),
    // Claude Code: which program and which of its agents asks.
    HeaderName::from_static("x-app"),
    HeaderName::from_static("x-client-request-id"),
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("x-claude-code-agent-id"),
    HeaderName::from_static("x-claude-code-parent-agent-id"),
    HeaderName::from_static("anthropic-client-platform"),
    // Asks for more protection, so dropping it would take some away.
    HeaderName::from_static("x-anthropic-additional-protection"),
];

static OPENAI: [HeaderName; 18] = [
    // Which of the key's own organizations and projects is charged.
    HeaderName::from_static("openai-organization"),
    HeaderName::from_static("openai-project"),
    // What of the API isn't stable yet.
    HeaderName::from_static("openai-beta"),
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("x-client-request-id"),
    // Codex: which program asks, and which of its sessions, which prompts are cached by.
    HeaderName::from_static("originator"),
    HeaderName::from_static("version"),
    HeaderName::from_static("session_id"),
    HeaderName::from_static("session-id"),
    HeaderName::from_static("conversation_id"),
    HeaderName::from_static("thread-id"),
    HeaderName::from_static("x-codex-beta-features"),
    HeaderName::from_static("x-codex-parent-thread-id"),
    HeaderName::from_static("x-codex-turn-metadata"),
    // What the API handed out with the last answer, to find its cache again.
    HeaderName::from_static("x-codex-turn-state"),
    HeaderName::from_static("x-codex-window-id"),
    HeaderName::from_static("x-openai-subagent"),
    HeaderName::from_static("x-responsesapi-include-timing-metrics"),
];

static GEMINI: [HeaderName; 2] = [
    // The SDKs: which one asks, and how long it is going to wait.
    HeaderName::from_static("x-goog-api-client"),
    HeaderName::from_static("x-server-timeout"),
];

/// Each chooses a workspace, an account or a person within what the key reaches, which
/// no client does unless it is told to. The choice is not the command's; without it
/// the request would be charged to another than was asked for, so it is answered
/// with 400.
const ACCOUNTS: [&[u8]; 4] = [
    b"anthropic-user-profile-id",
    b"anthropic-workspace-id",
    b"chatgpt-account-id",
    b"x-goog-user-project",
];

/// What `custom` never gets from a client beside [`THE_BROKERS`], squeezed (see
/// [`squeezed`]).
const DENIED: [&[u8]; 12] = [
    // Credentials.
    b"apikey",
    b"authorization",
    b"cookie",
    b"xapikey",
    b"xgoogapikey",
    // Where a request came from, and what it is if not what its first line says.
    b"forwarded",
    b"via",
    b"xhttpmethod",
    b"xhttpmethodoverride",
    b"xmethodoverride",
    b"xoriginalurl",
    b"xrewriteurl",
];
/// All of x-forwarded-*.
const DENIED_PREFIX: &[u8] = b"xforwarded";

/// What the broker writes itself or what belongs to one connection, squeezed.
const THE_BROKERS: [&[u8]; 14] = [
    b"acceptencoding",
    b"connection",
    b"contentlength",
    b"expect",
    b"host",
    b"keepalive",
    b"proxyauthenticate",
    b"proxyauthorization",
    b"proxyconnection",
    b"te",
    b"trailer",
    b"transferencoding",
    b"upgrade",
    // Opens h2c (RFC 7540, section 3.2.1).
    b"http2settings",
];

/// The letters and digits of a name, in lower case: servers that hand headers and
/// queries to programs make one of `x-api-key`, `X_API_KEY` and `x.api.key`.
pub(super) fn squeezed(name: &[u8]) -> impl Iterator<Item = u8> {
    name.iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(u8::to_ascii_lowercase)
}

/// Whether `name` squeezed is one of `list`.
pub(super) fn is_one_of(name: &[u8], list: &[&[u8]]) -> bool {
    list.iter()
        .any(|one| squeezed(name).eq(one.iter().copied()))
}

/// Whether a header can't carry a key since the broker writes it itself, or it
/// belongs to one connection, or the content's own reading hangs on it.
pub(super) fn is_the_brokers(name: &str) -> bool {
    let name = name.as_bytes();
    is_one_of(name, &THE_BROKERS) || is_one_of(name, &[b"contenttype", b"contentencoding"])
}

/// The headers for the API: chosen from `fields` (name as sent, value), in their
/// order, with none of the client's credentials, and without the key and Host.
/// `auth` is the header that the key of `custom` goes in, `connection` what the
/// client's Connection fields name.
///
/// # Errors
/// 400: a known field comes twice, is named by Connection, or holds what no header
/// can; content that is encoded (the named providers' aren't asked for it); a choice
/// of account.
pub fn outgoing<'a>(
    provider: Provider,
    auth: Option<&HeaderName>,
    fields: impl Iterator<Item = (&'a [u8], Bytes)>,
    connection: &[&[u8]],
) -> Result<HeaderMap, Refused> {
    let mut headers = HeaderMap::with_capacity(16);
    match provider {
        Provider::Custom => all_but_denied(&mut headers, auth, fields, connection)?,
        named => allowed(&mut headers, named, fields, connection)?,
    }
    // Answers are looked through for the key, which can't be seen in a compressed one.
    headers.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );
    Ok(headers)
}

/// Takes over what a named provider knows.
fn allowed<'a>(
    headers: &mut HeaderMap,
    provider: Provider,
    fields: impl Iterator<Item = (&'a [u8], Bytes)>,
    connection: &[&[u8]],
) -> Result<(), Refused> {
    if connection
        .iter()
        .any(|name| known(provider, name).is_some())
    {
        return Err(bad_request("connection-names-field"));
    }
    for (name, value) in fields {
        if let Some(name) = known(provider, name) {
            if headers.insert(name, held(value)?).is_some() {
                return Err(bad_request("field-twice"));
            }
        } else if ACCOUNTS.iter().any(|one| name.eq_ignore_ascii_case(one)) {
            return Err(bad_request("account-choice"));
        } else if name.eq_ignore_ascii_case(b"content-encoding")
            && !value.eq_ignore_ascii_case(b"identity")
        {
            return Err(bad_request("content-encoding"));
        } else if !stands(Mechanism::ChosenHeaders)
            && let Ok(name) = HeaderName::from_bytes(name)
        {
            headers.append(name, held(value)?);
        }
    }
    Ok(())
}

/// The name under which a field goes to `provider`, if it does.
fn known(provider: Provider, name: &[u8]) -> Option<HeaderName> {
    let own: &[HeaderName] = match provider {
        Provider::Anthropic => &ANTHROPIC,
        Provider::OpenAi => &OPENAI,
        Provider::Gemini => &GEMINI,
        Provider::Custom => &[],
    };
    let of_sdk = name
        .get(..SDK.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(SDK));
    let is_it = |one: &&HeaderName| name.eq_ignore_ascii_case(one.as_str().as_bytes());
    if of_sdk {
        let usual = USUAL_OF_SDK.iter().find(is_it).cloned();
        return usual.or_else(|| HeaderName::from_bytes(name).ok());
    }
    own.iter().chain(&EVERY).find(is_it).cloned()
}

/// Takes over what `custom` isn't denied.
fn all_but_denied<'a>(
    headers: &mut HeaderMap,
    auth: Option<&HeaderName>,
    fields: impl Iterator<Item = (&'a [u8], Bytes)>,
    connection: &[&[u8]],
) -> Result<(), Refused> {
    // Nothing is known of the API, but without its type it can't read the content.
    let of_content: [&[u8]; 2] = [b"content-type", b"content-encoding"];
    if connection
        .iter()
        .any(|name| of_content.iter().any(|one| name.eq_ignore_ascii_case(one)))
    {
        return Err(bad_request("connection-names-field"));
    }
    for (name, value) in fields {
        let for_the_key =
            auth.is_some_and(|auth| squeezed(name).eq(squeezed(auth.as_str().as_bytes())));
        let denied = for_the_key
            || is_one_of(name, &DENIED)
            || is_one_of(name, &THE_BROKERS)
            || squeezed(name)
                .take(DENIED_PREFIX.len())
                .eq(DENIED_PREFIX.iter().copied())
            || connection.iter().any(|one| name.eq_ignore_ascii_case(one));
        if !denied || !stands(Mechanism::ChosenHeaders) {
            let name = HeaderName::from_bytes(name).map_err(|_| bad_request("field-name"))?;
            headers.append(name, held(value)?);
        }
    }
    Ok(())
}

/// The value as it came; not copied.
fn held(value: Bytes) -> Result<HeaderValue, Refused> {
    HeaderValue::from_maybe_shared(value).map_err(|_| bad_request("field-value"))
}

/// Every credential that a request presents: x-api-key, Authorization (of a Bearer
/// the token alone), x-goog-api-key, and `?key=`, decoded. All must be the run's
/// token, so one that can't be is given too, as an empty one.
pub fn presented<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    query: Option<&'a str>,
) -> impl Iterator<Item = Cow<'a, [u8]>> {
    let in_fields = fields.filter_map(|(name, value)| {
        if name.eq_ignore_ascii_case(b"authorization") {
            Some(Cow::Borrowed(bearer(value)))
        } else {
            (name.eq_ignore_ascii_case(b"x-api-key")
                || name.eq_ignore_ascii_case(b"x-goog-api-key"))
            .then_some(Cow::Borrowed(value))
        }
    });
    in_fields.chain(query::keys(query.unwrap_or_default()))
}

/// The token of `Bearer TOKEN` (RFC 6750, section 2.1; the scheme in any case). Of
/// another scheme, or none, what no token is.
fn bearer(value: &[u8]) -> &[u8] {
    match value.split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => token.trim_ascii(),
        _ => b"",
    }
}

/// What of an answer's head belongs to the broker's own connection, or would reach
/// past this answer: a cookie to the next request, Alt-Svc to another door. The
/// relay writes its own framing.
static DROPPED: [HeaderName; 13] = [
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-authentication-info"),
    header::SET_COOKIE,
    HeaderName::from_static("set-cookie2"),
    header::ALT_SVC,
];

/// Leaves in `headers`, an answer's, what is relayed.
///
/// # Errors
/// Why the answer can't be relayed, a short word for the log: its content is encoded,
/// so that the key couldn't be seen in it, or it is framed as nothing here reads.
pub fn incoming(headers: &mut HeaderMap) -> Result<(), &'static str> {
    let only = |name: &HeaderName, wanted: &[u8]| {
        let mut values = headers.get_all(name).iter();
        values.all(|value| value.as_bytes().eq_ignore_ascii_case(wanted))
    };
    if !only(&header::CONTENT_ENCODING, b"identity") && stands(Mechanism::PlainAnswers) {
        return Err("answer-encoded");
    }
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter().count();
    if codings > 1 || !only(&header::TRANSFER_ENCODING, b"chunked") {
        return Err("answer-framing");
    }
    if !stands(Mechanism::ChosenAnswerHeaders) {
        return Ok(());
    }
    for name in &DROPPED {
        // Compared, a few names cost less than one that is looked up.
        if headers.keys().any(|present| present == name) {
            headers.remove(name);
        }
    }
    let connection: Vec<_> = headers
        .get_all(header::CONNECTION)
        .iter()
        .cloned()
        .collect();
    for value in &connection {
        drop_named(headers, value.as_bytes());
    }
    headers.remove(header::CONNECTION);
    Ok(())
}

/// Removes what a Connection field names.
fn drop_named(headers: &mut HeaderMap, connection: &[u8]) {
    for name in connection.split(|byte| *byte == b',') {
        if let Ok(name) = str::from_utf8(name.trim_ascii()) {
            headers.remove(name);
        }
    }
}

#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod tests;
