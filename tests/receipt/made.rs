//! Runs that leave receipts, and `groom-ns verify`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::jail::{Jail, Run, binary, finish, spawn};
use crate::common::{Workspace, is_root};

/// A workspace whose receipts and policies lie in a folder that no run is given.
pub(crate) struct Made {
    pub(crate) workspace: Workspace,
}

impl Made {
    pub(crate) fn new() -> Made {
        let workspace = Workspace::new();
        workspace.folder("kept");
        Made { workspace }
    }

    /// The folder of the receipts.
    pub(crate) fn kept(&self) -> PathBuf {
        self.workspace.path("kept")
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.kept().join("receipt.json")
    }

    /// A run that leaves a receipt.
    pub(crate) fn jail(&self) -> Jail {
        self.workspace.jail().flag("--receipt", self.file())
    }

    /// A whole run, and its receipt.
    pub(crate) fn of(&self, jail: Jail, argv: &[&str]) -> (Run, Value) {
        let run = jail.run_program(argv);
        let text = fs::read_to_string(self.file());
        let text = text.unwrap_or_else(|error| panic!("no receipt: {error}: {run:#?}"));
        assert!(text.is_ascii(), "{text}");
        (run, serde_json::from_str(&text).expect("JSON"))
    }

    /// The receipt of `true`.
    pub(crate) fn good(&self) -> Value {
        let (run, receipt) = self.of(self.jail(), &["true"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
        receipt
    }

    /// Verifies the receipt that lies there.
    pub(crate) fn verify(&self, policy: &str) -> Run {
        let policy = self.workspace.file("kept/policy.toml", policy);
        verify(&self.file(), &policy, &[])
    }

    /// Verifies another one.
    pub(crate) fn verify_value(&self, receipt: &Value, policy: &str) -> Run {
        let text = serde_json::to_string(receipt).expect("JSON");
        fs::write(self.file(), text).expect("a file");
        self.verify(policy)
    }
}

pub(crate) fn verify(receipt: &Path, policy: &Path, flags: &[&str]) -> Run {
    let mut command = Command::new(binary());
    command.arg("verify").arg(receipt);
    command.arg("--policy").arg(policy).args(flags);
    finish(spawn(command.env_remove("GITHUB_ACTIONS")))
}

/// A receipt with one value changed; a name that isn't there is added.
pub(crate) fn bent(receipt: &Value, at: &str, value: Value) -> Value {
    let mut bent = receipt.clone();
    let (parent, name) = at.rsplit_once('/').expect("a pointer");
    let parent = bent.pointer_mut(parent).expect(at);
    match (parent, name.parse::<usize>()) {
        (Value::Array(all), Ok(number)) => all[number] = value,
        (parent, _) => parent[name] = value,
    }
    bent
}

/// What lies in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// `user` or `root`.
pub(crate) fn route() -> &'static str {
    if is_root() { "root" } else { "user" }
}
