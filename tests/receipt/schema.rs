//! The schemas in docs/ say what is written: a validator that others use agrees.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::made::Made;
use super::status;
use crate::common::host::{checkout, program};
use crate::common::path_str;

/// One line for each document that doesn't obey the schema.
const VALIDATE: &str = "
import json, sys
import jsonschema
schema = json.load(open(sys.argv[1]))
cls = jsonschema.validators.validator_for(schema)
cls.check_schema(schema)
for number, value in enumerate(json.load(open(sys.argv[2]))):
    for error in cls(schema).iter_errors(value):
        print(number, list(error.absolute_path), error.message[:200])
";

fn complaints(schema: &str, documents: &[Value], made: &Made) -> Vec<String> {
    let schema: PathBuf = checkout().join("docs").join(schema);
    let all = made
        .workspace
        .file("documents", &json!(documents).to_string());
    let output = program("python3", "python3")
        .args(["-c", VALIDATE, path_str(&schema), path_str(Path::new(&all))])
        .output()
        .expect("python3 starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "python3-jsonschema: {stderr}");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().map(str::to_owned).collect()
}

#[test]
fn receipts_obey_their_schema() {
    let made = Made::new();
    let jail = || made.jail().flag("--out-dir", made.workspace.out_dir());
    let key = made.workspace.file("kept/key", "sk-0123456789abcdef");
    let broker = jail()
        .flag("--broker", "anthropic")
        .flag("--upstream", "http://127.0.0.1:9/secret/gw")
        .flag("--key-file", key);
    let documents: Vec<Value> = [
        made.of(jail(), &["true"]),
        made.of(jail(), &["sh", "-c", "kill -KILL $$"]),
        made.of(jail(), &["/no/such/program"]),
        made.of(jail().switch("--allow-ptrace"), &["true"]),
        made.of(broker, &["true"]),
        made.of(
            jail().switch("--tty").switch("--explain-denials"),
            &["unshare", "--mount"],
        ),
        made.of(jail().flag("--timeout", "10ms"), &["sleep", "1000"]),
        made.of(jail().flag("--max-output", "10"), &["yes"]),
    ]
    .into_iter()
    .map(|(_, receipt)| receipt)
    .collect();
    assert_eq!(
        complaints("receipt.schema.json", &documents, &made),
        [""; 0]
    );
    // Gateways take tokens in the path.
    let upstream = &documents[4]["broker"]["upstream"];
    assert_eq!(upstream, "http://127.0.0.1:9");
    // What isn't one is complained about, at every depth.
    for (at, value) in [
        ("/more", json!(1)),
        ("/receipt", json!("groom-ns/2")),
        ("/jail/more", json!(1)),
        ("/jail/namespaces/net/jail", json!(-1)),
        ("/jail/init/capabilities/bounding", json!("x")),
        ("/jail/landlock/how", json!("guessed")),
        ("/jail/mounts/table/0/more", json!(1)),
        ("/end/cause/kind", json!("tired")),
        ("/times/ended", json!("yesterday")),
        ("/groom_ns/sha256", json!("abc")),
    ] {
        let mut bent = documents[0].clone();
        let (parent, name) = at.rsplit_once('/').expect("a pointer");
        bent.pointer_mut(parent).expect(at)[name] = value;
        assert_ne!(
            complaints("receipt.schema.json", &[bent], &made),
            [""; 0],
            "{at}"
        );
    }
}

#[test]
fn status_lines_obey_theirs() {
    let made = Made::new();
    let mut lines = status::both(&made);
    assert_eq!(complaints("status.schema.json", &lines, &made), [""; 0]);
    lines[0]["event"] = json!("tired");
    lines[2]["more"] = json!(1);
    let complaints = complaints("status.schema.json", &lines, &made);
    assert!(
        complaints.iter().any(|line| line.starts_with("0 ")),
        "{complaints:?}"
    );
    assert!(
        complaints.iter().any(|line| line.starts_with("2 ")),
        "{complaints:?}"
    );
}
