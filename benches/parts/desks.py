"""Where the load comes from: the host, or a jail that reaches nothing but the proxy.

In a jail the connections are its own loopback's. groom-ns is measured in `groom-ns run
--broker`, as it is used. nginx and haproxy get a listener that was made in a jail of
bubblewrap's, with a network namespace of its own, and serve it from outside as groom-ns
serves its own: the same way of each byte, without a process that copies it. What
groom-ns's jail has and the other hasn't (a filter of syscalls, above all) slows the load
generator, and is groom-ns's to bear.
"""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

from processes import PROXY_CORE, Failed

PROGRAM = Path(__file__).with_name("desk.py").resolve()
# Not what a user's PATH finds first: a jail sees the system's folders alone.
PYTHON = "/usr/bin/python3"
SAMPLE_SECONDS = 0.05
PATIENCE_SECONDS = 90


class Desk:
    """A process that measures. Its calls are desk.py's."""

    def __init__(self, process):
        self.process = process
        self.port = json.loads(self.line())

    def line(self, meanwhile=None):
        for _ in range(int(PATIENCE_SECONDS / SAMPLE_SECONDS)):
            if select.select([self.process.stdout], [], [], SAMPLE_SECONDS)[0]:
                break
            if meanwhile:
                meanwhile()
        line = self.process.stdout.readline()
        if not line:
            raise Failed("the process that makes the load has ended")
        return line

    def call(self, name, *arguments, meanwhile=None):
        """`meanwhile` is called some times a second until the answer is there."""
        self.process.stdin.write(json.dumps([name, *arguments]).encode() + b"\n")
        answer = json.loads(self.line(meanwhile))
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer["value"]


@contextlib.contextmanager
def desk(before=(), output=None, **options):
    """Runs it, behind the arguments of what it runs in."""
    # Unbuffered, so that a line is ready exactly when the pipe is.
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": output, "bufsize": 0}
    arguments = ["setpriv", "--pdeathsig", "KILL", *map(str, before), PYTHON, str(PROGRAM)]
    arguments += map(str, options.pop("arguments", ()))
    with subprocess.Popen(arguments, env={"PATH": os.environ["PATH"]}, **pipes, **options) as process:
        try:
            yield Desk(process)
        finally:
            process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


@contextlib.contextmanager
def in_bubblewrap():
    """A desk in a jail, and the listener at its port."""
    jail = ["bwrap", "--die-with-parent", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    jail += ["--tmpfs", "/tmp", "--ro-bind", PROGRAM.parent, PROGRAM.parent]
    ours, theirs = socket.socketpair()
    with ours, contextlib.ExitStack() as stack:
        with theirs:
            number = theirs.fileno()
            found = stack.enter_context(desk(jail, arguments=[number], pass_fds=[number]))
        _, [listener], _, _ = socket.recv_fds(ours, 1, 1)
        with socket.socket(fileno=listener) as held:
            yield found, held.fileno()


def in_groom_ns(groom_ns, flags, output):
    """A desk as the command of a run."""
    pinned = ["taskset", "--cpu-list", PROXY_CORE]
    return desk([*pinned, groom_ns, "run", "--clone", PROGRAM.parent, *flags, "--"], output, cwd=PROGRAM.parent)
