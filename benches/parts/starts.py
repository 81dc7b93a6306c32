"""Rows about starts and ends."""

import os
import time

from timing import NANO, differences, ended_well, interleaved, said_and_ended, spawn, start_to_end
from verdict import Outcome

TRUE = "/usr/bin/true"
FURTHER = 40
JAILS = 200
AT_ONCE = 2
# What nobody who has these layers can be faster than: rows without a limit.
LAYERED = "the bare program with a pid 1, two filters and a landlock domain"


def start(ground):
    view = ground.view()
    count = view.check()
    ground.shown(f"start to end of true, {count} mounts in each")
    jails = {"ours": view.ours(TRUE), "bwrap": view.bwrap(TRUE), "bare": view.bare_words(TRUE)}
    jails["layered"] = view.bare_words(TRUE, layers=True)
    got = interleaved(start_to_end, jails, ground.rounds(1000))
    what = "start to end of `true`"
    yield Outcome(what, ground.who, "bubblewrap, same view", 0.60, "ms", got["ours"], got["bwrap"])
    yield Outcome(what, ground.who, "the bare program", 1.35, "ms", got["ours"], got["bare"])
    yield Outcome(what, ground.who, LAYERED, None, "ms", got["ours"], got["layered"])
    yield Outcome(f"{what} of {LAYERED}", ground.who, "bubblewrap", None, "ms", got["layered"], got["bwrap"])
    yield Outcome(f"{what} of {LAYERED}", ground.who, "the bare program", None, "ms", got["layered"], got["bare"])


def ro_file(ground):
    """What the 40 cost together, divided; a start without them is measured beside each."""
    ground.shown(f"{FURTHER} further files")
    folder = ground.folder / "given"
    folder.mkdir()
    paths = [folder / str(index) for index in range(FURTHER)]
    for path in paths:
        path.write_text("x")
    few, many = ground.view(), ground.view([word for path in paths for word in ("--ro-file", path)])
    many.check()
    jails = {"few": few.ours(TRUE), "many": many.ours(TRUE)}
    jails |= {"their few": few.bwrap(TRUE), "their many": many.bwrap(TRUE)}
    got = interleaved(start_to_end, jails, ground.rounds(400))
    ours, theirs = (
        [took / FURTHER for took in differences(got[many], got[few])]
        for many, few in (("many", "few"), ("their many", "their few"))
    )
    yield Outcome("each further `--ro-file`", ground.who, "bubblewrap's `--ro-bind`", 0.8, "µs", ours, theirs)


def teardown(ground):
    """From a time that the command says last of all to the end of what was started."""
    ground.shown("teardown")
    view = ground.view()
    command = (str(view.clone / "tool"), "stamp")

    def after(arguments):
        said, _, end = said_and_ended(arguments)
        return end - int(said) * NANO

    jails = {"ours": view.ours(*command), "bwrap": view.bwrap(*command), "bare": view.bare_words(*command)}
    jails["layered"] = view.bare_words(*command, layers=True)
    got = interleaved(after, jails, ground.rounds(1000))
    what = "teardown: the command's last instruction to the end"
    yield Outcome(what, ground.who, "bubblewrap", 1.0, "ms", got["ours"], got["bwrap"])
    yield Outcome(what, ground.who, "the bare program", None, "ms", got["ours"], got["bare"])
    yield Outcome(f"{what}, of {LAYERED}", ground.who, "bubblewrap", None, "ms", got["layered"], got["bwrap"])


def two_at_a_time(arguments):
    """Seconds for all."""
    running, left = set(), JAILS

    def wait():
        pid, status = os.wait()
        ended_well(status, arguments)
        running.remove(pid)

    begin = time.monotonic()
    while left:
        running.add(spawn(arguments))
        left -= 1
        if len(running) == AT_ONCE:
            wait()
    while running:
        wait()
    return time.monotonic() - begin


def many(ground):
    ground.shown(f"{JAILS} jails, {AT_ONCE} at a time")
    view = ground.view()
    jails = {"ours": view.ours(TRUE), "bwrap": view.bwrap(TRUE)}
    got = interleaved(two_at_a_time, jails, ground.rounds(10))
    what = f"{JAILS} jails, {AT_ONCE} at a time, wall"
    yield Outcome(what, ground.who, "bubblewrap", 0.7, "s", got["ours"], got["bwrap"])


def large_clone(ground):
    """100,000 files in 1,000 folders, none of them a repository."""
    ground.shown("a clone of 100,000 files")
    clone = ground.clone("large")
    for index in range(1000):
        folder = clone / "src" / f"{index // 50}" / f"{index}"
        folder.mkdir(parents=True)
        for name in range(100):
            (folder / f"{name}.c").touch()
    views = {"large": ground.view(("--clone-mode", "rw-git-ro"), "large")}
    views["empty"] = ground.view(("--clone-mode", "rw-git-ro"))

    def until_it_runs(arguments):
        said, begin, _ = said_and_ended(arguments)
        return int(said) * NANO - begin

    found = ["find", str(clone), "-name", ".git", "-prune"]
    ways = {name: lambda view=view: until_it_runs(view.ours(str(view.clone / "tool"), "stamp")) for name, view in views.items()}
    ways |= {f"all of {name}": lambda view=view: start_to_end(view.ours(TRUE)) for name, view in views.items()}
    ways["find"] = lambda: start_to_end(found)
    ways["asked"] = lambda: start_to_end([str(clone / "tool"), "walk", str(clone)])
    got = interleaved(lambda measure: measure(), ways, ground.rounds(200))
    what = "what 100,000 files in a writable clone add to a start"
    beside = "`find CLONE -name .git -prune`"
    more = differences(got["large"], got["empty"])
    yield Outcome(what, ground.who, beside, 1.0, "ms", more, got["find"])
    asked = "asking each file for its owner and capabilities"
    yield Outcome(what, ground.who, asked, None, "ms", more, got["asked"])
    yield Outcome(asked, ground.who, beside, None, "ms", got["asked"], got["find"])
    what += ", and new repositories being looked for after the end"
    more = differences(got["all of large"], got["all of empty"])
    yield Outcome(what, ground.who, beside, None, "ms", more, got["find"])
