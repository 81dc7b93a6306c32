"""What decides how many instructions a start takes, besides groom-ns itself: a count can be
compared only with one for which all of this is the same."""

import os
import re
from pathlib import Path

from processes import Failed

# Written into each static binary: into .comment by rustc, and by the C library as its banner.
COMPILER = re.compile(rb"rustc version ([ -~]+)")
LIBC = re.compile(rb"GNU C Library \(([ -~]+?)\) [a-z]+ release version ([0-9.]+)\.")
# What the C library and memchr ask for when they pick string functions, by /proc/cpuinfo's names.
STRINGS = "ssse3 sse4_1 sse4_2 avx avx2 avx512f avx512vl avx512bw bmi1 bmi2 abm movbe erms fsrm rtm".split()


def made_with(groom_ns):
    """By name: what the binary is made of, and where it is counted."""
    content = Path(groom_ns).read_bytes()
    return {
        "compiler": "rustc " + found(COMPILER, content)[0],
        "C library": " ".join(found(LIBC, content)),
        # Which system calls there are, and so the way that a start takes.
        "kernel": ".".join(os.uname().release.split(".")[:2]),
        "processor": processor(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
    }


def found(pattern, content):
    """What all matches have in common: a binary of two compilers has no one name."""
    matches = {match.groups() for match in pattern.finditer(content)}
    if len(matches) != 1:
        raise Failed(f"the binary should say once what made it ({pattern.pattern.decode()}), but: {sorted(matches)}")
    return [word.decode() for word in matches.pop()]


def processor(text):
    """The first one's maker, since the C library knows some by name, and its flags."""
    fields = dict(line.split("\t", 1) for line in text.split("\n\n")[0].splitlines() if "\t" in line)
    values = {name: value.strip("\t: ") for name, value in fields.items()}
    flags = values["flags"].split()
    return " ".join([values["vendor_id"], *(flag for flag in STRINGS if flag in flags)])
