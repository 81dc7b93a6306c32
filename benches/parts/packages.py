"""Debian's packages for programs that are missing."""

import os
import shutil
import subprocess
import sys

from processes import Failed


def install(packages):
    """`packages`: by the program that each of them, or some with a space between, are wanted for."""
    # Debian keeps servers in a folder that a user's PATH may lack.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for program, names in packages.items() if not shutil.which(program) for name in names.split()]
    if not missing:
        return
    if os.geteuid() != 0:
        raise Failed(f"as root, first: apt-get install {' '.join(missing)}")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
        subprocess.run(["apt-get", "--quiet", *command], check=True, env=environment, stdout=sys.stderr)
