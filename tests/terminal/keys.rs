//! A key that is typed: it is on no screen, and not the command's.

use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios};
use nix::unistd::Pid;

use crate::common::desk::{PROMPT, state, wait_until};
use crate::common::host::{children_of, status_field};
use crate::common::{Desk, Workspace, jail, path_str};

const RUN: &str = "$G --broker anthropic --key-stdin --upstream http://127.0.0.1:9";
const COMMAND: &str = "-- sh -c 'echo re''ady; read x; echo \"<$x>\"'";

/// Until nothing that is typed is shown, by the lines that a key is typed into.
fn wait_until_hidden(desk: &Desk) {
    desk.wait_for_mode("a key's characters are hidden", |mode| {
        mode.local_flags.contains(LocalFlags::ICANON)
            && !mode.local_flags.contains(LocalFlags::ECHO)
    });
}

/// Types the key and then the command's line, and looks at what was shown.
fn type_both(mut desk: Desk) {
    wait_until_hidden(&desk);
    desk.line("sk-ant-typed-by-hand");
    desk.wait_for("ready");
    desk.line("the commands");
    desk.wait_for("<the commands>");
    desk.wait_for(PROMPT);
    let seen = String::from_utf8_lossy(&desk.seen()).into_owned();
    assert!(!seen.contains("typed-by-hand"), "{seen}");
    assert!(
        seen.contains("the commands\r\n<the"),
        "vacuous: nothing is echoed: {seen}"
    );
    assert!(
        desk.mode().local_flags.contains(LocalFlags::ECHO),
        "it isn't as it was"
    );
}

#[test]
fn it_is_not_shown_and_not_the_commands() {
    let workspace = Workspace::new();
    for (flag, after) in [("", ""), ("--no-tty", ""), ("", "| cat")] {
        let mut desk = Desk::new(&workspace);
        let before = desk.mode();
        desk.line(&format!("{RUN} {flag} {COMMAND} {after}"));
        desk.wait_for("\n");
        wait_until_hidden(&desk);
        assert!(before.local_flags.contains(LocalFlags::ECHO), "vacuous");
        type_both(desk);
    }
}

#[test]
fn it_is_not_shown_after_a_stop() {
    let workspace = Workspace::new();
    for flag in ["", "--no-tty"] {
        let mut desk = Desk::new(&workspace);
        desk.line(&format!("{RUN} {flag} {COMMAND}"));
        desk.wait_for("\n");
        wait_until_hidden(&desk);
        desk.keys(b"\x1a");
        desk.wait_for("Stopped");
        desk.wait_for(PROMPT);
        desk.line("fg");
        desk.wait_for("key for 127.0.0.1: ");
        type_both(desk);
    }
}

#[test]
fn it_is_not_shown_to_a_job_that_comes_to_the_foreground() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    desk.line(&format!("{RUN} {COMMAND} &"));
    desk.wait_for(PROMPT);
    let job = desk.job();
    // By then it waits for the key.
    wait_until("the jail is being confined", || {
        let all = descendants(job.as_raw());
        all.iter()
            .any(|pid| status_field(*pid, "NSpid:").ends_with(" 2"))
    });
    // What is typed meanwhile is the shell's.
    assert_eq!(desk.run("echo for the shell").trim(), "for the shell");
    assert_ne!(state(job), 'T', "nothing has stopped it");
    desk.line("fg");
    type_both(desk);
}

/// The processes that a process has started, and theirs.
fn descendants(pid: i32) -> Vec<i32> {
    let children = children_of(pid);
    let theirs = children.iter().flat_map(|pid| descendants(*pid));
    let theirs: Vec<i32> = theirs.collect();
    [children, theirs].concat()
}

#[test]
fn it_is_asked_for_where_it_is_typed() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    // Whatever standard error is.
    desk.line(&format!("{RUN} {COMMAND} 2>errors"));
    desk.wait_for("\nkey for 127.0.0.1: ");
    wait_until_hidden(&desk);
    desk.line("sk-ant-typed-by-hand");
    // What is shown next begins a line.
    desk.wait_for("\nready");
    desk.line("");
    desk.wait_for(PROMPT);
    let errors = std::fs::read_to_string(workspace.path("errors")).expect("errors");
    assert_eq!(errors, "");
    // Control: one that isn't typed isn't asked for.
    let shown = desk.run(&format!("echo sk-ant-in-a-pipe | {RUN} -- echo ra''n"));
    assert!(
        shown.contains("ran") && !shown.contains("key for"),
        "{shown}"
    );
}

/// A broker that no run is tied to.
fn broker(workspace: &Workspace) -> String {
    format!(
        "{} broker anthropic --listen unix:{} --key-stdin --upstream http://127.0.0.1:9",
        path_str(&jail::binary()),
        path_str(&workspace.path("broker.sock"))
    )
}

/// Types it to a broker that asks for it, which serves then.
fn type_it(desk: &mut Desk, before: &Termios) {
    desk.wait_for("key for 127.0.0.1: ");
    wait_until_hidden(desk);
    desk.line("sk-ant-typed-by-hand");
    desk.wait_for("\r\nready unix:");
    assert!(desk.mode() == *before, "it isn't as it was");
    desk.keys(b"\x03");
    desk.wait_for(PROMPT);
    assert_eq!(desk.run("echo $?").trim(), "0");
    let seen = String::from_utf8_lossy(&desk.seen()).into_owned();
    assert!(!seen.contains("typed-by-hand"), "{seen}");
}

#[test]
fn a_broker_alone_asks_for_it() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let plain = |desk: &Desk| {
        // As it is while a program runs: bash has it in another mode at its prompt.
        let mode = desk.mode();
        assert!(mode.local_flags.contains(LocalFlags::ECHO), "vacuous");
        mode
    };
    desk.line("echo be''gin; read x");
    desk.wait_for("begin");
    let before = plain(&desk);
    desk.line("");
    desk.wait_for(PROMPT);
    desk.line(&broker(&workspace));
    type_it(&mut desk, &before);
    // After a stop, and to a job that comes to the foreground.
    desk.line(&broker(&workspace));
    desk.wait_for("key for 127.0.0.1: ");
    desk.keys(b"\x1a");
    desk.wait_for("Stopped");
    desk.wait_for(PROMPT);
    assert_eq!(desk.run("echo for the shell").trim(), "for the shell");
    desk.line("fg");
    type_it(&mut desk, &before);
    desk.line(&format!("{} &", broker(&workspace)));
    desk.wait_for(PROMPT);
    assert_eq!(desk.run("echo for the shell").trim(), "for the shell");
    assert_ne!(state(desk.job()), 'T', "nothing has stopped it");
    desk.line("fg");
    type_it(&mut desk, &before);
}

/// dash: bash would put the terminal back itself.
#[test]
fn a_stop_while_it_is_asked_for_leaves_the_terminal_as_it_was() {
    let workspace = Workspace::new();
    for line in [broker(&workspace), format!("{RUN} {COMMAND}")] {
        let mut desk = Desk::with(&workspace, &["dash", "-i"]);
        desk.wait_for(PROMPT);
        let before = desk.mode();
        desk.line(&line);
        desk.wait_for("key for 127.0.0.1: ");
        wait_until_hidden(&desk);
        desk.keys(b"\x1a");
        desk.wait_for(PROMPT);
        assert!(desk.mode() == before, "it isn't as it was");
        desk.line("fg");
        desk.wait_for("key for 127.0.0.1: ");
        wait_until_hidden(&desk);
        desk.keys(b"\x03");
        desk.wait_for(PROMPT);
        assert!(desk.mode() == before, "it isn't as it was");
        assert_eq!(desk.run("echo $?").trim(), "125");
        let seen = String::from_utf8_lossy(&desk.seen()).into_owned();
        assert_eq!(seen.matches("key for").count(), 2, "{seen}");
    }
}

/// From a script: an interactive shell would put the terminal back itself.
#[test]
fn a_signal_while_a_broker_asks_leaves_the_terminal_as_it_was() {
    let workspace = Workspace::new();
    for (signal, code) in [
        (Signal::SIGINT, "125"),
        (Signal::SIGTERM, "125"),
        (Signal::SIGHUP, "125"),
        (Signal::SIGQUIT, "125"),
        (Signal::SIGKILL, "137"),
        (Signal::SIGALRM, "142"),
    ] {
        // Nothing else may end by them.
        let script = format!(
            "trap : INT HUP QUIT; echo begin; read x; {}; echo \"<$?>\"; exec sleep 60",
            broker(&workspace)
        );
        let mut desk = Desk::with(&workspace, &["bash", "-c", &script]);
        desk.wait_for("begin");
        let before = desk.mode();
        desk.line("");
        desk.wait_for("key for 127.0.0.1: ");
        wait_until_hidden(&desk);
        kill(Pid::from_raw(desk.child()), signal).expect("our broker");
        let said = desk.wait_for(&format!("<{code}>"));
        desk.wait_for_mode("as it was", |mode| *mode == before);
        // On a line of its own.
        let is_refused = said.starts_with("\r\n") && said.contains("before the key was read");
        assert_eq!(is_refused, code == "125", "{said}");
    }
}
