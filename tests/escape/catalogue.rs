//! docs/escapes.md names tests that are there, and leaves no attack of this folder out.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The checkout. Its place at build time is nothing that every user can read.
fn checkout() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    here.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

fn catalogue() -> String {
    fs::read_to_string(checkout().join("docs/escapes.md")).expect("the catalogue")
}

/// What the last cell of each row of its tables says.
fn cells(text: &str) -> Vec<&str> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let cells = rows.map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let cells = cells.map(|cell| cell.expect("a cell").trim());
    cells.filter(|cell| *cell != "test").collect()
}

/// `FILE::FUNCTION` of a cell.
fn named(cell: &str) -> Vec<(&str, &str)> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted.filter_map(|name| name.split_once("::")).collect()
}

#[test]
fn every_test_that_is_named_is_there() {
    let text = catalogue();
    let cells = cells(&text);
    assert!(cells.len() > 50, "vacuous: {} rows", cells.len());
    for cell in cells {
        let tests = named(cell);
        assert!(
            !tests.is_empty() || cell == "none yet",
            "a row without a test: {cell}"
        );
        for (file, function) in tests {
            let source = fs::read_to_string(checkout().join("tests").join(file));
            let source = source.unwrap_or_else(|error| panic!("{file}: {error}"));
            let beginning = format!("#[test]\nfn {function}() {{\n");
            assert!(source.contains(&beginning), "{file} has no test {function}");
        }
    }
}

#[test]
fn every_attack_of_this_folder_is_named() {
    let text = catalogue();
    let named: BTreeSet<&str> = cells(&text)
        .into_iter()
        .flat_map(named)
        .map(|(file, _)| file)
        .collect();
    for entry in fs::read_dir(checkout().join("tests/escape")).expect("the folder") {
        let name = entry.expect("an entry").file_name();
        let file = format!("escape/{}", name.to_str().expect("text"));
        let is_this = file == "escape/catalogue.rs";
        assert!(
            is_this || named.contains(file.as_str()),
            "{file} isn't in docs/escapes.md"
        );
    }
}
