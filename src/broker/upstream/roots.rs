//! Whom TLS trusts.

use std::env;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::refusal::{Reason, Refusal};
use crate::sabotage;

/// The variables that name the system's roots (openssl's), which rustls_native_certs obeys.
const ROOT_VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The certificates of an `--upstream-ca` file: one or more, each fit to be a root.
///
/// # Errors
/// `broker` where there is none, or one isn't a certificate.
pub fn parse_pem(bytes: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, Refusal> {
    let refusal = || {
        Refusal::new(Reason::Broker, "read the certificates of --upstream-ca")
            .path(path)
            .remedy("give a file with one or more PEM certificates")
    };
    let mut roots = RootCertStore::empty();
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(bytes) {
        let certificate = certificate.map_err(|_| refusal())?;
        roots.add(certificate.clone()).map_err(|_| refusal())?;
        found.push(certificate);
    }
    if found.is_empty() {
        return Err(refusal());
    }
    Ok(found)
}

/// The host's roots, the bundled ones where it has none, and `extra`. TLS 1.2 and
/// 1.3 by ring, no client certificate, resumption in memory, ALPN http/1.1.
///
/// Reads and parses the host's roots: a millisecond, and some more for a folder.
///
/// # Errors
/// `broker` where SSL_CERT_FILE or SSL_CERT_DIR is set and yields nothing: the
/// bundled roots would be other ones than were asked for.
pub fn client_config(extra: &[CertificateDer<'static>]) -> Result<Arc<ClientConfig>, Refusal> {
    let mut roots = RootCertStore::empty();
    // Some hosts carry certificates that no verifier reads; they just aren't trusted.
    roots.add_parsable_certificates(of_the_host());
    if roots.is_empty() {
        if let Some(name) = named() {
            return Err(
                Refusal::new(Reason::Broker, "read the host's root certificates")
                    .about(name)
                    .remedy("point it at PEM certificates, or unset it"),
            );
        }
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots.add_parsable_certificates(extra.iter().cloned());
    trusting(roots)
}

/// The variable that names roots, if there is one.
fn named() -> Option<&'static str> {
    let mut names = ROOT_VARIABLES.into_iter();
    names.find(|name| env::var_os(name).is_some())
}

/// What the variables name; else what is in the file that the distribution keeps all of its
/// roots in; else, where that yields none, what is in its folder too. As a rule both hold
/// the same certificates, and the folder has each in a file of its own: some hundred to open.
fn of_the_host() -> Vec<CertificateDer<'static>> {
    if named().is_none()
        && let Some(file) = openssl_probe::probe().cert_file
    {
        let found = rustls_native_certs::load_certs_from_paths(Some(&file), None).certs;
        if !found.is_empty() {
            return found;
        }
    }
    rustls_native_certs::load_native_certs().certs
}

/// The configuration with exactly these roots.
pub(super) fn trusting(roots: RootCertStore) -> Result<Arc<ClientConfig>, Refusal> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Refusal::new(Reason::Broker, "set TLS up").about(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    sabotage::trust(&mut config);
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::upstream::testing::Authority;

    #[test]
    fn certificates_of_a_file() {
        let one = Authority::new().pem();
        let two = format!("{one}# between\n{}", Authority::new().pem());
        let cut = &one[..one.len() / 2];
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let key = one.replace("CERTIFICATE", "PRIVATE KEY");
        for (pem, expected) in [
            (one.as_str(), Some(1)),
            (two.as_str(), Some(2)),
            ("", None),
            ("just text", None),
            (cut, None),
            (garbage, None),
            (key.as_str(), None),
            (&format!("{one}{garbage}"), None),
        ] {
            match parse_pem(pem.as_bytes(), Path::new("/ca.pem")) {
                Ok(found) => assert_eq!(Some(found.len()), expected),
                Err(refusal) => {
                    assert_eq!(expected, None, "{refusal}");
                    assert_eq!(refusal.reason, Reason::Broker);
                    assert!(refusal.to_string().contains("/ca.pem"));
                }
            }
        }
    }

    /// The environment can only be changed for another process, so it runs itself.
    #[test]
    fn a_file_that_is_named_and_yields_nothing_is_refused() {
        let name =
            "broker::upstream::roots::tests::a_file_that_is_named_and_yields_nothing_is_refused";
        if std::env::var_os("SSL_CERT_FILE").is_some_and(|path| path == "/dev/null") {
            let refusal = client_config(&[]).unwrap_err();
            assert_eq!(
                (refusal.reason, refusal.subject.as_str()),
                (Reason::Broker, "SSL_CERT_FILE")
            );
            return;
        }
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env("SSL_CERT_FILE", "/dev/null")
            .env_remove("SSL_CERT_DIR")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(
            status.status.success() && said.contains("1 passed"),
            "{said}"
        );
    }

    #[test]
    fn only_http_1_is_offered() {
        let config = client_config(&[]).unwrap();
        assert_eq!(config.alpn_protocols, [b"http/1.1"]);
    }
}
