//! What groom-ns writes is never a file that it reads, by whatever name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::common::certificate::{Certificate, Identity};
use crate::common::host::{chmod, in_shell};
use crate::common::jail::{Jail, Run, finish, spawn};
use crate::common::workspace::snapshot;
use crate::common::{Workspace, path_str};

/// A workspace with a folder that no run is given.
struct Own {
    workspace: Workspace,
    key: PathBuf,
    ca: PathBuf,
    /// As a receipt begins, before what is read.
    ca_like_receipt: PathBuf,
}

impl Own {
    fn new() -> Own {
        let workspace = Workspace::new();
        workspace.folder("own");
        let pem = Certificate::new(Identity::Localhost).authority_pem;
        let like_receipt = format!("{{\n  \"receipt\": \"groom-ns/1\"\n}}\n{pem}");
        Own {
            key: workspace.file("own/key", "sk-0123456789abcdef\n"),
            ca: workspace.file("own/ca", &pem),
            ca_like_receipt: workspace.file("own/ca-like-receipt", &like_receipt),
            workspace,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.workspace.path("own").join(name)
    }

    fn jail(&self) -> Jail {
        let jail = self.workspace.jail_with_out().flag("--broker", "anthropic");
        ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
            .iter()
            .fold(jail, |jail, name| jail.without_env(name))
    }

    /// Started by a shell with this redirection.
    fn run(&self, jail: Jail, redirection: &str) -> Run {
        let inner = jail.command(&["/usr/bin/true"]);
        let mut shell = in_shell(&format!("exec \"$@\" {redirection}"), &inner);
        shell.current_dir(self.workspace.path("own"));
        finish(spawn(&mut shell))
    }

    /// Refused with nothing made, lost or added to.
    fn refused(&self, jail: Jail, redirection: &str, code: &str, flag: &str) {
        let before = snapshot(self.workspace.root());
        let run = self.run(jail, redirection);
        assert_eq!(before, snapshot(self.workspace.root()), "{run:#?}");
        run.assert_refused(code);
        let says = format!("it is the file of {flag},");
        assert!(run.refusal().contains(&says), "{run:#?}");
    }

    /// Control: the same with another file to write to is judged.
    fn taken(&self, jail: Jail, redirection: &str) {
        let run = self.run(jail.switch("--plan"), redirection);
        assert_eq!(run.code, Some(0), "vacuous: {run:#?}");
    }
}

#[test]
fn the_log_of_a_run_is_none_of_them() {
    let own = Own::new();
    symlink("own", own.workspace.path("link")).expect("a link");
    fs::copy(&own.key, own.path("twin")).expect("a key");
    let other_name = own.workspace.path("link/key");
    let ca = || own.jail().flag("--upstream-ca", &own.ca);
    let file = || own.jail().flag("--key-file", &own.key);
    let fd = || own.jail().flag("--key-fd", "4");
    let stdin = || own.jail().switch("--key-stdin");
    for (jail, redirection, log, flag) in [
        (file(), "", &own.key, "--key-file"),
        (file(), "", &other_name, "--key-file"),
        (fd(), "4<key", &own.key, "--key-fd"),
        (stdin(), "<key", &own.key, "--key-stdin"),
        (
            ca().flag("--key-file", &own.key),
            "",
            &own.ca,
            "--upstream-ca",
        ),
    ] {
        own.refused(jail.flag("--broker-log", log), redirection, "broker", flag);
    }
    for (jail, redirection) in [
        (file(), ""),
        (fd(), "4<key"),
        (stdin(), "<key"),
        (ca().flag("--key-file", &own.key), ""),
    ] {
        // By what it is, not by what it holds.
        own.taken(jail.flag("--broker-log", own.path("twin")), redirection);
    }
}

#[test]
fn the_log_that_a_profile_names_is_not_the_profile() {
    let own = Own::new();
    for (log, refused) in [("profile", true), ("log", false)] {
        let text = format!("broker-log = {:?}\n", path_str(&own.path(log)));
        let profile = own.workspace.file("own/profile", &text);
        chmod(&profile, 0o600);
        let jail = own.jail().flag("--key-file", &own.key);
        let jail = jail.flag("--profile", profile);
        if refused {
            own.refused(jail, "", "broker", "--profile");
        } else {
            own.taken(jail, "");
        }
    }
}

#[test]
fn status_lines_go_to_none_of_them() {
    let own = Own::new();
    let jail = || {
        let jail = own.jail().flag("--key-file", &own.key);
        jail.flag("--status-fd", "5")
    };
    own.refused(jail(), "5>>key", "receipt", "--key-file");
    // Nor the line that says why another thing was refused.
    let also_wrong = jail().flag("--clone", own.path("missing"));
    own.refused(also_wrong, "5>>key", "receipt", "--key-file");
    let fd = own.jail().flag("--key-fd", "4").flag("--status-fd", "5");
    own.refused(fd, "4<key 5>>key", "receipt", "--key-fd");
    own.taken(jail(), "5>>status");
}

#[test]
fn a_receipt_replaces_none_of_them() {
    let own = Own::new();
    let jail = |ca: &PathBuf| {
        let jail = own.jail().flag("--key-file", &own.key);
        jail.flag("--upstream-ca", ca)
    };
    let key = jail(&own.ca).flag("--receipt", &own.key);
    own.refused(key, "", "receipt", "--key-file");
    // It would be taken for the last run's.
    let like_receipt = jail(&own.ca_like_receipt).flag("--receipt", &own.ca_like_receipt);
    own.refused(like_receipt, "", "receipt", "--upstream-ca");
    own.taken(jail(&own.ca_like_receipt), "");
    own.taken(jail(&own.ca).flag("--receipt", own.path("receipt")), "");
}
