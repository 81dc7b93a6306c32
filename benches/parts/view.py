"""The jail's view, as `run --plan=json` says it, put into bubblewrap's words and the bare
program's; and the check that all three show the same mounts, without which a
comparison of their times would say nothing."""

import json
import subprocess
from pathlib import Path

from processes import Failed

# include/uapi/linux/mount.h
RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8

# The same for all of them; groom-ns gives it to the command anyway.
ENVIRONMENT = {"HOME": "/home/agent", "PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}

# Where bubblewrap can't be told to do as the others: a devpts comes only with a /dev of
# its own, whose nodes aren't read-only; and a file of /proc is covered unasked.
NODES = ("null", "zero", "full", "random", "urandom", "tty")
BWRAP_DIFFERS = {"/dev", "/proc/sysrq-trigger", *(f"/dev/{node}" for node in NODES)}


class View:
    """One clone, with the flags of groom-ns that go with it."""

    def __init__(self, groom_ns, bare, clone, flags=()):
        self.groom_ns, self.bare, self.clone, self.flags = groom_ns, bare, clone, tuple(map(str, flags))
        planned = [*self.ours("/usr/bin/true")]
        planned.insert(planned.index("--"), "--plan=json")
        ended = subprocess.run(planned, check=False, capture_output=True, text=True, env=ENVIRONMENT)
        if ended.returncode != 0:
            raise Failed(f"there is no plan: {ended.stderr}")
        self.steps = json.loads(ended.stdout)["build"]

    def ours(self, *command):
        return [str(self.groom_ns), "run", "--quiet", "--clone", str(self.clone), *self.flags, "--", *command]

    def bwrap(self, *command, further=()):
        words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        words += ["--uid", "1000", "--gid", "1000", "--dev", "/dev"]
        mounted = [step.get("target") or step["path"] for step in self.steps if step["do"] in MOUNTS]
        for step in self.steps:
            words += bwrap_words(step, mounted)
        words += [*further, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(self.clone)]
        return [*words, "--", *command]

    def bare_words(self, *command, layers=False):
        words = [str(self.bare), *["layers"] * layers, str(self.clone)]
        covered = None
        for step in self.steps:
            words += bare_words(step, covered)
            if step["do"] == "mask-dir":
                covered = step["path"]
        return [*words, "--", *command]

    def check(self):
        """All three show the same file systems at the same places, read-only or not."""
        ours = mounts(self.ours("/usr/bin/cat", "/proc/self/mountinfo"))
        if ours != mounts(self.bare_words("/usr/bin/cat", "/proc/self/mountinfo")):
            raise Failed("vacuous: the bare program shows other mounts than groom-ns")
        theirs = mounts(self.bwrap("/usr/bin/cat", "/proc/self/mountinfo"))
        differ = {path for path in ours | theirs if ours.get(path) != theirs.get(path)} - BWRAP_DIFFERS
        if differ:
            raise Failed(f"vacuous: bubblewrap shows other mounts than groom-ns: {sorted(differ)}")
        return len(ours)


MOUNTS = ("bind", "tmpfs", "devpts", "proc", "read-only", "mask-file", "mask-dir")


def bwrap_words(step, mounted):
    does, path = step["do"], step.get("path")
    if does == "hostname":
        return ["--hostname", step["name"]]
    if does == "symlink" and not path.startswith("/dev/"):
        return ["--symlink", step["target"], path]
    if does == "dir" and not any(Path(other).is_relative_to(path) for other in [*mounted, "/dev"]):
        return ["--dir", path]
    if does == "bind" and isinstance(step["kind"], str):
        return ["--ro-bind" if step["access"] == "ro" else "--bind", step["source"], step["target"]]
    if does == "tmpfs":
        return ["--perms", f"{step['mode']:o}", "--tmpfs", path]
    if does == "proc":
        return ["--proc", path]
    if does == "read-only":
        return ["--ro-bind", path, path]
    if does == "mask-file":
        return ["--ro-bind", "/dev/null", path]
    if does == "mask-dir":
        return ["--tmpfs", path, "--remount-ro", path]
    return []


def bare_words(step, covered):
    does, path = step["do"], step.get("path", "")[1:]
    if does in ("dir", "file"):
        return [does, path]
    if does == "symlink":
        return ["link", step["target"], path]
    if does == "tmpfs":
        options = f"size={step['size']},nr_inodes={step['inodes']},mode={step['mode']:o}"
        return ["new", "tmpfs", str(NOSUID | NODEV), options, path]
    if does == "devpts":
        return ["new", "devpts", str(NOSUID | NOEXEC), "ptmxmode=0666,mode=0620", path]
    if does == "proc":
        return ["new", "proc", str(NOSUID | NODEV | NOEXEC), "", path]
    if does == "bind":
        attributes = NOSUID | (NODEV if isinstance(step["kind"], str) else NOEXEC)
        attributes |= RDONLY if step["access"] == "ro" else 0
        return ["bind", step["source"], str(attributes), step["target"][1:]]
    if does == "mask-file":
        return ["again", "dev/null", "0", path]
    if does == "mask-dir" and covered:
        return ["again", covered[1:], "0", path]
    if does == "mask-dir":
        attributes = NOSUID | NODEV | NOEXEC | RDONLY
        return ["new", "tmpfs", str(attributes), "size=4096,nr_inodes=1,mode=555", path]
    if does == "read-only":
        return ["again", path, str(NOSUID | NODEV | NOEXEC | RDONLY), path]
    return []


def mounts(arguments):
    """What stands in a jail, by mount point: the kind, and whether it is read-only."""
    ended = subprocess.run(arguments, check=False, capture_output=True, text=True, env=ENVIRONMENT)
    if ended.returncode != 0:
        raise Failed(f"{arguments[0]} can't show its mounts: {ended.stderr}")
    found = {}
    for line in ended.stdout.splitlines():
        fields, _, rest = line.partition(" - ")
        fields = fields.split()
        found[fields[4]] = (rest.split()[0], "ro" in fields[5].split(","))
    return found
