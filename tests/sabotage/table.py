"""mechanisms.txt: what is taken away together, and what must come of it."""

import dataclasses
import sys


@dataclasses.dataclass
class Row:
    """One row."""

    removed: list  # the mechanism that it is about, then those that would hide it
    users: str  # root, user or both
    landlock: int  # the ABI that it takes
    outcome: str  # red, covered, or a refusal's kind: check, kernel
    reasons: list  # of a refusal, its codes
    tests: dict  # test binary: names of its tests

    @property
    def title(self):
        first, *others = self.removed
        return first + (f" (with {', '.join(others)})" if others else "")

    def is_for(self, user):
        return self.users in ("both", user)

    def has(self, words):
        return not words or any(word in name for word in words for name in self.removed)


def read(path):
    """Every row, in order. Fields stand between `|`, as the file's head says."""
    rows = []
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) not in (3, 4):
            sys.exit(f"{path}: {line!r} has {len(fields)} fields")
        removed, where, outcome, *rest = fields
        users, *needs = where.split()
        kind, *reasons = outcome.split()
        if users not in ("root", "user", "both"):
            sys.exit(f"{path}: {line!r} is for nobody")
        if kind not in ("red", "covered", "check", "kernel"):
            sys.exit(f"{path}: {line!r} comes to nothing")
        tests = {}
        for word in rest[0].split() if rest else []:
            binary, name = word.split(":", 1)
            tests.setdefault(binary, []).append(name)
        if (kind in ("red", "covered")) != bool(tests):
            sys.exit(f"{path}: {line!r} names tests, or must")
        names = [name.strip() for name in removed.split("+")]
        landlock = max([int(need.removeprefix("landlock=")) for need in needs], default=0)
        rows.append(Row(names, users, landlock, kind, reasons, tests))
    return rows


def check_complete(rows, mechanisms):
    """Each mechanism has a row that ends with a proof, or the kernel, saying no."""
    unknown = {name for row in rows for name in row.removed} - set(mechanisms)
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}")
    shown = {row.removed[0] for row in rows if row.outcome in ("red", "kernel")}
    missing = [name for name in mechanisms if name not in shown]
    if missing:
        sys.exit(f"mechanisms.txt shows nothing for {', '.join(missing)}")
    print(f"{len(mechanisms)} mechanisms, {len(rows)} rows")
