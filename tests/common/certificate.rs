//! An authority of the test's own, and what it says of the API that the test plays.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// What the API shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// `localhost` and 127.0.0.1, for years to come.
    Localhost,
    /// A good certificate of somebody else.
    WrongName,
    /// `localhost`, but until 2020.
    Expired,
    /// `localhost`, by another authority than the one in the file.
    Stranger,
}

/// The authority's certificate, and both sides' ends of TLS.
pub(crate) struct Certificate {
    /// What `--upstream-ca` takes.
    pub(crate) authority_pem: String,
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
}

impl Certificate {
    pub(crate) fn new(identity: Identity) -> Self {
        let (authority, issuer) = authority();
        let (stranger, other) = self::authority();
        let signer = if identity == Identity::Stranger {
            &other
        } else {
            &issuer
        };
        drop(stranger);
        let (chain, key) = leaf(identity, signer);
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS12, &TLS13])
            .expect("versions that ring has")
            .with_no_client_auth()
            .with_single_cert(vec![chain], key.into())
            .expect("a key of the certificate");
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).expect("an authority");
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions that ring has")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Certificate {
            authority_pem: pem(&authority),
            server: Arc::new(server),
            client: Arc::new(client),
        }
    }
}

fn authority() -> (CertificateDer<'static>, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::new()).expect("no name at all");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    (certificate.der().clone(), Issuer::new(params, key))
}

fn leaf(
    identity: Identity,
    issuer: &Issuer<'_, KeyPair>,
) -> (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>) {
    let names: &[&str] = match identity {
        Identity::WrongName => &["api.example.invalid"],
        _ => &["localhost", "127.0.0.1"],
    };
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).expect("good names");
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    if identity == Identity::Expired {
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
    }
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, issuer).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    (certificate.der().clone(), key)
}

/// RFC 7468.
fn pem(der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::new();
    for three in der.chunks(3) {
        let mut word = [0; 4];
        word[1..=three.len()].copy_from_slice(three);
        let word = u32::from_be_bytes(word);
        for place in 0..4 {
            let index = (word >> (18 - 6 * place)) & 63;
            let past_end = place > three.len();
            text.push(if past_end {
                b'='
            } else {
                ALPHABET[index as usize]
            });
        }
    }
    let lines: Vec<String> = text
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    let body = lines.join("\n");
    format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
}
