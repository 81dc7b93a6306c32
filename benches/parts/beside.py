"""The broker's rows under load: `benches/broker` measures them, and here is what they must be."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from verdict import Outcome
from processes import Failed

BROKER = Path(__file__).resolve().parent.parent / "broker"
OURS = "groom-ns"
BOTH = ("nginx", "haproxy")
MORE_IS_BETTER = True

# By the rows of benches/broker: what it is here, beside whom, the limit, whether more is better.
REQUESTS = {f"{method}, {count}: requests/s": (f"{method} requests a second through the jail's TCP, {count}", BOTH, 1.0, True)
            for method in ("POST", "GET") for count in ("1 connection", "32 connections", "256 connections")}
ADDED = {f"{method}, 1 connection: added to {short}, µs": (f"latency added to a {method}, {short}", BOTH, 1.0, False)
         for method in ("POST", "GET") for short in ("the median", "p99")}
EVENTS = {f"an event on {count}: added to p99, µs": (f"delay added to an event on {count}, p99", ("nginx",), 1.0, False)
          for count in ("1 stream", "200 streams")}
ROWS = {
    **REQUESTS,
    **ADDED,
    **EVENTS,
    "100 MB up: seconds": ("100 MB up, seconds", ("nginx",), 1.0, False),
    "memory added by 1,000 idle streams (PSS), KiB": ("memory of 1,000 idle streams", ("nginx",), 0.7, False),
}


def outcomes(ground):
    ground.shown("the broker under load")
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = [BROKER, "--json", file.name, *(["--quick"] if ground.quick else [])]
        # Its own table has more rows than there are limits.
        ended = subprocess.run(words, check=False, stdout=sys.stderr, env={**os.environ, "GROOM_NS_BIN": str(ground.groom_ns)})
        if ended.returncode != 0:
            raise Failed("benches/broker failed")
        rows = json.load(open(file.name, encoding="utf-8"))
    return [judged(rows[name], *row) if name in rows else missing(name) for name, row in ROWS.items()]


def missing(name):
    raise Failed(f"benches/broker has no row {name!r}")


def judged(values, what, peers, limit, is_more_better):
    """Beside the better of the peers, by their medians."""
    better = (max if is_more_better else min)(peers, key=lambda name: median(values[name]))
    return Outcome(what, "root", better, limit, "", values[OURS], values[better], is_more_better)
