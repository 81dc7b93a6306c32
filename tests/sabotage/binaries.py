"""What is built: groom-ns as it ships, the same with seams, and the tests."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent.parent
VARIABLE = "GROOM_NS_SABOTAGE"
# What tells that the names of the filter's rules are in a binary: they are made at
# run time, all with this before them.
RULE = "SeccompRule:"


@dataclasses.dataclass
class Built:
    """Paths of executables."""

    sabotaged: pathlib.Path
    probe: pathlib.Path
    tests: dict


def build():
    """Builds the sabotaged binary first and the plain ones last, so that what is left
    in the target folder is what anybody else's `cargo build` leaves there."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", CHECKOUT / "target"))
    sabotaged = target / "sabotage/groom-ns"
    sabotaged.parent.mkdir(parents=True, exist_ok=True)
    for kind, name, path in cargo("build", "--features", "sabotage", "--bin", "groom-ns"):
        if (kind, name) == ("bin", "groom-ns"):
            # A copy of its own: cargo's is the plain one's soon.
            sabotaged.unlink(missing_ok=True)
            shutil.copyfile(path, sabotaged)
            sabotaged.chmod(0o755)
    built = Built(sabotaged, pathlib.Path(), {})
    plain = None
    for kind, name, path in cargo("test", "--no-run"):
        if kind == "test":
            built.tests[name] = path
        elif (kind, name) == ("example", "probe"):
            built.probe = path
        elif (kind, name) == ("bin", "groom-ns"):
            plain = path
    if not has(sabotaged, VARIABLE) or plain is None or has(plain, VARIABLE):
        sys.exit(f"{sabotaged} has no seams, or {plain} has them")
    return built


def cargo(*arguments):
    """(kind, name, path) of every executable that cargo has built."""
    done = subprocess.run(
        ["cargo", *arguments, "--locked", "--message-format=json"],
        cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message.get("executable"):
            of_tests = message["profile"]["test"]
            kind = "test" if of_tests else message["target"]["kind"][0]
            yield kind, message["target"]["name"], pathlib.Path(message["executable"])


def mechanisms(built):
    """The names that the sabotaged binary knows."""
    asked = subprocess.run(
        [built.sabotaged], env={VARIABLE: "?"}, stdout=subprocess.PIPE, text=True, check=True
    )
    return asked.stdout.split()


def check_release(built, is_whole):
    """A release has no seam, and can't have one."""
    release = os.environ.get("GROOM_NS_RELEASE_BIN")
    if release is None:
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", CHECKOUT / "target"))
        release = next(target.glob("*/release/groom-ns"), None)
    if release is None and is_whole:
        sys.exit("build a release first, or name one in GROOM_NS_RELEASE_BIN")
    if release is not None:
        names = [name for name in mechanisms(built) if not name.startswith(RULE)]
        traces = [VARIABLE, RULE, *names]
        # Control: the sabotaged binary has each of them.
        absent = [trace for trace in traces if not has(built.sabotaged, trace)]
        found = [trace for trace in traces if has(release, trace)]
        if absent or found:
            sys.exit(f"vacuous: {absent} isn't in the sabotaged binary; {release} has {found}")
        print(f"{release} has none of {len(traces)} names; the sabotaged binary has all")
    if is_whole:
        # Control: `build` has built the same without `--release`. The release's
        # dependencies are there already.
        command = ["cargo", "build", "--release", "--locked", "--lib", "--features", "sabotage"]
        refused = subprocess.run(
            command, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True, check=False
        )
        if refused.returncode == 0 or "it is for debug builds of the tests" not in refused.stderr:
            sys.exit(f"a release with the feature is built:\n{refused.stderr}")
        print("cargo builds no release with the feature `sabotage`")


def has(path, text):
    """Whether a file holds these bytes."""
    return text.encode() in pathlib.Path(path).read_bytes()
