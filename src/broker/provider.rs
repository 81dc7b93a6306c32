//! The providers: where each one's API is, what the command is told, and where the key goes.

use std::fmt;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use self::VariableValue::{BaseUrl, Fixed, Token};
use super::fields;
use super::key::no_page;
use crate::refusal::{Reason, Refusal};
use crate::sys::secret::SecretPage;

/// The API behind the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The Claude API.
    Anthropic,
    /// The OpenAI API.
    OpenAi,
    /// The Gemini API (the one that takes a key, not Vertex AI).
    Gemini,
    /// Any API that takes its key in one header.
    Custom,
}

/// A variable that the command finds set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it is set to.
    pub value: VariableValue,
}

/// The value of a [`Variable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableValue {
    /// The broker's own URL, without a trailing slash, and then this.
    BaseUrl(&'static str),
    /// The run's token, which stands for the key.
    Token,
    /// This.
    Fixed(&'static str),
}

const fn variable(name: &'static str, value: VariableValue) -> Variable {
    Variable { name, value }
}

const ANTHROPIC: &[Variable] = &[
    variable("ANTHROPIC_BASE_URL", BaseUrl("")),
    variable("ANTHROPIC_API_KEY", Token),
    // Telemetry, updates and error reports go to other hosts, which can't be reached.
    variable("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", Fixed("1")),
];
const OPENAI: &[Variable] = &[
    variable("OPENAI_BASE_URL", BaseUrl("/v1")),
    // The name that the first version of the Python SDK read, and others still do.
    variable("OPENAI_API_BASE", BaseUrl("/v1")),
    variable("OPENAI_API_KEY", Token),
];
const GEMINI: &[Variable] = &[
    variable("GOOGLE_GEMINI_BASE_URL", BaseUrl("")),
    variable("GEMINI_API_KEY", Token),
];
const CUSTOM: &[Variable] = &[
    variable("GROOM_NS_BROKER_URL", BaseUrl("")),
    variable("GROOM_NS_BROKER_TOKEN", Token),
];

impl Provider {
    /// Every provider, in the order of the documentation.
    pub const ALL: [Provider; 4] = [
        Provider::Anthropic,
        Provider::OpenAi,
        Provider::Gemini,
        Provider::Custom,
    ];

    /// The name as it is typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Anthropic => "anthropic",
            Provider::OpenAi => "openai",
            Provider::Gemini => "gemini",
            Provider::Custom => "custom",
        }
    }

    /// The URL of the API; none for `custom`, whose user gives one.
    pub fn default_upstream(self) -> Option<&'static str> {
        match self {
            Provider::Anthropic => Some("https://api.anthropic.com"),
            Provider::OpenAi => Some("https://api.openai.com"),
            Provider::Gemini => Some("https://generativelanguage.googleapis.com"),
            Provider::Custom => None,
        }
    }

    /// What the run's token begins with: clients look at the beginning of a key to
    /// tell whose it is, and a reader of a log should see that this one is none.
    pub fn token_prefix(self) -> &'static str {
        match self {
            Provider::Anthropic => "sk-ant-groom-",
            Provider::OpenAi => "sk-groom-",
            Provider::Gemini | Provider::Custom => "groom-",
        }
    }

    /// The variables that lead the command to the broker.
    pub fn variables(self) -> &'static [Variable] {
        match self {
            Provider::Anthropic => ANTHROPIC,
            Provider::OpenAi => OPENAI,
            Provider::Gemini => GEMINI,
            Provider::Custom => CUSTOM,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `--auth-header`: the header that an API takes its key in, and what stands there
/// before the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthHeader {
    name: HeaderName,
    prefix: String,
}

impl AuthHeader {
    /// Judges `NAME[:PREFIX]`. Blanks around the prefix go. A prefix that ends in a
    /// letter or a digit is a scheme and stands apart from the key by a space
    /// (`Authorization:Bearer`); another touches it (`Authorization:Token token=`).
    ///
    /// # Errors
    /// `usage` where NAME is no header name (RFC 9110, section 5.1) or one that the
    /// broker writes itself or never sends, or PREFIX has a byte that isn't ASCII.
    /// What was typed isn't repeated: it may be the key.
    pub fn judge(typed: &str) -> Result<AuthHeader, Refusal> {
        let refusal = || Refusal::new(Reason::Usage, "read --auth-header");
        let (name, prefix) = typed.split_once(':').unwrap_or((typed, ""));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            refusal().remedy("give NAME or NAME:PREFIX, with a NAME of letters, digits and `-`")
        })?;
        if fields::is_the_brokers(name.as_str()) {
            return Err(refusal().remedy("give the header that the API takes its key in"));
        }
        let mut prefix = prefix.trim_matches([' ', '\t']).to_owned();
        if !prefix.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(refusal().remedy("give a PREFIX of printable ASCII"));
        }
        if prefix.ends_with(|last: char| last.is_ascii_alphanumeric()) {
            prefix.push(' ');
        }
        Ok(AuthHeader { name, prefix })
    }

    /// The header, in lower case.
    pub fn name(&self) -> &HeaderName {
        &self.name
    }
}

static X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
static X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
static ANTHROPIC_BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// What an OAuth token of Anthropic's begins with.
const OAUTH_TOKEN: &[u8] = b"sk-ant-oat";
/// Without it the Claude API takes no OAuth token.
const OAUTH_BETA: &str = "oauth-2025-04-20";

/// Puts the key into requests. Holds a copy of it, which is overwritten when the
/// last request that carries it and this are dropped. `Debug` shows none of it.
#[derive(Clone, Debug)]
pub struct Injection {
    name: HeaderName,
    value: HeaderValue,
    beta: Option<&'static str>,
}

impl Injection {
    /// How `provider` takes `key`; `auth` is for `custom`, and for it alone.
    ///
    /// # Errors
    /// `usage` where `auth` and the provider don't go together, `key` where a header
    /// can't carry the key.
    pub fn new(
        provider: Provider,
        auth: Option<&AuthHeader>,
        key: &[u8],
    ) -> Result<Injection, Refusal> {
        let oauth = provider == Provider::Anthropic && key.starts_with(OAUTH_TOKEN);
        let (name, prefix) = match (provider, auth) {
            (Provider::Anthropic, None) if oauth => (&AUTHORIZATION, "Bearer "),
            (Provider::Anthropic, None) => (&X_API_KEY, ""),
            (Provider::OpenAi, None) => (&AUTHORIZATION, "Bearer "),
            (Provider::Gemini, None) => (&X_GOOG_API_KEY, ""),
            (Provider::Custom, Some(auth)) => (&auth.name, auth.prefix.as_str()),
            (Provider::Custom, None) => {
                return Err(Refusal::new(Reason::Usage, "place the key")
                    .remedy("give --auth-header NAME[:PREFIX]: custom has no header of its own"));
            }
            (_, Some(_)) => {
                return Err(Refusal::new(Reason::Usage, "place the key")
                    .remedy("--auth-header is for custom: leave it out"));
            }
        };
        Ok(Injection {
            name: name.clone(),
            value: sensitive(prefix, key)?,
            beta: oauth.then_some(OAUTH_BETA),
        })
    }

    /// Puts the key into `headers`, in the place of whatever stands under its name.
    pub fn inject(&self, headers: &mut HeaderMap) {
        headers.insert(self.name.clone(), self.value.clone());
        if let Some(flag) = self.beta {
            merge_beta(headers, flag);
        }
    }
}

/// `prefix` and `key` as one value, in a page for a secret: it lives as long as the
/// broker.
fn sensitive(prefix: &str, key: &[u8]) -> Result<HeaderValue, Refusal> {
    let mut page = SecretPage::new().map_err(no_page)?;
    for part in [prefix.as_bytes(), key] {
        page.fill(|free| {
            let length = part.len().min(free.len());
            free[..length].copy_from_slice(&part[..length]);
            length
        });
    }
    let mut value = HeaderValue::from_maybe_shared(Bytes::from_owner(page)).map_err(|_| {
        Refusal::new(Reason::Key, "place the key").remedy("the key has a byte no header can carry")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Adds `flag` to the comma-separated list of `anthropic-beta` unless it is there.
fn merge_beta(headers: &mut HeaderMap, flag: &str) {
    let present = headers
        .get(&ANTHROPIC_BETA)
        .map_or(&b""[..], |value| value.as_bytes());
    if present
        .split(|byte| *byte == b',')
        .any(|one| one.trim_ascii() == flag.as_bytes())
    {
        return;
    }
    let joined: &[&[u8]] = match present {
        [] => &[flag.as_bytes()],
        _ => &[present, b",", flag.as_bytes()],
    };
    // Two values with a comma between them are a value.
    if let Ok(merged) = HeaderValue::from_maybe_shared(Bytes::from(joined.concat())) {
        headers.insert(ANTHROPIC_BETA.clone(), merged);
    }
}

#[cfg(test)]
mod tests;
