//! What goes through, unchanged and at any length.

use crate::common::{Desk, Workspace};

#[test]
fn every_byte_goes_through_both_ways() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    // In hexadecimal, what came in; then all that there are, out.
    let script = "stty raw -echo; printf go; head -c 256 | od -An -v -tx1 | tr -d ' \\n'; \
                  printf '<'; i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %o $i)\"; i=$((i+1)); done; printf '>>>'";
    desk.line(&format!("$G -- sh -c '{}'", script.replace('\'', "'\\''")));
    desk.wait_for("\n");
    desk.wait_for("go");
    let all: Vec<u8> = (0..=255).collect();
    desk.keys(&all);
    let came_in = desk.wait_for("<");
    let wanted: Vec<String> = all.iter().map(|byte| format!("{byte:02x}")).collect();
    let wanted = wanted.concat();
    assert_eq!(came_in, wanted);
    desk.wait_for(">>>");
    let seen = desk.seen();
    assert!(seen.windows(256).any(|part| part == all), "{seen:?}");
}

#[test]
fn a_large_paste_comes_back_whole() {
    const LINES: usize = 4000;
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let count = LINES * 12;
    desk.line(&format!(
        "$G -- sh -c 'stty raw -echo; echo be''gin; head -c {count}; echo en''d'"
    ));
    desk.wait_for("begin");
    let paste: Vec<String> = (0..LINES).map(|line| format!("paste{line:06}\n")).collect();
    let paste = paste.concat();
    // While as much comes back: neither side waits for the other.
    desk.keys(&paste);
    let back = desk.wait_for("end");
    assert_eq!(back.trim_start_matches(['\r', '\n']), paste);
}

#[test]
fn what_was_written_last_is_shown() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let shown = desk.run("$G -- sh -c 'seq 1 30000; printf la''st'; echo");
    assert_eq!(shown.lines().count(), 30_001, "{}", shown.len());
    assert!(shown.contains("30000\nlast"));
}

#[test]
fn a_key_that_is_typed_is_not_shown_and_not_the_commands() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let before = desk.mode();
    desk.line("$G --broker anthropic --key-stdin --upstream http://127.0.0.1:9 -- sh -c 'echo re''ady; read x; echo \"<$x>\"'");
    desk.wait_for("\n");
    desk.wait_for_mode("a key's characters are hidden", |mode| {
        use nix::sys::termios::LocalFlags;
        mode.local_flags.contains(LocalFlags::ICANON)
            && !mode.local_flags.contains(LocalFlags::ECHO)
    });
    desk.line("sk-ant-typed-by-hand");
    desk.wait_for("ready");
    desk.line("the commands");
    desk.wait_for("<the commands>");
    desk.wait_for(crate::common::desk::PROMPT);
    let seen = String::from_utf8_lossy(&desk.seen()).into_owned();
    assert!(!seen.contains("typed-by-hand"), "{seen}");
    assert!(
        seen.contains("the commands\r\n<the"),
        "vacuous: nothing is echoed: {seen}"
    );
    assert!(desk.mode() == before, "the terminal isn't as it was");
}
