#!/usr/bin/env python3
"""The client's side of a measurement, as a process: inside a jail, or on the host.

Reads a call a line, `["name", arguments…]`, and answers each with `{"value": …}` or
`{"failed": why}`. Its first line tells the port that it reaches the proxy at; where it is
given a UNIX socket, it makes that port's listener and hands it out.

Usage: desk.py [SOCKET]
"""

import contextlib
import json
import os
import resource
import socket
import ssl
import sys
import urllib.parse

sys.dont_write_bytecode = True

import client
import load
from processes import OTHER_CORE, Failed

BACKLOG = 4096


class Desk:
    """What can be asked for, by name."""

    def __init__(self):
        self.held = contextlib.ExitStack()

    def wrk(self, *arguments):
        return load.wrk(*arguments)

    def delays(self, port, ca, *arguments):
        tls = ssl.create_default_context(cafile=ca) if ca else None
        return client.delays(port, tls, *arguments)

    def upload(self, port, megabytes):
        return client.upload(port, megabytes)

    def hold(self, port, count):
        """Idle streams, until they are let go."""
        self.held.enter_context(client.streams(port, None, count, every_ms=0))

    def let_go(self):
        self.held.close()


def hand_out_a_listener(path):
    with socket.socket(socket.AF_UNIX) as parent, socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
        parent.connect(path)
        # nginx leaves what it is given as it is.
        listener.setblocking(False)
        socket.send_fds(parent, [b"."], [listener.fileno()])
        return listener.getsockname()[1]


def reach():
    """The port of the proxy, where this process knows it."""
    if len(sys.argv) > 1:
        return hand_out_a_listener(sys.argv[1])
    return urllib.parse.urlsplit(os.environ.get("ANTHROPIC_BASE_URL", "")).port


def main():
    os.sched_setaffinity(0, {OTHER_CORE})
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    desk = Desk()
    print(json.dumps(reach()), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = {"value": getattr(desk, name)(*arguments)}
        except (Failed, OSError) as why:
            answer = {"failed": f"{name}: {why!r}"}
        print(json.dumps(answer), flush=True)


main()
