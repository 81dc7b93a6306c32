//! How a refusal is told.

use crate::common::{Run, Workspace};

fn refused(prepare: impl Fn(crate::common::Jail) -> crate::common::Jail) -> Run {
    let workspace = Workspace::new();
    let jail = workspace.jail_with_out().flag("--ro-file", "/no/such/file");
    prepare(jail).run(&["say", "ran"])
}

#[test]
fn as_one_line() {
    let run = refused(|jail| jail);
    run.assert_refused("path");
    assert_eq!(run.stderr.lines().count(), 1, "{run:#?}");
    assert!(run.stderr.contains("ENOENT"), "the errno by name: {run:#?}");
}

#[test]
fn as_json() {
    let run = refused(|jail| jail.switch("--json-errors"));
    assert_eq!((run.code, run.stdout.as_str()), (Some(125), ""));
    let refusal: serde_json::Value = serde_json::from_str(&run.stderr).expect("one JSON object");
    assert_eq!(refusal["reason"], "path");
    assert_eq!(refusal["errno"], "ENOENT");
    assert!(
        refusal["subject"]
            .as_str()
            .is_some_and(|path| path.contains("/no/such/file"))
    );
    for field in ["step", "remedy"] {
        assert!(
            refusal[field].as_str().is_some_and(|text| !text.is_empty()),
            "{field}: {run:#?}"
        );
    }
}

#[test]
fn as_an_annotation_on_github_actions() {
    let run = refused(|jail| jail.host_env("GITHUB_ACTIONS", "true"));
    assert_eq!(run.code, Some(125));
    let annotation = "::error title=groom-ns refused (path)::groom-ns: refused (path): ";
    let lines = run.stderr.lines().chain(run.stdout.lines());
    assert_eq!(
        lines.filter(|line| line.starts_with(annotation)).count(),
        1,
        "{run:#?}"
    );
    // Control: only there.
    assert!(!refused(|jail| jail).stderr.contains("::error"));
}

#[test]
fn as_json_alone_where_both_are_asked_for() {
    let run = refused(|jail| {
        jail.host_env("GITHUB_ACTIONS", "true")
            .switch("--json-errors")
    });
    let refusal: serde_json::Value =
        serde_json::from_str(&run.stderr).expect("standard error is one JSON value");
    assert_eq!(refusal["reason"], "path");
}
