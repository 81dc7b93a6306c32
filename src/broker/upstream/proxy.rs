//! The host's proxy, as `HTTPS_PROXY` and `NO_PROXY` name it.

use std::ffi::OsString;
use std::fmt;

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::failure::{Failure, Step};
use super::url::{Scheme, Upstream};
use crate::refusal::{Reason, Refusal};

/// The first of them that isn't empty counts.
const PROXY: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// What a proxy may say before the tunnel stands.
const MAX_HEAD: usize = 8 * 1024;

/// Through which proxy the API is reached, if through one. Its credentials are
/// never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxy(Option<Via>);

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Via {
    pub(super) host: String,
    pub(super) port: u16,
    authorization: Option<HeaderValue>,
}

impl Proxy {
    /// Judges the variables of the environment that concern `upstream`; `variable`
    /// reads one. http upstreams are loopback, so they are reached directly.
    ///
    /// # Errors
    /// `broker` for a proxy that isn't `http://[USER:PASSWORD@]HOST[:PORT]`: going
    /// around it would be worse than not going.
    pub fn judge(
        upstream: &Upstream,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Proxy, Refusal> {
        if upstream.scheme == Scheme::Http {
            return Ok(Proxy(None));
        }
        let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
        let Some((name, value)) = PROXY.iter().find_map(|name| Some((name, set(name)?))) else {
            return Ok(Proxy(None));
        };
        let excepted = NO_PROXY.iter().find_map(set).unwrap_or_default();
        let target = Uri::try_from(format!("https://{}/", upstream.host_and_port()));
        let refusal = || {
            Refusal::new(Reason::Broker, "read the host's proxy")
                .about(*name)
                .remedy("set it to http://[USER:PASSWORD@]HOST[:PORT], or name the upstream in NO_PROXY")
        };
        let (Ok(target), Some(value), Some(excepted)) = (target, value.to_str(), excepted.to_str())
        else {
            return Err(refusal());
        };
        // The matcher takes a value that it can't read for none, so that what is
        // excepted is asked apart.
        let any = Matcher::builder()
            .https("http://proxy")
            .no(excepted)
            .build();
        if any.intercept(&target).is_none() {
            return Ok(Proxy(None));
        }
        via(value, &target)
            .map(|via| Proxy(Some(via)))
            .ok_or_else(refusal)
    }

    pub(super) fn via(&self) -> Option<&Via> {
        self.0.as_ref()
    }
}

/// Nothing behind the authority: a value with more means something else.
fn via(value: &str, target: &Uri) -> Option<Via> {
    let (_, rest) = value.split_once("://").unwrap_or(("", value));
    if rest
        .strip_suffix('/')
        .unwrap_or(rest)
        .contains(['/', '?', '#'])
    {
        return None;
    }
    let found = Matcher::builder().https(value).build().intercept(target)?;
    if found.uri().scheme_str() != Some("http") {
        return None;
    }
    let (authority, host) = (found.uri().authority()?.as_str(), found.uri().host()?);
    let port = match authority.strip_prefix(host)? {
        "" => 80,
        _ => found.uri().port_u16()?,
    };
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let authorization = found.basic_auth().cloned();
    Some(Via {
        host,
        port,
        authorization,
    })
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Proxy(none)"),
            Some(via) => write!(f, "Proxy({}:{})", via.host, via.port),
        }
    }
}

impl Via {
    /// Asks the proxy for a tunnel (RFC 9110, section 9.3.6).
    ///
    /// # Errors
    /// `proxy` where its answer isn't 2xx, is too long, or has bytes behind it: the
    /// API speaks only when it is spoken to.
    pub(super) async fn tunnel<S>(&self, stream: &mut S, target: &str) -> Result<(), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
        if let Some(value) = &self.authorization {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(value.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        let failed = |error: std::io::Error| Failure::io(Step::Proxy, &error);
        stream.write_all(&request).await.map_err(failed)?;
        let mut head = Vec::with_capacity(512);
        loop {
            if let Some(end) = memchr::memmem::find(&head, b"\r\n\r\n") {
                return judge_answer(&head, end + 4);
            }
            if head.len() >= MAX_HEAD {
                return Err(Failure::new(Step::Proxy, "its answer is too long"));
            }
            let room = (MAX_HEAD - head.len()) as u64;
            if (&mut *stream)
                .take(room)
                .read_buf(&mut head)
                .await
                .map_err(failed)?
                == 0
            {
                return Err(Failure::new(Step::Proxy, "closed before its answer"));
            }
        }
    }
}

fn judge_answer(head: &[u8], end: usize) -> Result<(), Failure> {
    let status = match head {
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'1',
            b'.',
            b'0' | b'1',
            b' ',
            a,
            b,
            c,
            b' ' | b'\r',
            ..,
        ] => [*a, *b, *c],
        _ => return Err(Failure::new(Step::Proxy, "its answer isn't HTTP/1")),
    };
    if status[0] != b'2' || !status.iter().all(u8::is_ascii_digit) {
        let status = String::from_utf8_lossy(&status).into_owned();
        return Err(Failure::new(Step::Proxy, format!("it answered {status}")));
    }
    if end != head.len() {
        return Err(Failure::new(Step::Proxy, "bytes behind its answer"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
