//! Real work: what an agent does all day, with threads, in the jail.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::host::system_program;
use common::{Jail, Workspace, path_str};

/// With the flag the supervisor answers what the filter denies, and runtimes probe a lot.
fn with_and_without_explanation(jail: impl Fn() -> Jail) -> [Jail; 2] {
    [jail(), jail().switch("--explain-denials")]
}

#[test]
fn git_status_and_diff() {
    system_program("git", "git");
    let workspace = Workspace::with_git();
    fs::write(workspace.clone_dir().join("tracked"), "changed\n").expect("a change");
    for (writable, mode) in [
        (false, "ro"),
        (true, "rw-git-ro"),
        (true, "rw-git-ro, explained"),
    ] {
        let jail = || {
            let jail = match mode {
                "rw-git-ro, explained" => workspace.jail().switch("--explain-denials"),
                _ => workspace.jail(),
            };
            if writable { jail.writable() } else { jail }
        };
        let run = jail().run_program(&["git", "status", "--short"]);
        assert_eq!(run.outcome(), " M tracked", "{mode}");
        let run = jail().run_program(&["git", "diff"]);
        assert!(run.outcome().contains("+changed"), "{mode}: {run:#?}");
        let run = jail().run_program(&["git", "log", "--format=%s"]);
        assert_eq!(run.outcome(), "first", "{mode}");
    }
}

#[test]
fn python_with_threads_and_processes() {
    let python = system_program("python3", "python3");
    let workspace = Workspace::new();
    let script = "\
import multiprocessing, subprocess, sys, tempfile, threading
def square(n):
    return n * n
if __name__ == '__main__':
    done = []
    threads = [threading.Thread(target=done.append, args=(n,)) for n in range(8)]
    [t.start() for t in threads]; [t.join() for t in threads]
    assert sorted(done) == list(range(8))
    with multiprocessing.Pool(2) as pool:
        assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]
    assert subprocess.check_output(['uname']).strip() == b'Linux'
    with tempfile.NamedTemporaryFile() as file:
        file.write(b'x')
    print('python works')
";
    for jail in with_and_without_explanation(|| workspace.jail()) {
        let run = jail.run_program(&[&python, "-c", script]);
        assert_eq!(run.outcome(), "python works");
    }
}

#[test]
fn node_with_worker_threads() {
    let node = system_program("node", "nodejs");
    let workspace = Workspace::new();
    let script = "\
const { Worker } = require('node:worker_threads');
const { execFileSync } = require('node:child_process');
const server = require('node:http').createServer((_, response) => response.end('hi'));
const work = new Worker('require(\"node:worker_threads\").parentPort.postMessage(6 * 7)', { eval: true });
work.on('message', (answer) => {
  require('node:fs').writeFileSync('/tmp/x', String(answer));
  const name = execFileSync('uname').toString().trim();
  server.listen(0, '127.0.0.1', async () => {
    const text = await (await fetch('http://127.0.0.1:' + server.address().port)).text();
    console.log(name, answer, text);
    server.close();
  });
});
";
    for jail in with_and_without_explanation(|| workspace.jail()) {
        let run = jail.run_program(&[&node, "-e", script]);
        assert_eq!(run.outcome(), "Linux 42 hi");
    }
}

#[test]
fn a_c_program_with_threads() {
    system_program("gcc", "gcc");
    let workspace = Workspace::with_git();
    workspace.file(
        "clone/main.c",
        "#include <pthread.h>\n#include <stdio.h>\n\
         static void *work(void *n) { *(int *)n += 41; return n; }\n\
         int main(void) { int n = 1; pthread_t t; pthread_create(&t, 0, work, &n);\n\
         pthread_join(t, 0); printf(\"%d\\n\", n); return 0; }\n",
    );
    let script = "gcc -O1 -Wall -pthread main.c -o main && ./main";
    for jail in with_and_without_explanation(|| workspace.jail().writable()) {
        let run = jail.run_program(&["sh", "-c", script]);
        assert_eq!(run.outcome(), "42");
    }
}

#[test]
fn cargo_build_offline() {
    system_program("gcc", "gcc");
    let sysroot = sysroot();
    let workspace = Workspace::with_git();
    workspace.file(
        "clone/Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.0.0\"\nedition = \"2021\"\n",
    );
    workspace.file(
        "clone/src/main.rs",
        "fn main() { let t = std::thread::spawn(|| 42); println!(\"{}\", t.join().unwrap()); }\n",
    );
    let path = format!(
        "PATH={}/bin:/usr/local/bin:/usr/bin:/bin",
        path_str(&sysroot)
    );
    let script = "rm -rf target && cargo build --offline --quiet && ./target/debug/small && \
        cargo test --offline -q";
    let jail = || {
        let jail = workspace.jail().writable();
        jail.flag("--ro-file", &sysroot).flag("--env", &path)
    };
    for jail in with_and_without_explanation(jail) {
        let run = jail.run_program(&["sh", "-c", script]);
        assert_eq!(run.outcome().lines().next(), Some("42"), "{run:#?}");
    }
    // No TMPDIR or home of the host is needed, and the build is the host's to keep.
    assert!(workspace.clone_dir().join("target/debug/small").exists());
}

/// The toolchain to give: a folder whose files the tests' user can read.
fn sysroot() -> PathBuf {
    if let Some(path) = std::env::var_os("GROOM_NS_SYSROOT") {
        return path.into();
    }
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let output = output.expect("this test needs rustc, or GROOM_NS_SYSROOT: install a toolchain");
    String::from_utf8(output.stdout)
        .expect("a path that is text")
        .trim_end()
        .into()
}
