//! The README tells the truth: what its blocks show happens, and its tables are
//! complete.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use groom_ns::refusal::Reason;

use common::host::checkout;

/// Begins a fenced block whose commands are run.
const FENCE: &str = "```console";
/// Such a block's commands begin with this.
const PROMPT: &str = "$ ";
/// Commands of this program need the toolchain and the whole checkout:
/// `.ci/run` takes them from the README and runs them itself.
const OF_CI: &str = "cargo ";
/// What the README says that a normal user in certain groups sees as well.
const WARNING: &str = "warning: the command keeps your groups";

/// A line counts as right as long as it is this near, in percent.
const NEAR: usize = 10;

fn readme() -> String {
    fs::read_to_string(checkout().join("README.md")).expect("the README")
}

/// The folder of the binary under test.
fn binary_folder() -> PathBuf {
    let binary = env::var_os("GROOM_NS_BIN")
        .map_or_else(|| env!("CARGO_BIN_EXE_groom-ns").into(), PathBuf::from);
    assert_eq!(
        binary.file_name().and_then(|name| name.to_str()),
        Some("groom-ns"),
        "the README's commands call it by this name"
    );
    binary.parent().expect("a folder").to_owned()
}

/// A command of the README and what it prints there.
struct Shown {
    line: usize,
    command: String,
    output: Vec<String>,
}

/// The `console` blocks, command by command.
fn blocks(readme: &str) -> Vec<Vec<Shown>> {
    let mut blocks = Vec::new();
    let mut open: Option<Vec<Shown>> = None;
    for (number, line) in (1..).zip(readme.lines()) {
        match &mut open {
            None if line == FENCE => open = Some(Vec::new()),
            None => {}
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some(block) => match (line.strip_prefix(PROMPT), block.last_mut()) {
                (Some(command), _) => block.push(Shown {
                    line: number,
                    command: command.to_owned(),
                    output: Vec::new(),
                }),
                (None, Some(shown)) => shown.output.push(line.to_owned()),
                (None, None) => panic!("README.md:{number}: output before any command"),
            },
        }
    }
    assert!(open.is_none(), "a block isn't closed");
    blocks
}

/// A folder with a checkout of one commit that holds `hello.txt`.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let template = env::temp_dir().join("groom-ns-test-XXXXXX");
        let root = nix::unistd::mkdtemp(&template).expect("a temporary folder");
        let place = Place(root.canonicalize().expect("the folder just made"));
        fs::create_dir(place.clone_dir()).expect("a folder");
        fs::write(place.clone_dir().join("hello.txt"), "hello\n").expect("a file");
        for line in [
            "git init --quiet .",
            "git add hello.txt",
            "git -c user.name=t -c user.email=t@example.invalid commit --quiet --message=first",
        ] {
            assert_eq!(place.run(line), "", "{line}");
        }
        place
    }

    fn clone_dir(&self) -> PathBuf {
        self.0.join("clone")
    }

    /// What a line prints, standard error included, in its order.
    fn run(&self, line: &str) -> String {
        let path = env::join_paths(
            std::iter::once(binary_folder())
                .chain(["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from)),
        );
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut child = Command::new("sh")
            .args(["-c", line])
            .current_dir(self.clone_dir())
            .env("PATH", path.expect("folders without a colon"))
            .env("HOME", self.0.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C")
            // These tests may run on GitHub Actions themselves.
            .env_remove("GITHUB_ACTIONS")
            .stdin(Stdio::null())
            .stdout(writer.try_clone().expect("a pipe"))
            .stderr(writer)
            .spawn()
            .expect("sh starts");
        let mut output = Vec::new();
        reader.read_to_end(&mut output).expect("a readable pipe");
        child.wait().expect("a child of this process");
        let output = String::from_utf8_lossy(&output);
        let lines = output.lines().filter(|line| !line.contains(WARNING));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a text is what a pattern says, in which `…` is any text of one line.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('…') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(head) else {
        return false;
    };
    (0..=text.len())
        .filter(|at| text.is_char_boundary(*at))
        .any(|at| matches(rest, &text[at..]))
}

/// The same for lines, in which a line of `…` alone is any lines.
fn lines_match(patterns: &[String], lines: &[&str]) -> bool {
    match patterns.split_first() {
        None => lines.is_empty(),
        Some((any, rest)) if any == "…" => {
            (0..=lines.len()).any(|at| lines_match(rest, &lines[at..]))
        }
        Some((pattern, rest)) => lines
            .split_first()
            .is_some_and(|(line, lines)| matches(pattern, line) && lines_match(rest, lines)),
    }
}

#[test]
fn what_the_blocks_show_happens() {
    let mut wrong = Vec::new();
    let mut run = 0;
    for block in blocks(&readme()) {
        // Commands of one block follow each other in one place.
        let place = Place::new();
        for shown in block
            .iter()
            .filter(|shown| !shown.command.starts_with(OF_CI))
        {
            run += 1;
            let printed = place.run(&shown.command);
            let lines: Vec<&str> = printed.lines().collect();
            if !lines_match(&shown.output, &lines) {
                wrong.push(format!(
                    "README.md:{}: {} prints:\n{printed}",
                    shown.line, shown.command
                ));
            }
        }
    }
    assert!(run >= 10, "only {run} commands found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `.ci/run` takes these by the same rule.
#[test]
fn two_commands_are_enough_on_a_fresh_machine() {
    let blocks = blocks(&readme());
    let cargo: Vec<&Shown> = blocks
        .iter()
        .flatten()
        .filter(|shown| shown.command.starts_with(OF_CI))
        .collect();
    let starts = ["cargo run ", "cargo test"];
    assert_eq!(cargo.len(), starts.len());
    for (shown, start) in cargo.iter().zip(starts) {
        assert!(shown.command.starts_with(start), "{}", shown.command);
    }
}

#[test]
fn patterns() {
    for (pattern, text, expected) in [
        ("a…c", "abc", true),
        ("a…c", "ac", true),
        ("a…c", "acb", false),
        ("…a…", "bab", true),
        ("a", "ab", false),
        ("a…", "b", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
    let patterns = ["a", "…", "b"].map(String::from);
    assert!(lines_match(&patterns, &["a", "b"]));
    assert!(lines_match(&patterns, &["a", "x", "y", "b"]));
    assert!(!lines_match(&patterns, &["a", "b", "x"]));
}

/// The rows of the table beneath a heading, cell by cell.
fn table(readme: &str, heading: &str) -> Vec<Vec<String>> {
    let rows = readme
        .lines()
        .skip_while(|line| *line != heading)
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .filter(|line| line.starts_with('|'))
        .skip(2);
    rows.map(|row| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    })
    .collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_reason_codes_are_all_there_are() {
    let readme = readme();
    let rows = table(&readme, "## Reason codes");
    let listed: Vec<&str> = rows.iter().flat_map(|row| quoted(&row[0])).collect();
    assert_eq!(listed, Reason::ALL.map(Reason::code));
    for row in &rows {
        assert!(row.len() == 3 && row.iter().all(|cell| !cell.is_empty()));
    }
}

/// The flags in the first cells of the table beneath a heading.
fn listed(readme: &str, heading: &str) -> Vec<String> {
    let rows = table(readme, heading);
    let mut listed: Vec<String> = rows
        .iter()
        .flat_map(|row| quoted(&row[0]))
        .filter_map(|flag| flag.split([' ', '=']).next())
        .map(String::from)
        .collect();
    listed.sort_unstable();
    listed.dedup();
    listed
}

/// The flags that a subcommand takes.
fn known(subcommand: &str) -> Vec<String> {
    let line = ["groom-ns", subcommand, "--help"].map(Into::into);
    let Ok(groom_ns::cli::Command::Print(help)) = groom_ns::cli::parse(line) else {
        panic!("no help");
    };
    let mut known: Vec<String> = help
        .lines()
        .map(str::trim_start)
        .filter_map(|line| line.strip_prefix("-h, ").or(Some(line)))
        .filter(|line| line.starts_with("--") && !line.starts_with("--help"))
        .filter_map(|line| line.split([' ', '[', '=']).next())
        .map(String::from)
        .collect();
    known.sort_unstable();
    known
}

#[test]
fn the_flags_are_all_there_are() {
    let readme = readme();
    let of_run = known("run");
    assert_eq!(listed(&readme, "## The contract"), of_run);
    // What a broker takes as a run does is said there; `--json-errors` is in both.
    let mut own = known("broker");
    own.retain(|flag| flag == "--json-errors" || !of_run.contains(flag));
    assert_eq!(
        listed(&readme, "### The broker and the shim on their own"),
        own
    );
    assert_eq!(known("shim"), ["--json-errors"]);
}

/// Every Rust file below a folder, by its path from the checkout.
fn sources(root: &Path, folder: &str, found: &mut Vec<(String, usize)>) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder of sources") {
        let entry = entry.expect("an entry");
        let name = entry
            .file_name()
            .into_string()
            .expect("a name that is text");
        let path = format!("{folder}/{name}");
        if entry.file_type().expect("a type").is_dir() {
            sources(root, &path, found);
        } else if entry.path().extension().is_some_and(|name| name == "rs") {
            let text = fs::read_to_string(entry.path()).expect("a source");
            found.push((path, text.lines().count()));
        }
    }
}

/// A file counts for the row that names it, or else its innermost folder.
#[test]
fn the_reading_order_holds_every_file_and_its_lines() {
    let readme = readme();
    let rows = table(&readme, "## Reading order");
    let (all, rows) = rows.split_last().expect("a table");
    let row_of = |file: &str| {
        let named = rows.iter().enumerate().flat_map(|(row, cells)| {
            let paths = quoted(&cells[2]).into_iter();
            paths.map(move |path| (row, path.to_owned()))
        });
        let holds = |path: &str| path == file || (path.ends_with('/') && file.starts_with(path));
        named
            .filter(|(_, path)| holds(path))
            .max_by_key(|(_, path)| path.len())
            .map(|(row, _)| row)
    };
    let mut files = Vec::new();
    sources(&checkout(), "src", &mut files);
    let mut lines: BTreeMap<usize, usize> = BTreeMap::new();
    let mut sum = 0;
    for (file, count) in &files {
        let row = row_of(file).unwrap_or_else(|| panic!("{file} isn't in the reading order"));
        *lines.entry(row).or_default() += count;
        sum += count;
    }
    let near = |cells: &[String], count: usize| {
        let said: usize = cells[3].parse().expect("a number of lines");
        assert!(
            said.abs_diff(count) * 100 <= count * NEAR,
            "{}: {said} lines, there are {count}",
            cells[2]
        );
    };
    for (row, cells) in rows.iter().enumerate() {
        let count = lines.get(&row).copied();
        near(
            cells,
            count.unwrap_or_else(|| panic!("{} is nowhere", cells[2])),
        );
        for path in quoted(&cells[2]) {
            assert!(checkout().join(path).exists(), "{path} isn't there");
        }
    }
    near(all, sum);
}
