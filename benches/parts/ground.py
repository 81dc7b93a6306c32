"""Who measures, where, with what: a folder of the user's, and the programs in it."""

import contextlib
import encodings.idna  # A socket wants it, when the user may not reach python's folder.
import json
import os
import shutil
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import verdict
from processes import Failed
from view import View

PARTS = Path(__file__).resolve().parent
QUICK = 10


@dataclass
class Ground:
    """`prefix` starts a program as the user where this process isn't."""

    who: str
    folder: Path
    groom_ns: Path
    bare: Path
    tool: Path
    quick: bool
    prefix: tuple = ()

    def rounds(self, count):
        return max(5, count // QUICK) if self.quick else count

    def clone(self, name="clone"):
        """An empty repository, but for the bench's own program."""
        folder = self.folder / name
        if not folder.exists():
            subprocess.run(["git", "init", "--quiet", folder], check=True)
            shutil.copy(self.tool, folder / "tool")
        return folder

    def view(self, flags=(), name="clone"):
        return View(self.groom_ns, self.bare, self.clone(name), flags)

    def shown(self, what):
        print(f"  {what}, as {self.who}", file=sys.stderr)


def compiled(name, folder):
    program = folder / name
    subprocess.run(["cc", "-O2", "-static", "-o", program, PARTS / f"{name}.c"], check=True)
    return program


def become(uid):
    """For the rest of this process; no group but one of the same number, no environment."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    path = os.environ["PATH"]
    os.environ.clear()
    os.environ.update(PATH=path, HOME="/nonexistent", LANG="C.UTF-8")


def in_a_process(uid, work):
    """The outcomes that `work` returns, in a process of its own; as that user, if one is given."""
    ours, its = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        with contextlib.suppress(BaseException):
            os.close(ours)
            status = measured(uid, work, its)
        os._exit(status)
    os.close(its)
    with os.fdopen(ours, encoding="utf-8") as said:
        text = said.read()
    if os.waitpid(pid, 0)[1] != 0:
        raise Failed("the measuring process failed")
    return [verdict.Outcome(**values) for values in json.loads(text)]


def measured(uid, work, output):
    try:
        if uid is not None:
            become(uid)
        text = json.dumps([vars(found) for found in work()])
        with os.fdopen(output, "w", encoding="utf-8") as answer:
            answer.write(text)
    except Failed as why:
        print(f"benches/run: {why}", file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0
