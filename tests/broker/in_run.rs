//! What a run's tests have in common: a jail with a broker before an API.

use std::path::PathBuf;

use crate::common::host::unique;
use crate::common::{Folder, Jail, Upstream, Workspace};

/// A workspace, and a key that lies outside it.
pub(crate) struct Setup {
    pub(crate) workspace: Workspace,
    pub(crate) upstream: Upstream,
    pub(crate) key: String,
    folder: Folder,
}

impl Setup {
    pub(crate) fn new(upstream: Upstream) -> Self {
        Setup {
            workspace: Workspace::new(),
            upstream,
            key: format!("sk-ant-api03-{}-{}", unique("canary"), "k3Y_".repeat(16)),
            folder: Folder::new(),
        }
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.folder.secret("key", &format!("{}\n", self.key))
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path("log")
    }

    /// A run whose broker has no key yet.
    pub(crate) fn without_key(&self) -> Jail {
        self.workspace
            .jail()
            .flag("--broker", "anthropic")
            .flag("--upstream", self.upstream.url())
            .flag("--upstream-ca", self.upstream.ca_file())
            .flag("--broker-log", self.log())
            .without_env("HTTPS_PROXY")
            .without_env("https_proxy")
    }

    pub(crate) fn jail(&self) -> Jail {
        self.without_key().flag("--key-file", self.key_file())
    }
}

/// A request as the probe's `http` takes it: these fields, each `Name: value`.
pub(crate) fn request(target: &str, fields: &[&str]) -> String {
    let fields = lines(fields);
    escaped(&format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"
    ))
}

/// Fields as they stand in a head.
pub(crate) fn lines(fields: &[impl AsRef<str>]) -> String {
    let lines = fields.iter().flat_map(|field| [field.as_ref(), "\r\n"]);
    lines.collect()
}

fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace(' ', "\\s");
    text.replace('\r', "\\r").replace('\n', "\\n")
}

/// The broker's place in the jail.
pub(crate) const SOCKET: &str = "/run/broker.sock";

/// Of all places in the jail, the same request: an item of the probe's `seq`.
pub(crate) fn item(place: &str, target: &str, fields: &[&str]) -> String {
    format!("http {place} {}", request(target, fields))
}
