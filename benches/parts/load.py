"""Load made by wrk: one thread, on the core that isn't the proxy's."""

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass

from client import HEADERS, body
from processes import Failed, cpu_seconds, waited_seconds

MICRO = 1e6

SCRIPT = """
wrk.method = {method}
wrk.path = {path}
wrk.headers = {{ {headers} }}
wrk.body = {body}
function done(summary, latency)
  local errors = summary.errors
  print(string.format('{{"requests":%d,"micros":%d,"p50":%d,"p99":%d,"errors":%d}}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


@dataclass
class Load:
    """What a proxy did under a load: times in seconds."""

    rate: float
    p50: float
    p99: float
    cpu_a_thousand: float
    busy: float
    waiting: float


# A small prompt and a small question, with an SDK's headers.
METHODS = {"POST": ("/v1/messages?beta=true", body()), "GET": ("/v1/models?limit=20", None)}


def script(method, secret):
    path, sent = METHODS[method]
    # A JSON string without exotic characters is a Lua string.
    fields = dict(HEADERS, **{"x-api-key": secret}, **({"Content-Type": "application/json"} if sent else {}))
    return SCRIPT.format(
        method=json.dumps(method),
        path=json.dumps(path),
        headers=", ".join(f"[{json.dumps(name)}] = {json.dumps(value)}" for name, value in fields.items()),
        body="[==[" + sent + "]==]" if sent else "nil",
    )


def load(desk, url, how, seconds, pid=None, log=None):
    """`how`: method, connections, and what is in the header for the key, None for the
    token. Without a pid and its log: straight to the upstream, which isn't measured."""
    before = (cpu_seconds(pid), waited_seconds(pid)) if pid else (0, 0)
    said = desk.call("wrk", url, *how, seconds)
    after = (cpu_seconds(pid), waited_seconds(pid)) if pid else (0, 0)
    took = said["micros"] / MICRO
    if log:
        # The lines of the last answers may be still to come.
        there_is_a_line_a_request(log, said["requests"] - how[1])
    return Load(
        rate=said["requests"] / took,
        p50=said["p50"] / MICRO,
        p99=said["p99"] / MICRO,
        cpu_a_thousand=(after[0] - before[0]) * 1000 / said["requests"],
        busy=(after[0] - before[0]) / took,
        waiting=(after[1] - before[1]) / took,
    )


def wrk(url, method, connections, secret, seconds):
    """On the core of the process that calls it."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script(method, secret or HEADERS["x-api-key"]))
        file.flush()
        arguments = ["wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{seconds}s"]
        arguments += ["--timeout", "10s", "--script", file.name, url]
        ended = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=seconds + 30)
    found = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    if not found:
        raise Failed(f"wrk: {ended.stdout} {ended.stderr}")
    said = json.loads(found[0])
    if said["errors"] or not said["requests"]:
        raise Failed(f"{url} under {connections} connections: {said}")
    return said


def there_is_a_line_a_request(log, requests):
    """Else the proxies wouldn't do the same work. Empties the log, which would fill the disk."""
    with open(log, "rb") as file:
        lines = sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
    if lines < requests:
        raise Failed(f"{log} has {lines} lines for {requests} requests")
    os.truncate(log, 0)
