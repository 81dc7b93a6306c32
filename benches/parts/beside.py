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
METHODS = ("POST", "GET")


def rows_with_limits():
    """By the rows of benches/broker: what it is here, beside whom, the limit, and whether
    more is better."""
    for method in METHODS:
        for count in ("1 connection", "32 connections", "256 connections"):
            what = f"{method} requests a second through the jail's TCP, {count}"
            yield f"{method}, {count}: requests/s", (what, BOTH, 1.0, True)
        for share in ("the median", "p99"):
            what = f"latency added to a {method}, {share}"
            yield f"{method}, 1 connection: added to {share}, µs", (what, BOTH, 1.0, False)
    for count in ("1 stream", "200 streams"):
        what = f"delay added to an event on {count}, p99"
        yield f"an event on {count}: added to p99, µs", (what, ("nginx",), 1.0, False)
    yield "100 MB up: seconds", ("100 MB up, seconds", ("nginx",), 1.0, False)
    idle = "memory added by 1,000 idle streams (PSS), KiB"
    yield idle, ("memory of 1,000 idle streams", ("nginx",), 0.7, False)


ROWS = dict(rows_with_limits())


def outcomes(ground):
    ground.shown("the broker under load")
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = [BROKER, "--json", file.name, *(["--quick"] if ground.quick else [])]
        environment = {**os.environ, "GROOM_NS_BIN": str(ground.groom_ns)}
        # Its own table has more rows than there are limits.
        ended = subprocess.run(words, check=False, stdout=sys.stderr, env=environment)
        if ended.returncode != 0:
            raise Failed("benches/broker failed")
        rows = json.load(open(file.name, encoding="utf-8"))
    absent = [name for name in ROWS if name not in rows]
    if absent:
        raise Failed(f"benches/broker has no row {', '.join(absent)}")
    return [judged(rows[name], *row) for name, row in ROWS.items()]


def judged(values, what, peers, limit, is_more_better):
    """Beside the better of the peers, by their medians."""
    better = (max if is_more_better else min)(peers, key=lambda name: median(values[name]))
    return Outcome(what, "root", better, limit, "", values[OURS], values[better], is_more_better)
