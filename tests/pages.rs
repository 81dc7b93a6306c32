//! docs/refusals.md and docs/check.md list what the code has, in its own words.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use groom_ns::check::Primitive;
use groom_ns::refusal::Reason;

use common::Workspace;
use common::host::checkout;
use common::jail::{binary, finish, spawn};

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

/// The steps of each section, by its code.
fn steps(page: &str) -> Vec<(&str, &str)> {
    let sections = page.split("\n## ").skip(1);
    let of = |section| {
        let code = quoted(section)[0];
        let steps = first_cells(section).into_iter().flat_map(quoted);
        steps.map(move |step| (code, step)).collect::<Vec<_>>()
    };
    sections.flat_map(of).collect()
}

/// All of src on one line, with what rustfmt broke put together again.
fn one_line() -> String {
    let source = source(&checkout().join("src"));
    source.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What stands in quotes behind each of these words.
fn behind<'s>(source: &'s str, words: &str) -> Vec<&'s str> {
    let parts = source.split(words).skip(1);
    parts.filter_map(|part| part.split('"').next()).collect()
}

type Template = (Option<&'static str>, String);

/// The steps in which something is put in, with the code where that stands beside it.
/// Most have a verb and a flag.
fn templates(source: &str) -> Vec<Template> {
    let verbs = behind(source, ".refusal(\"");
    let verbs = verbs.into_iter().map(|verb| (None, format!("{verb} {{}}")));
    let others = [
        "let step = format!(\"",
        "Refusal::new(self.reason, format!(\"",
        "Refusal::new(reason, format!(\"",
    ];
    let named = others.into_iter().flat_map(|words| behind(source, words));
    // All of it put in: the verbs above.
    let named = named.filter(|words| !words.starts_with('{'));
    let named = named.map(|words| (None, words.to_owned()));
    let coded = Reason::ALL.into_iter().flat_map(|reason| {
        ["Refusal::new(", "Refusal::new( "]
            .into_iter()
            .flat_map(move |new| {
                let words = behind(
                    source,
                    &format!("{new}{}, format!(\"", variant(reason.code())),
                );
                words
                    .into_iter()
                    .map(move |words| (Some(reason.code()), words.to_owned()))
            })
    });
    verbs.chain(named).chain(coded).collect()
}

/// A code as the source has it.
fn variant(code: &str) -> String {
    let mut name = code.to_owned();
    name[..1].make_ascii_uppercase();
    format!("Reason::{name}")
}

/// Whether the whole step is such a template with words of the program's put in: flags,
/// and names of other things.
fn fits(source: &str, template: &str, step: &str) -> bool {
    let Some((before, rest)) = template.split_once('{') else {
        return template == step;
    };
    let (_, after) = rest.split_once('}').expect("a template");
    let Some(left) = step.strip_prefix(before) else {
        return false;
    };
    let next = after.split('{').next().expect("words");
    let Some(end) = (if next.is_empty() {
        Some(left.len())
    } else {
        left.find(next)
    }) else {
        return false;
    };
    let (put_in, left) = left.split_at(end);
    source.contains(&format!("\"{put_in}\"")) && fits(source, after, left)
}

/// Whether the program has such a step, and with this code where both stand together.
fn is_said(source: &str, templates: &[Template], code: &str, step: &str) -> bool {
    let literal = format!("\"{step}\"");
    let of = |code: &str| {
        let reason = variant(code);
        [", ", ",  "]
            .iter()
            .any(|gap| source.contains(&format!("{reason}{gap}{literal}")))
    };
    let codes = Reason::ALL.map(Reason::code);
    let mut beside = codes.into_iter().filter(|code| of(code)).peekable();
    let is_literal = source.contains(&literal)
        && match beside.peek() {
            // A word alone may stand for anything.
            None => step.contains(' '),
            Some(_) => beside.any(|beside| beside == code),
        };
    is_literal
        || templates.iter().any(|(own, template)| {
            own.is_none_or(|own| own == code) && fits(source, template, step)
        })
}

#[test]
fn every_step_is_the_programs_own() {
    let (page, source) = (page("refusals.md"), one_line());
    let (steps, templates) = (steps(&page), templates(&source));
    let unsaid: Vec<_> = steps
        .iter()
        .filter(|(code, step)| !is_said(&source, &templates, code, step))
        .collect();
    assert!(steps.len() > 50, "vacuous: {steps:?}");
    assert!(unsaid.is_empty(), "nothing refuses with {unsaid:#?}");
    // Control: words that no step begins or ends with, or another code's.
    for (code, step) in [
        ("path", "look at --nowhere"),
        ("path", "look --clone"),
        ("overlap", "compare --out-dir"),
        ("path", "compare --out-dir with --clone"),
        ("usage", "read"),
        ("usage", "look at a system folder"),
    ] {
        assert!(
            !is_said(&source, &templates, code, step),
            "vacuous: {code} {step}"
        );
    }
}

/// Each verb and each step with something put in has a row.
#[test]
fn every_way_to_word_a_step_is_there() {
    let (page, source) = (page("refusals.md"), one_line());
    let steps = steps(&page);
    let templates = templates(&source);
    let absent: Vec<_> = templates
        .iter()
        .filter(|(code, template)| {
            let same = |(own, step): &(&str, &str)| {
                code.is_none_or(|code| code == *own) && fits(&source, template, step)
            };
            !steps.iter().any(same)
        })
        .collect();
    assert!(templates.len() > 20, "vacuous: {templates:?}");
    assert!(absent.is_empty(), "docs/refusals.md has no {absent:#?}");
}

/// What people run into first, refused by the program itself: its code and step are a row.
#[test]
fn what_is_refused_is_on_the_page() {
    let (page, source) = (page("refusals.md"), one_line());
    let (steps, templates) = (steps(&page), templates(&source));
    let workspace = Workspace::new();
    workspace.file("file", "x");
    workspace.file("kept/profile.toml", "unknown = 1");
    std::os::unix::fs::symlink("../file", workspace.path("clone/link")).expect("a link");
    let key = ["--broker", "anthropic", "--key-file"];
    let rows: &[(&[&str], &str)] = &[
        (&["--clone", "nowhere"], "resolve --clone"),
        (&["--clone", "file"], "look at --clone"),
        (&["--clone", "/"], "judge --clone"),
        (&["--out-dir", "nowhere/out"], "resolve --out-dir"),
        (&["--out-dir", "file"], "look at --out-dir"),
        (&["--ro-file", "nowhere"], "resolve --ro-file"),
        (&["--ro-file", "clone/link"], "follow a link for --ro-file"),
        (&["--out-dir", "clone"], "compare --out-dir with --clone"),
        (&["--clone-mode", "rw-git-ro"], "look at the clone's .git"),
        (&["--timeout", "0"], "read --timeout"),
        (&["--grace", "2y"], "read --grace"),
        (&["--memory", "x"], "read --memory"),
        (&["--env", "1x=2"], "read --env"),
        (&["--unknown"], "read the command line"),
        (&["--receipt", "clone/r.json"], "judge --receipt"),
        (&["--receipt", "file"], "look at --receipt"),
        (&["--receipt", "nowhere/r"], "resolve --receipt"),
        (&["--status-fd", "77"], "take --status-fd"),
        (&["--status-fd", "1"], "read --status-fd"),
        (&["--profile", "nowhere"], "resolve --profile"),
        (&["--profile", "kept/profile.toml"], "read --profile"),
        (&["--uds", "nowhere"], "resolve --uds"),
        (&["--uds", "file"], "look at --uds"),
        (&[&key[..], &["nowhere"]].concat(), "resolve --key-file"),
        (&[&key[..], &["file"]].concat(), "read the key"),
    ];
    for (flags, step) in rows {
        let mut command = Command::new(binary());
        command
            .args(["run", "--json-errors"])
            .current_dir(workspace.root());
        if !flags.contains(&"--clone") {
            command.args(["--clone", "clone"]);
        }
        command.args(*flags).args(["--", "true"]);
        let run = finish(spawn(command.env_remove("GITHUB_ACTIONS")));
        assert_eq!(run.code, Some(125), "{flags:?}: {run:#?}");
        let said = run.stderr_but_for_groups();
        let refusal: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let is = [&refusal["reason"], &refusal["step"]].map(|part| part.as_str().expect("text"));
        assert_eq!(is[1], *step, "{flags:?}");
        // Its own row, or the row of the like with another flag.
        let same = |row: &str| {
            let fits = |step| {
                templates
                    .iter()
                    .any(|(_, words)| fits(&source, words, row) && fits(&source, words, step))
            };
            row == is[1] || fits(is[1])
        };
        let has_row = steps.iter().any(|(code, row)| *code == is[0] && same(row));
        assert!(has_row, "docs/refusals.md has no {is:?}");
    }
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
