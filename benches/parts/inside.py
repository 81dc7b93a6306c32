"""Rows about a command's own speed: the same program inside the jail and outside of it.
How long the jail takes to start is no part of it."""

import contextlib
import functools
import os
import subprocess
from statistics import median

from processes import OTHER_CORE
from timing import NANO, interleaved, said_and_ended
from verdict import Outcome
from view import ENVIRONMENT

CALLS = {"getppid": 1.02, "read": 1.02, "write": 1.02, "futex": 1.02, "stat": 1.05, "open and close": 1.05}


@contextlib.contextmanager
def caller(arguments):
    """Yields the function that has a batch of calls made, and returns the seconds of one."""
    pipe = subprocess.PIPE
    program = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, env=ENVIRONMENT, text=True, bufsize=1)

    def batch(name):
        program.stdin.write(f"{name}\n")
        program.stdin.flush()
        return float(program.stdout.readline()) * NANO

    try:
        yield batch
    finally:
        program.stdin.close()
        program.wait(20)


# Beside every row without a limit: what the kernel takes for a filter and a landlock
# domain that allow everything. Nothing that confines can be faster.
LEAST = "outside, with a filter and a landlock domain that allow all"


def outcomes(ground, what, limit, unit, got):
    yield Outcome(f"{what} inside", ground.who, "outside", limit, unit, got["inside"], got["outside"])
    yield Outcome(f"{what} inside", ground.who, LEAST, None, unit, got["inside"], got["confined"])


def three(view, *command):
    """The arguments that run the bench's tool inside, outside, and confined to nothing."""
    tool, words = str(view.clone / "tool"), list(map(str, command))
    return {"inside": view.ours(tool, *words), "outside": [tool, *words], "confined": [tool, "confined", *words]}


def calls(ground):
    """All callers on one core, one batch at a time."""
    ground.shown("single calls")
    os.sched_setaffinity(0, {OTHER_CORE})
    view = ground.view()
    with contextlib.ExitStack() as stack:
        words = three(view, "calls", view.clone)
        callers = {where: stack.enter_context(caller(those)) for where, those in words.items()}
        for name, limit in CALLS.items():
            got = interleaved(lambda batch, name=name: batch(name), callers, ground.rounds(400))
            yield from outcomes(ground, name, limit, "ns", got)


def compared(ground, view, command, what, limit, rounds, before=lambda: None):
    ground.shown(what)

    def measure(arguments):
        before()
        return int(said_and_ended(arguments)[0]) * NANO

    got = interleaved(measure, three(view, "timed", *command), ground.rounds(rounds))
    unit = "s" if median(got["outside"]) > 1 else "ms"
    yield from outcomes(ground, what, limit, unit, got)


def git(*arguments):
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    subprocess.run(["git", *who, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def git_status(ground):
    clone = ground.clone("many")
    for index in range(200):
        folder = clone / f"{index // 20}" / f"{index}"
        folder.mkdir(parents=True)
        for name in range(100):
            (folder / f"{name}.c").write_text(f"int f{index}_{name};\n")
    git("-C", clone, "add", "--all")
    git("-C", clone, "commit", "--quiet", "--message", "files")
    # Files as young as the index are read again each time, until it is written later.
    for path in clone.rglob("*.c"):
        os.utime(path, (1e9, 1e9))
    git("-C", clone, "status")
    command = ("git", "--no-optional-locks", "-C", clone, "status", "--short")
    yield from compared(ground, ground.view(name="many"), command, "`git status` on 20,000 files", 1.05, 200)


def find(ground):
    # It ends with 1 where a folder of /usr is root's alone.
    command = ("/bin/sh", "-c", "find /usr 2>/dev/null; test $? -le 1")
    yield from compared(ground, ground.view(), command, "`find /usr`", 1.05, 50)


def node(ground):
    yield from compared(ground, ground.view(), ("node", "-e", "0"), "a node start", 1.05, 200)


MODULE = """
use std::collections::BTreeMap;
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Item{n} {{ pub name: String, pub values: Vec<u64>, pub by_name: BTreeMap<String, Vec<u8>> }}
pub fn sum(items: &[Item{n}]) -> u64 {{ items.iter().flat_map(|item| item.values.iter()).sum() }}
pub fn said(items: &[Item{n}]) -> String {{ items.iter().map(|item| format!("{{item:?}}")).collect() }}
"""


def readable_toolchain(work):
    """A copy that everybody can read; of links where the file system allows them."""
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    copy = work / "toolchain"
    copy.mkdir()
    for part in ("bin", "lib"):
        if subprocess.run(["cp", "-al", f"{sysroot}/{part}", copy], check=False, stderr=subprocess.DEVNULL).returncode:
            subprocess.run(["cp", "-a", f"{sysroot}/{part}", copy], check=True)
    return copy


def cargo_build(ground, sysroot):
    """A crate of 40 modules, from nothing, offline. The target folder is the out-dir."""
    clone, out = ground.clone("crate"), ground.folder / "target"
    (clone / "src").mkdir()
    out.mkdir()
    (clone / "Cargo.toml").write_text('[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n')
    uses = "\n".join(f'    println!("{{}}{{}}", m{n}::sum(&[]), m{n}::said(&[]));' for n in range(40))
    modules = "".join(f"mod m{n};\n" for n in range(40))
    (clone / "src/main.rs").write_text(f"{modules}fn main() {{\n{uses}\n}}\n")
    for n in range(40):
        (clone / f"src/m{n}.rs").write_text(MODULE.format(n=n))
    values = {"PATH": f"{sysroot}/bin:/usr/bin:/bin", "CARGO_HOME": out / "home", "TMPDIR": out}
    values |= {"CARGO_TARGET_DIR": out / "target"}
    ENVIRONMENT.update({name: str(value) for name, value in values.items()})
    flags = ["--ro-file", sysroot, "--out-dir", out, *(word for name in values for word in ("--env", name))]
    command = (f"{sysroot}/bin/cargo", "build", "--offline", "--quiet", "--manifest-path", clone / "Cargo.toml")
    view = ground.view(flags, "crate")
    subprocess.run(command, check=True, env=ENVIRONMENT)  # Which makes a Cargo.lock.
    clean = functools.partial(subprocess.run, ["rm", "-rf", out / "target"], check=True)
    yield from compared(ground, view, command, "a cargo build", 1.02, 20, clean)
