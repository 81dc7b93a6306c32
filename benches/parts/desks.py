"""Where the load comes from: the host, or a jail that reaches nothing but the proxy.

In a jail the connections are its own loopback's. groom-ns is measured in `groom-ns run
--broker`, as it is used. nginx and haproxy get a listener that was made in the same jail,
`groom-ns run` without a broker, and serve it from outside as groom-ns serves its own: the
same way of each byte, without a process that copies it, and the same load generator
behind the same filter.
"""

import concurrent.futures
import contextlib
import json
import os
import select
import socket
import subprocess
from pathlib import Path

from processes import PROXY_CORE, Failed

PROGRAM = Path(__file__).with_name("desk.py").resolve()
# Not what a user's PATH finds first: a jail sees the system's folders alone.
PYTHON = "/usr/bin/python3"
# Where a jail shows its --uds.
IN_JAIL = "/run/broker.sock"
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


def in_groom_ns(groom_ns, flags, output, arguments=()):
    """A desk as the command of a run."""
    jail = ["taskset", "--cpu-list", PROXY_CORE, groom_ns, "run", "--clone", PROGRAM.parent, *flags, "--"]
    return desk(jail, output, arguments=arguments, cwd=PROGRAM.parent)


@contextlib.contextmanager
def with_a_listener(groom_ns, path, output):
    """A desk in a jail without a broker, and a listener of that jail's, which it hands out
    through the socket at `path`, its --uds."""
    path.unlink(missing_ok=True)
    with socket.create_server(str(path), family=socket.AF_UNIX) as door:
        with concurrent.futures.ThreadPoolExecutor() as threads:
            handed = threads.submit(wait_for_a_listener, door)
            with in_groom_ns(groom_ns, ["--uds", path], output, [IN_JAIL]) as found:
                with socket.socket(fileno=handed.result()) as held:
                    yield found, held.fileno()


def wait_for_a_listener(door):
    """Answers as a broker's /healthz does, until a descriptor comes."""
    door.settimeout(PATIENCE_SECONDS)
    while True:
        connection, _ = door.accept()
        with connection:
            _, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
            if descriptors:
                return descriptors[0]
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
