//! docs/refusals.md and docs/check.md list what the code has, in its own words.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::fs;
use std::path::Path;

use groom_ns::check::Primitive;
use groom_ns::refusal::Reason;

use common::host::checkout;

fn page(name: &str) -> String {
    fs::read_to_string(checkout().join("docs").join(name)).expect(name)
}

/// What stands in backquotes in a text.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The first cells of a page's table rows, without headings.
fn first_cells(page: &str) -> Vec<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    cells.collect()
}

/// All of src, with what rustfmt broke put together again.
fn source(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            text += &source(&path);
        } else {
            text += &fs::read_to_string(&path).expect("text");
        }
    }
    text
}

#[test]
fn every_reason_has_a_section() {
    let page = page("refusals.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    let codes: Vec<&str> = headings.flat_map(quoted).collect();
    assert_eq!(codes, Reason::ALL.map(Reason::code));
    for section in page.split("\n## ").skip(1) {
        let cells = first_cells(section);
        assert!(cells.len() > 1, "a step at least: {section}");
    }
}

#[test]
fn every_step_is_the_programs_own() {
    let page = page("refusals.md");
    let source = source(&checkout().join("src"));
    // What rustfmt broke is one line again.
    let source = source.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut unsaid = Vec::new();
    let mut steps = 0;
    for section in page.split("\n## ").skip(1) {
        let code = quoted(section)[0];
        for step in first_cells(section).into_iter().flat_map(quoted) {
            steps += 1;
            if !is_said(&source, code, step) {
                unsaid.push((code, step));
            }
        }
    }
    assert!(steps > 50, "vacuous: {steps}");
    assert!(unsaid.is_empty(), "nothing refuses with {unsaid:#?}");
}

/// Whether the program has such a step, and with this code where both stand together.
fn is_said(source: &str, code: &str, step: &str) -> bool {
    // A flag's name may be put in, or put behind.
    let mut ways = vec![format!("\"{step}\"")];
    if let Some((words, _)) = step.split_once("--") {
        ways.push(format!("format!(\"{words}{{"));
        ways.push(format!("\"{}\"", words.trim_end()));
    }
    let of = |code: &str, way: &str| {
        let mut name = code.to_owned();
        name[..1].make_ascii_uppercase();
        source.contains(&format!("Reason::{name}, {way}"))
    };
    ways.iter().any(|way| {
        let codes = Reason::ALL.map(Reason::code);
        let mut beside = codes.into_iter().filter(|code| of(code, way)).peekable();
        source.contains(way) && (beside.peek().is_none() || beside.any(|beside| beside == code))
    })
}

#[test]
fn every_row_is_explained() {
    let page = page("check.md");
    let rows = page.split("## Rows").nth(1).expect("a section");
    let listed: Vec<&str> = first_cells(rows).into_iter().flat_map(quoted).collect();
    let mut at = 0;
    for primitive in Primitive::ALL {
        // Seven kinds of namespace share a row.
        let name = primitive.name();
        if name.ends_with("-namespace") && !["user-namespace", "cgroup-namespace"].contains(&name) {
            continue;
        }
        assert_eq!(
            listed.get(at),
            Some(&name),
            "docs/check.md has the rows in order"
        );
        at += 1;
    }
}
