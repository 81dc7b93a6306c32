"""The row about a jail with a broker: from nothing to the first answered request.

Beside it: nginx as the broker, bubblewrap, and in its jail socat, which forwards a port
to nginx's socket. All three are started at once, and the command asks until it is
answered; whoever comes up last is waited for, and nobody else."""

import os
import signal
import time

import servers
import tls
from client import TOKEN
from timing import NANO, interleaved, said_and_ended, spawn
from verdict import Outcome

PORT = 8080
INSIDE = f"socat TCP-LISTEN:{PORT},bind=127.0.0.1,fork,reuseaddr UNIX-CONNECT:/run/broker/socket 2>/dev/null & exec "


def with_broker(ground):
    ground.shown("a jail with a broker, until the first answer")
    work = ground.folder / "broker"
    (work / "run").mkdir(parents=True)
    place = servers.Place(work, ground.groom_ns, *tls.make(work))
    port, api = servers.api(place)
    flags = ["--broker", "anthropic", "--broker-log", work / "groom-ns.log", *servers.groom_ns_flags(place, port)]
    view = ground.view()
    ask = (str(view.clone / "tool"), "ask")
    with_ours = ground.view(flags).ours(*ask)
    values = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{PORT}", "ANTHROPIC_API_KEY": TOKEN}
    further = ["--ro-bind", str(work / "run"), "/run/broker"]
    further += [word for name, value in values.items() for word in ("--setenv", name, value)]
    theirs = view.bwrap("/bin/sh", "-c", INSIDE + " ".join(ask), further=further)
    socket = work / "run/socket"
    nginx = list(map(str, servers.nginx_proxy_at(place, f"unix:{socket}", port)))

    def started_by_us():
        said, begin, _ = said_and_ended(with_ours)
        return int(said) * NANO - begin

    def peers():
        socket.unlink(missing_ok=True)
        begin = time.monotonic_ns() * NANO
        broker = spawn(nginx)
        try:
            said, _, _ = said_and_ended(theirs)
        finally:
            os.kill(broker, signal.SIGKILL)
            os.waitpid(broker, 0)
        return int(said) * NANO - begin

    with api:
        ways = {"ours": started_by_us, "peers": peers}
        got = interleaved(lambda measure: measure(), ways, ground.rounds(200))
    what = "start with `--broker` until the first answered request"
    yield Outcome(what, ground.who, "bubblewrap + nginx + socat", 0.5, "ms", got["ours"], got["peers"])
