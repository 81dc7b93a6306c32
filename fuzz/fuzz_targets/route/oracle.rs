//! The contract of docs/broker.md once more, with no thought for speed. Nothing here is
//! taken from the code that it judges.

use groom_ns::broker::provider::Provider;

pub const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Every method and pattern that is open.
pub fn routes(provider: Provider, added: &[String]) -> Vec<(String, String)> {
    let own: &[&str] = match provider {
        Provider::Anthropic => &[
            "POST /v1/messages",
            "POST /v1/messages/count_tokens",
            "GET /v1/models",
            "GET /v1/models/*",
        ],
        Provider::OpenAi => &[
            "POST /v1/responses",
            "POST /v1/chat/completions",
            "GET /v1/models",
            "GET /v1/models/*",
        ],
        Provider::Gemini => &[
            "POST /v1beta/models/*:generateContent",
            "POST /v1beta/models/*:streamGenerateContent",
            "POST /v1beta/models/*:countTokens",
            "GET /v1beta/models",
            "GET /v1beta/models/*",
            "POST /v1/models/*:generateContent",
            "POST /v1/models/*:streamGenerateContent",
            "POST /v1/models/*:countTokens",
            "GET /v1/models",
            "GET /v1/models/*",
        ],
        Provider::Custom => &[
            "GET /v1/**",
            "HEAD /v1/**",
            "POST /v1/**",
            "PUT /v1/**",
            "PATCH /v1/**",
            "DELETE /v1/**",
        ],
    };
    let all = own.iter().map(ToString::to_string);
    all.chain(added.iter().cloned())
        .map(|line| {
            let (method, pattern) = line.split_once(' ').unwrap();
            (method.to_owned(), pattern.to_owned())
        })
        .collect()
}

/// Byte by byte, with every length of an ID tried.
pub fn fits(pattern: &[u8], path: &[u8], colons: bool) -> bool {
    match pattern {
        [] => path.is_empty(),
        b"/**" => path.len() > 1 && path[0] == b'/' && path[1] != b'/',
        [b'*', pattern @ ..] => (1..=path.len().min(128))
            .any(|length| is_id(&path[..length], colons) && fits(pattern, &path[length..], colons)),
        [byte, pattern @ ..] => path.first() == Some(byte) && fits(pattern, &path[1..], colons),
    }
}

fn is_id(sent: &[u8], colons: bool) -> bool {
    let sent = String::from_utf8_lossy(sent);
    let plain = sent
        .replace("%40", "@")
        .replace("%3A", ":")
        .replace("%3a", ":");
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c) || (colons && c == ':');
    plain.chars().all(is_plain) && plain.chars().any(|c| c != '.')
}

/// Whether `--allow-route` takes it.
pub fn is_route(typed: &str) -> bool {
    let Some((method, path)) = typed.split_once(' ') else {
        return false;
    };
    let mut segments: Vec<&str> = path.split('/').collect();
    if !METHODS.contains(&method) || segments.len() < 2 || !segments.remove(0).is_empty() {
        return false;
    }
    if segments.last() == Some(&"**") {
        segments.pop();
    }
    segments.iter().all(|segment| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,=:@".contains(c);
        segment.chars().all(is_plain)
            && !segment.chars().all(|c| c == '.')
            && segment.chars().filter(|c| *c == '*').count() < 2
    })
}

/// Letters and digits between single slashes: nobody could take offence at it.
pub fn is_harmless(target: &[u8]) -> bool {
    target.len() > 1
        && target[0] == b'/'
        && !target.ends_with(b"/")
        && target.windows(2).all(|two| two != b"//")
        && target
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'/')
}

/// A path as a careful server reads it: decoded once, a slash at the end cut off.
pub fn once(path: &str) -> String {
    let decoded = decode(path.as_bytes());
    let decoded = String::from_utf8(decoded).expect("decodes to UTF-8");
    decoded.strip_suffix('/').unwrap_or(&decoded).to_owned()
}

/// As the most careless one does: decoded for as long as there is something to decode,
/// cut at NULs and line ends, backslashes turned, parameters cut off, then resolved.
pub fn lax(path: &str) -> String {
    let mut text = path.as_bytes().to_vec();
    for _ in 0..4 {
        text = decode(&text);
    }
    let cut = |byte: &u8| {
        *byte == 0 || *byte == b'\r' || *byte == b'\n' || *byte == b'#' || *byte == b'?'
    };
    text.truncate(text.iter().position(cut).unwrap_or(text.len()));
    let text = String::from_utf8_lossy(&text).replace('\\', "/");
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        match segment.split(';').next().unwrap() {
            "" | "." => {}
            ".." => drop(segments.pop()),
            name => segments.push(name),
        }
    }
    format!("/{}", segments.join("/"))
}

/// Percent-decoded; a `%` without two digits stays.
pub fn decode(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| text[at] == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits {
            Some(digits) => {
                decoded.push(u8::from_str_radix(digits, 16).unwrap());
                at += 3;
            }
            None => {
                decoded.push(text[at]);
                at += 1;
            }
        }
    }
    decoded
}
