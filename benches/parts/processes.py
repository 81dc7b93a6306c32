"""Processes of the bench: started on a core, measured through /proc, ended by pid."""

import contextlib
import os
import socket
import subprocess
import time

# The proxy under test has a core of its own; the load generator and the upstream share the other.
PROXY_CORE, OTHER_CORE = 0, 1
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """The bench can't go on; says why."""


@contextlib.contextmanager
def started(arguments, core, log, port, fds=(), more=()):
    """Starts a server that dies with this process; yields its pid once its port answers, if
    it can be reached from here. `fds` are handed on, `more` is for its environment."""
    pinned = ["setpriv", "--pdeathsig", "KILL", "taskset", "--cpu-list", str(core), *map(str, arguments)]
    with open(log, "ab") as output:
        server = subprocess.Popen(
            pinned,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Nothing else of the caller's environment: a proxy variable would lead astray.
            env={"PATH": os.environ["PATH"], **dict(more)},
            pass_fds=fds,
        )
    try:
        if port:
            wait_until_it_answers(server, port, log)
        yield server.pid
    finally:
        server.terminate()
        try:
            server.wait(5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_until_it_answers(server, port, log):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    with open(log, encoding="utf-8", errors="replace") as file:
        raise Failed(f"{server.args[5:7]} doesn't listen on {port}:\n{file.read()[-2000:]}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def child(pid):
    """The first child of a process, once it is there."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            if found := file.read().split():
                return int(found[0])
        time.sleep(0.02)
    raise Failed(f"process {pid} has no child")


def cpu_seconds(pid):
    """User and system time of all its threads: proc_pid_stat(5), fields 14 and 15."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def waited_seconds(pid):
    """How long its first thread could have run, but something else had the core."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e9


def memory(pid):
    """Proportional set size, in KiB."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    except PermissionError as why:
        # groom-ns broker isn't dumpable, so its own user can't read this.
        raise Failed("memory is measured by root alone: leave out memory and upload with --parts") from why
