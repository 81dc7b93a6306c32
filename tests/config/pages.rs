//! Completions and manual pages have every flag, and work.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::finish;
use crate::common::host::program;
use crate::common::jail::{binary, spawn};

/// What groom-ns prints.
fn printed(args: &[&str]) -> String {
    let run = finish(spawn(Command::new(binary()).args(args)));
    assert_eq!(
        (run.code, &run.stderr[..]),
        (Some(0), ""),
        "{args:?}: {run:#?}"
    );
    run.stdout
}

/// The flags in the help of a subcommand, and all subcommands in that of groom-ns.
pub(crate) fn flags(subcommand: &str) -> BTreeSet<String> {
    let help = printed(&[subcommand, "--help"]);
    let names = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--"));
    let end = |c: char| !c.is_ascii_lowercase() && c != '-';
    let names = names.map(|rest| rest.split(end).next().unwrap_or_default());
    names.map(|name| format!("--{name}")).collect()
}

fn subcommands() -> Vec<String> {
    let help = printed(&["--help"]);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.map(ToOwned::to_owned).collect()
}

/// What bash offers for the last of these words.
fn offered(words: &[&str]) -> BTreeSet<String> {
    let script = "
        source /dev/stdin
        # Only at a prompt is it bash's own; files are offered as such there.
        compopt() { echo \"compopt $*\"; }
        COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1))
        complete=$(complete -p groom-ns); function=${complete#*-F }; function=${function%% *}
        $function groom-ns \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"
        printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = program("bash", "bash");
    bash.args(["--norc", "-c", script, "bash"]).args(words);
    bash.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = bash.spawn().expect("bash starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(printed(&["completions", "bash"]).as_bytes())
        .expect("bash reads");
    drop(stdin);
    let run = finish(child);
    assert_eq!((run.code, &run.stderr[..]), (Some(0), ""), "{run:#?}");
    run.stdout
        .split_whitespace()
        .map(ToOwned::to_owned)
        .collect()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn bash_completes() {
    assert_eq!(offered(&["groom-ns", "ru"]), set(&["run"]));
    let all = offered(&["groom-ns", ""]);
    for name in subcommands() {
        assert!(all.contains(&name), "{name}: {all:?}");
    }
    assert!(!all.contains("probe"), "{all:?}");
    // A folder's name ends in a slash, and the cursor stays behind it.
    for (flag, option, name) in [
        ("--clone", "plusdirs", None),
        ("--ro-file", "filenames", Some("/usr")),
    ] {
        let offers = offered(&["groom-ns", "run", flag, "/us"]);
        assert!(offers.contains(option), "{flag}: {offers:?}");
        assert!(name.is_none_or(|name| offers.contains(name)), "{offers:?}");
    }
    for subcommand in ["run", "broker", "prove"] {
        let mut all = offered(&["groom-ns", subcommand, "--"]);
        all.retain(|word| word.starts_with("--") && word != "--help");
        assert_eq!(all, flags(subcommand), "{subcommand}");
    }
    assert!(offered(&["groom-ns", "run", "--clone-m"]).contains("--clone-mode"));
    assert_eq!(
        offered(&["groom-ns", "run", "--clone-mode", "r"]),
        set(&["ro", "rw-git-ro"])
    );
    assert_eq!(offered(&["groom-ns", "completions", "f"]), set(&["fish"]));
    assert_eq!(offered(&["groom-ns", "man", "br"]), set(&["broker"]));
}

#[test]
fn the_other_shells_scripts_have_every_flag() {
    for (shell, before) in [("zsh", "--"), ("fish", "-l ")] {
        let script = printed(&["completions", shell]);
        for flag in flags("run") {
            let named = script.contains(&flag.replace("--", before));
            assert!(named, "{shell}: {flag}");
        }
        assert!(!script.contains("probe"), "{shell}");
    }
}

#[test]
fn other_shells_are_refused() {
    for args in [
        &["completions"][..],
        &["completions", "csh"],
        &["completions", "bash", "zsh"],
        &["man", "nope"],
        &["man", "probe"],
        &["man", "run", "run"],
        &["man", "--x"],
    ] {
        let run = finish(spawn(Command::new(binary()).args(args)));
        run.assert_refused("usage");
        assert_eq!(run.stdout, "", "{run:#?}");
    }
}

/// groff's warnings on this page, all kinds of them, and the text.
fn rendered(page: &str) -> (String, String) {
    let mut groff = program("groff", "groff-base");
    groff.args(["-man", "-ww", "-Tascii", "-P-cbou"]);
    groff
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = groff.spawn().expect("groff starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(page.as_bytes()).expect("groff reads");
    drop(stdin);
    let run = finish(child);
    (run.stderr, run.stdout)
}

#[test]
fn each_manual_page_renders_and_has_every_flag() {
    let (warnings, _) = rendered(".TH x 1\n.nosuchrequest\n");
    assert!(!warnings.is_empty(), "vacuous: groff warns of nothing");
    let (warnings, text) = rendered(&printed(&["man"]));
    assert_eq!(warnings, "");
    for name in subcommands() {
        assert!(
            text.contains(&format!("groom-ns-{name}(1)")),
            "{name}: {text}"
        );
        let (warnings, text) = rendered(&printed(&["man", &name]));
        assert_eq!(warnings, "", "{name}");
        assert!(text.starts_with(&format!("groom-ns-{name}(1)")), "{text}");
        for flag in flags(&name) {
            let has = text.lines().any(|line| {
                let mut words = line.split_whitespace().map(|word| word.split('[').next());
                words.any(|word| word.unwrap_or_default().trim_end_matches(',') == flag)
            });
            assert!(has, "{name}: {flag}: {text}");
        }
    }
    assert!(!text.contains("probe"), "{text}");
    // As it is typed: the command comes after `--`.
    let (_, run) = rendered(&printed(&["man", "run"]));
    assert!(run.contains("groom-ns run [OPTIONS] -- <CMD>..."), "{run}");
}
