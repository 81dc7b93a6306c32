"""Runs a sabotaged groom-ns, and tells which proofs noticed."""

import ctypes
import dataclasses
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile

import binaries
import wrapper

# No user of the host's; a run of root's takes other ones.
UID = 64242
# Seconds for the tests of one binary; the longest wait for half a minute.
LIMIT = 120
LINE = re.compile(r"^test (\S+) (?:- should panic )?\.\.\. (ok|FAILED)", re.MULTILINE)
# landlock_create_ruleset(2) with LANDLOCK_CREATE_RULESET_VERSION.
LANDLOCK = ctypes.CDLL(None).syscall(444, None, 0, 1)
COUNT = re.compile(r"^running (\d+) tests?$", re.MULTILINE)


@dataclasses.dataclass
class Verdict:
    """What came of a row, and what was wrong with that."""

    text: str
    failure: str = ""


class Host:
    """Where one user runs groom-ns: copies that it can read, and a home."""

    def __init__(self, user, stage, built):
        self.user, self.stage = user, stage
        stage.chmod(0o755)
        for folder in ("home", "tmp"):
            (stage / folder).mkdir()
            if user != "root":
                os.chown(stage / folder, UID, UID)
        names = {"groom-ns": built.sabotaged, "probe": built.probe, **built.tests}
        for name, path in names.items():
            shutil.copyfile(path, stage / name)
            (stage / name).chmod(0o755)

    def start(self, command, removed=(), limit=LIMIT):
        """Runs a command as the user, in namespaces. None: it hangs."""
        # A group that root must leave behind.
        become = ["setpriv", f"--groups={UID}", "--"]
        if self.user != "root":
            ids = [f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all"]
            become = ["setpriv", *ids, "--"]
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": str(self.stage / "home"),
            "GROOM_NS_BIN": str(self.stage / "groom-ns"),
            "GROOM_NS_PROBE": str(self.stage / "probe"),
            "CARGO_MANIFEST_DIR": str(binaries.CHECKOUT),
            binaries.VARIABLE: ",".join(removed),
        }
        try:
            return subprocess.run(
                wrapper.wrapped([*become, *map(str, command)]), env=env, cwd=self.stage,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", timeout=limit, check=False,
            )
        except subprocess.TimeoutExpired:
            return None

    def control(self, rows):
        """With nothing taken away every test of the rows passes, and nothing is refused."""
        tests = {}
        for row in rows:
            for binary, names in row.tests.items():
                tests.setdefault(binary, set()).update(names)
        failures, count = [], 0
        for binary, names in sorted(tests.items()):
            count += len(names)
            red, said = self.red(binary, sorted(names), ())
            failures += [f"{name} fails with nothing taken away:\n{said}" for name in red]
        reason = self.refusal(())
        if reason is not None:
            failures.append(f"a run is refused with nothing taken away: {reason}")
        probes = self.failed_probes(())
        if probes:
            failures.append(f"with nothing taken away: {' '.join(probes)}")
        print(f"{count} tests passed, and a run, and prove" if not failures else "it failed", flush=True)
        return failures

    def verdict(self, row):
        """Runs one row."""
        if row.landlock > LANDLOCK:
            return Verdict(f"not on this kernel: landlock has ABI {LANDLOCK}, not {row.landlock}")
        if row.outcome in ("check", "kernel"):
            reason = self.refusal(row.removed)
            by = "groom-ns itself" if row.outcome == "check" else "the kernel"
            wrong = "" if reason in row.reasons else f"{reason}, not {row.reasons}"
            return Verdict(f"refused ({reason}), by {by}", wrong)
        red, green = [], []
        for binary, names in row.tests.items():
            noticed, _ = self.red(binary, names, row.removed)
            red += noticed
            green += [f"{binary}:{name}" for name in names if f"{binary}:{name}" not in noticed]
        if row.outcome == "covered":
            wrong = f"not covered: {' '.join(red)}" if red else ""
            return Verdict(f"nobody: its siblings suffice for {' '.join(green)}", wrong)
        red += self.failed_probes(row.removed)
        wrong = f"{' '.join(green)} didn't notice" if green else ""
        return Verdict(" ".join(red) or "nobody", wrong)

    def red(self, binary, names, removed):
        """Which of these tests fail, and what they said."""
        done = self.start([self.stage / binary, "--exact", *names], removed)
        if done is None:
            return [f"{binary}:{name} (hangs)" for name in names], ""
        ran = COUNT.search(done.stdout)
        if ran is None or int(ran.group(1)) != len(names):
            raise SystemExit(f"{binary} hasn't all of {names}:\n{done.stdout}")
        passed = {name for name, end in LINE.findall(done.stdout) if end == "ok"}
        return [f"{binary}:{name}" for name in names if name not in passed], done.stdout

    def refusal(self, removed):
        """The reason for which a run with everything in it is refused; None if it isn't."""
        with tempfile.TemporaryDirectory(dir=self.stage / "tmp") as folder:
            for name in ("clone/.git", "clone/vendor/dep/.git", "given"):
                os.makedirs(f"{folder}/{name}")
            for name in ("clone/.git", "clone/vendor/dep/.git"):
                git = ["git", "init", "--quiet", os.path.dirname(f"{folder}/{name}")]
                subprocess.run(git, check=True)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(f"{folder}/given/socket")
                if self.user != "root":
                    subprocess.run(["chown", "-R", f"{UID}:{UID}", folder], check=True)
                done = self.start(
                    [self.stage / "groom-ns", "run", "--json-errors", "--clone", f"{folder}/clone",
                     "--clone-mode", "rw-git-ro", "--out-dir", f"{folder}/out",
                     "--ro-file", f"{folder}/given", "--", "true"], removed,
                )
        if done is None:
            return "it hangs"
        if done.returncode == 0:
            return None
        try:
            return json.loads(done.stdout.strip().splitlines()[-1])["reason"]
        except (ValueError, IndexError, KeyError):
            return done.stdout or f"exit code {done.returncode}"

    def failed_probes(self, removed):
        """The probes of `groom-ns prove` that notice."""
        done = self.start([self.stage / "groom-ns", "prove", "--json"], removed)
        if done is None:
            return ["prove (hangs)"]
        if done.returncode not in (0, 1):
            return ["prove (refused)" if done.returncode == 125 else f"prove ({done.returncode})"]
        report = json.loads(done.stdout[done.stdout.index("{"):])
        return [f"prove:{proof['probe']}" for proof in report["proofs"] if proof["verdict"] == "failed"]
