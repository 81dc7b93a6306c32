"""Rows about memory and size. Memory is read by root: groom-ns may not be dumpable.

A jail's own processes are the two that stay beside the command: the one that was
started, and pid 1 of the jail. The command's own memory isn't counted."""

import contextlib
import os
import signal
import time
from pathlib import Path

from verdict import Outcome
from processes import Failed, memory
from timing import spawn

JAILS = 200
KERNEL = ("Slab:", "KernelStack:", "PageTables:", "SecPageTables:", "Percpu:")
MIB = 1 << 20


@contextlib.contextmanager
def alive(ground, arguments, count):
    """That many jails whose commands have begun; yields their pids."""
    ours, its = os.pipe2(os.O_CLOEXEC)
    pids = []
    try:
        pids += [spawn([*ground.prefix, *arguments], its) for _ in range(count)]
        os.close(its)
        said = b""
        while said.count(b"\n") < count:
            piece = os.read(ours, 65536)
            said += piece
            if not piece:
                raise Failed(f"not all jails came up: {' '.join(arguments)}")
        yield pids
    finally:
        os.close(ours)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


def children():
    """Every process's, by its pid (proc_pid_stat(5), field 4)."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                found.setdefault(int(fields[1]), []).append(int(folder.name))
    return found


def own_processes(pids):
    """What was started, and its one child; below that is the command."""
    of = children()
    both = [process for pid in pids for process in (pid, *of.get(pid, []))]
    if len(both) != 2 * len(pids) or not all(of.get(process) for process in both):
        raise Failed(f"{len(pids)} jails have {len(both)} own processes")
    return both


def kernel_memory():
    """KiB of all that grows with processes, namespaces and mounts."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(KERNEL))


def held_by(ground, arguments, count):
    """PSS of the jails' own processes, and what the kernel took, both in KiB."""
    before = kernel_memory()
    with alive(ground, arguments, count) as pids:
        user = sum(memory(process) for process in own_processes(pids))
        kernel = kernel_memory() - before
    # Namespaces are taken apart after their last process has gone.
    time.sleep(0.5)
    return user, kernel


def both(ground, count, rounds):
    """For us and bubblewrap in turn: the lists of both numbers."""
    view = ground.view()
    command = (str(view.clone / "tool"), "alive")
    found = {"ours": [], "bwrap": []}
    for number in range(rounds):
        for name in sorted(found, reverse=bool(number % 2)):
            arguments = view.ours(*command) if name == "ours" else view.bwrap(*command)
            found[name].append(held_by(ground, arguments, count))
    return [[list(values) for values in zip(*found[name])] for name in ("ours", "bwrap")]


def at_once(ground):
    ground.shown(f"{JAILS} jails at once")
    (ours, our_kernel), (theirs, their_kernel) = both(ground, JAILS, ground.rounds(10))
    what = f"{JAILS} jails at once: memory of their own processes"
    yield Outcome(what, ground.who, "bubblewrap", 0.5, "KiB", ours, theirs)
    what = f"{JAILS} jails at once: kernel memory"
    yield Outcome(what, ground.who, "bubblewrap", None, "KiB", our_kernel, their_kernel)


def alone(ground):
    ground.shown("the memory of one jail")
    (ours, _), (theirs, _) = both(ground, 1, ground.rounds(20))
    what = "memory of the supervisor and pid 1 together (PSS)"
    yield Outcome(what, ground.who, "bubblewrap's two processes", 1.0, "KiB", ours, theirs)


def size(ground):
    yield Outcome("the binary, stripped, static", "", "", 5, "MiB", [ground.groom_ns.stat().st_size / MIB])
