//! Why an exchange with the API failed.

use std::error::Error;
use std::fmt;
use std::io;

use nix::errno::Errno;

use super::body::Aborted;

/// Where it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Looking its name up.
    Name,
    /// TCP.
    Connect,
    /// The proxy's CONNECT.
    Proxy,
    /// The handshake, certificates included.
    Tls,
    /// Between the request's first byte and the answer's head.
    Request,
    /// In the answer's body.
    Answer,
}

impl Step {
    /// A short, stable word for the log.
    pub fn code(self) -> &'static str {
        match self {
            Step::Name => "name",
            Step::Connect => "connect",
            Step::Proxy => "proxy",
            Step::Tls => "tls",
            Step::Request => "request",
            Step::Answer => "answer",
        }
    }
}

/// A step and its cause, in words that hold neither a secret nor a byte that a
/// terminal or a log could obey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    step: Step,
    cause: String,
    timed_out: bool,
}

/// Longer causes are cut: the peer has a say in some of them.
const MAX_CAUSE: usize = 200;

impl Failure {
    /// `cause` is made printable.
    pub fn new(step: Step, cause: impl fmt::Display) -> Failure {
        let printable = |c: &char| c.is_ascii_graphic() || *c == ' ';
        let cause = cause
            .to_string()
            .chars()
            .filter(printable)
            .take(MAX_CAUSE)
            .collect();
        Failure {
            step,
            cause,
            timed_out: false,
        }
    }

    /// Time ran out in `step`.
    pub fn timeout(step: Step) -> Failure {
        Failure {
            step,
            cause: "timed out".to_owned(),
            timed_out: true,
        }
    }

    /// The errno's name, or what TLS says, or the kind of error.
    pub fn io(step: Step, error: &io::Error) -> Failure {
        if error.raw_os_error() == Some(libc::ETIMEDOUT) {
            return Failure::timeout(step);
        }
        Failure::new(step, io_cause(error))
    }

    /// hyper's own word for it, or what its stream said.
    pub fn hyper(step: Step, error: &hyper::Error) -> Failure {
        let mut source = error.source();
        while let Some(inner) = source {
            if let Some(aborted) = inner.downcast_ref::<Aborted>() {
                return Failure::new(step, aborted);
            }
            if let Some(inner) = inner.downcast_ref::<io::Error>() {
                return Failure::io(step, inner);
            }
            source = inner.source();
        }
        Failure::new(step, error)
    }

    /// 502, or 504 for a time-out (RFC 9110, section 15.6).
    pub fn status(&self) -> u16 {
        if self.timed_out { 504 } else { 502 }
    }

    /// Where it failed.
    pub fn step(&self) -> Step {
        self.step
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step.code(), self.cause)
    }
}

impl Error for Failure {}

fn io_cause(error: &io::Error) -> String {
    if let Some(errno) = error.raw_os_error() {
        return format!("{:?}", Errno::from_raw(errno));
    }
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        Some(error) => tls_cause(error),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "closed too early".to_owned(),
        None => match error.get_ref() {
            Some(inner) => inner.to_string(),
            None => error.kind().to_string(),
        },
    }
}

/// The usual ones in plain words; rustls's own show times and names of every kind.
fn tls_cause(error: &rustls::Error) -> String {
    use rustls::CertificateError as Bad;
    let certificate = match error {
        rustls::Error::InvalidCertificate(certificate) => certificate,
        rustls::Error::AlertReceived(alert) => return format!("the other side's alert {alert:?}"),
        other => return other.to_string(),
    };
    let what = match certificate {
        Bad::Expired | Bad::ExpiredContext { .. } => "expired",
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => "not valid yet",
        Bad::UnknownIssuer => "of an unknown issuer",
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => "of another name",
        Bad::Revoked => "revoked",
        other => return format!("certificate: {other}"),
    };
    format!("certificate {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_and_cause_without_control_bytes() {
        let errno = |errno: i32| io::Error::from_raw_os_error(errno);
        let tls = io::Error::new(
            io::ErrorKind::InvalidData,
            rustls::Error::InvalidCertificate(rustls::CertificateError::Expired),
        );
        for (failure, shown, status) in [
            (
                Failure::io(Step::Connect, &errno(libc::ECONNREFUSED)),
                "connect: ECONNREFUSED",
                502,
            ),
            (
                Failure::io(Step::Connect, &errno(libc::ETIMEDOUT)),
                "connect: timed out",
                504,
            ),
            (
                Failure::io(Step::Tls, &tls),
                "tls: certificate expired",
                502,
            ),
            (Failure::timeout(Step::Name), "name: timed out", 504),
            (
                Failure::new(Step::Proxy, "a\r\n\x1b[31m\u{202e}b"),
                "proxy: a[31mb",
                502,
            ),
        ] {
            assert_eq!(
                (failure.to_string().as_str(), failure.status()),
                (shown, status)
            );
        }
        let long = Failure::new(Step::Answer, "x".repeat(1000)).to_string();
        assert_eq!(long.len(), "answer: ".len() + MAX_CAUSE);
    }
}
