//! What `--upstream` says.

use std::fmt;
use std::net::IpAddr;

use bytes::Bytes;
use http::Uri;
use http::uri::{InvalidUri, PathAndQuery};
use rustls::pki_types::ServerName;

use crate::refusal::{Reason, Refusal};

/// Whether TLS is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// TLS, always verified.
    Https,
    /// Without TLS: a loopback address only.
    Http,
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Scheme::Https => 443,
            Scheme::Http => 80,
        }
    }
}

/// Where the API is. Made by [`Upstream::judge`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// https anywhere, http for loopback.
    pub scheme: Scheme,
    /// A name or an address, lower case, without brackets.
    pub host: String,
    /// The TCP port, never 0.
    pub port: u16,
    /// What stands before every path: "" or "/gw", without a slash at its end.
    pub prefix: String,
}

impl Upstream {
    /// Judges what was typed: scheme, host, port and path (RFC 3986, section 3), and
    /// nothing else.
    ///
    /// # Errors
    /// `usage` for another scheme, http to what isn't loopback, userinfo, a query, a
    /// fragment, or a host, port or path that isn't one.
    pub fn judge(typed: &str) -> Result<Upstream, Refusal> {
        parse(typed).map_err(|why| {
            // The text isn't shown: it may hold a password.
            Refusal::new(Reason::Usage, "read --upstream")
                .about(why)
                .remedy("give it as https://HOST[:PORT][/PREFIX]; http:// for loopback only")
        })
    }

    /// The Host header (RFC 9110, section 7.2): without the scheme's own port.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            bracketed(&self.host)
        } else {
            self.host_and_port()
        }
    }

    /// `HOST:PORT`, as CONNECT wants it (RFC 9110, section 9.3.6).
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", bracketed(&self.host), self.port)
    }

    /// The request target in origin form, beneath the prefix.
    ///
    /// # Errors
    /// Where `path` or `query` holds a byte that no URI may.
    pub fn uri(&self, path: &str, query: Option<&str>) -> Result<Uri, InvalidUri> {
        let query = query.unwrap_or_default();
        let mut target = Vec::with_capacity(self.prefix.len() + path.len() + 1 + query.len());
        target.extend_from_slice(self.prefix.as_bytes());
        target.extend_from_slice(path.as_bytes());
        if !query.is_empty() {
            target.push(b'?');
            target.extend_from_slice(query.as_bytes());
        }
        PathAndQuery::from_maybe_shared(Bytes::from(target)).map(Uri::from)
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Https => "https",
            Scheme::Http => "http",
        };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

fn parse(typed: &str) -> Result<Upstream, &'static str> {
    let (scheme, rest) = typed.split_once("://").ok_or("it has no scheme")?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        _ => return Err("its scheme is neither https nor http"),
    };
    if rest.contains('@') {
        return Err("it has userinfo");
    }
    if rest.contains(['?', '#']) {
        return Err("it has a query or a fragment");
    }
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    let (host, port) = host_and_port(authority)?;
    let upstream = Upstream {
        scheme,
        port: port.unwrap_or(scheme.default_port()),
        prefix: prefix(path)?,
        host,
    };
    if scheme == Scheme::Http && !is_loopback(&upstream.host) {
        return Err("http is for a loopback address only");
    }
    Ok(upstream)
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), &'static str> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("a bracket isn't closed")?;
        if !host.parse::<IpAddr>().is_ok_and(|host| host.is_ipv6()) {
            return Err("what is in brackets isn't an IPv6 address");
        }
        match rest {
            "" => (host, None),
            _ => (
                host,
                Some(rest.strip_prefix(':').ok_or("its host isn't one")?),
            ),
        }
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    // What TLS can verify is what can be an upstream, and nothing stranger.
    if ServerName::try_from(host).is_err() || host.ends_with('.') {
        return Err("its host isn't one");
    }
    let port = match port {
        None => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(
            digits
                .parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or("its port isn't one")?,
        ),
        Some(_) => return Err("its port isn't one"),
    };
    Ok((host.to_ascii_lowercase(), port))
}

/// Plain segments only: what an escape or a dot segment would mean is the API's to
/// say, and one reading of every path is enough.
fn prefix(path: &str) -> Result<String, &'static str> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:".contains(&byte);
    for segment in path.split('/').skip(1) {
        if matches!(segment, "" | "." | "..") || !segment.bytes().all(plain) {
            return Err("its path isn't made of plain segments");
        }
    }
    Ok(path.to_owned())
}

/// 127.0.0.0/8, ::1, or the one name that is never looked up.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|host| host.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_taken_apart() {
        use Scheme::{Http, Https};
        for (typed, scheme, host, port, prefix, authority) in [
            (
                "https://api.example.com",
                Https,
                "api.example.com",
                443,
                "",
                "api.example.com",
            ),
            (
                "HTTPS://API.Example.com/",
                Https,
                "api.example.com",
                443,
                "",
                "api.example.com",
            ),
            ("https://a.b:443/gw", Https, "a.b", 443, "/gw", "a.b"),
            (
                "https://a.b:8443/gw/v2/",
                Https,
                "a.b",
                8443,
                "/gw/v2",
                "a.b:8443",
            ),
            (
                "https://10.0.0.1:80",
                Https,
                "10.0.0.1",
                80,
                "",
                "10.0.0.1:80",
            ),
            (
                "https://[2001:db8::1]",
                Https,
                "2001:db8::1",
                443,
                "",
                "[2001:db8::1]",
            ),
            (
                "http://localhost:1",
                Http,
                "localhost",
                1,
                "",
                "localhost:1",
            ),
            ("http://127.8.8.8", Http, "127.8.8.8", 80, "", "127.8.8.8"),
            (
                "http://[::1]:65535/a",
                Http,
                "::1",
                65535,
                "/a",
                "[::1]:65535",
            ),
        ] {
            let upstream = Upstream::judge(typed).expect(typed);
            let expected = Upstream {
                scheme,
                host: host.into(),
                port,
                prefix: prefix.into(),
            };
            assert_eq!(upstream, expected, "{typed}");
            assert_eq!(upstream.authority(), authority);
            assert_eq!(Upstream::judge(&upstream.to_string()), Ok(expected));
        }
    }

    #[test]
    fn anything_else_is_refused_and_not_repeated() {
        for typed in [
            "",
            "api.example.com",
            "https:/a.b",
            "https://",
            "https:///gw",
            "ftp://a.b",
            "http://a.b",
            "http://10.0.0.1",
            "http://localhost.example.com",
            "http://0.0.0.0",
            "http://[::ffff:127.0.0.1]",
            "http://127.1",
            "https://127.1",
            "https://0x7f.1",
            "https://user:s3cret@a.b",
            "https://s3cret@a.b",
            "https://a.b?key=s3cret",
            "https://a.b/#s3cret",
            "https://a.b:0",
            "https://a.b:65536",
            "https://a.b:",
            "https://a.b:+1",
            "https://a.b: 1",
            "https://a b",
            "https://a.b./",
            "https://[::1",
            "https://[::1]x",
            "https://[a.b]",
            "https://::1",
            "https://a.b/%2e",
            "https://a.b//",
            "https://a.b/x/../y",
            "https://a.b/./x",
            "https://a.b//x",
            "https://a.b/x y",
            "https://a.b/\u{e9}",
            "https://\u{e9}.b",
            "https://a.b\\c",
            "https://a.b\r\nX: y",
        ] {
            let refusal = Upstream::judge(typed).expect_err(typed);
            assert_eq!(refusal.reason, Reason::Usage);
            assert!(!refusal.to_string().contains("s3cret"), "{refusal}");
        }
    }

    #[test]
    fn targets_stand_beneath_the_prefix() {
        let plain = Upstream::judge("https://a.b").unwrap();
        let prefixed = Upstream::judge("https://a.b/gw/").unwrap();
        for (path, query, target) in [
            ("/v1/messages", None, "/v1/messages"),
            ("/v1/messages", Some(""), "/v1/messages"),
            ("/v1/m", Some("beta=true&a=%20"), "/v1/m?beta=true&a=%20"),
        ] {
            assert_eq!(plain.uri(path, query).unwrap().to_string(), target);
            let uri = prefixed.uri(path, query).unwrap();
            assert_eq!(uri.to_string(), format!("/gw{target}"));
            assert_eq!(uri.authority(), None);
        }
        assert!(plain.uri("/a b", None).is_err());
        assert!(plain.uri("/a", Some("\r\nX: y")).is_err());
    }
}
