"""Programs started, waited for and timed; who takes part is interleaved, another one
first in each round."""

import os
import time

from processes import Failed
from view import ENVIRONMENT

NANO = 1e-9
NOTHING = ((os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0))


def spawn(arguments, output=None, environment=ENVIRONMENT):
    """Without a copy of this process's memory, so that what python costs is the same for all.
    Standard output goes to the descriptor `output`, or nowhere."""
    actions = list(NOTHING)
    if output is not None:
        actions[1] = (os.POSIX_SPAWN_DUP2, output, 1)
    return os.posix_spawnp(arguments[0], arguments, environment, file_actions=actions)


def ended_well(status, arguments):
    """What failed was quick, and must not count."""
    if status != 0:
        raise Failed(f"exit status {os.waitstatus_to_exitcode(status)} of: {' '.join(arguments)}")


def start_to_end(arguments):
    """Seconds."""
    begin = time.monotonic_ns()
    _, status = os.waitpid(spawn(arguments), 0)
    took = time.monotonic_ns() - begin
    ended_well(status, arguments)
    return took * NANO


def said_and_ended(arguments):
    """What it wrote (whole, and little), and the times of its start and end, in seconds."""
    ours, its = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(ours, "rb") as output:
        begin = time.monotonic_ns()
        pid = spawn(arguments, its)
        os.close(its)
        _, status = os.waitpid(pid, 0)
        end = time.monotonic_ns()
        ended_well(status, arguments)
        return output.read(), begin * NANO, end * NANO


def interleaved(measure, arguments, rounds):
    """Measures each of the named arguments once a round; returns what each got, by name."""
    names, got = list(arguments), {name: [] for name in arguments}
    for name in names:
        measure(arguments[name])  # What is read for the first time comes from the disk.
    for number in range(rounds):
        for index in range(len(names)):
            name = names[(index + number) % len(names)]
            got[name].append(measure(arguments[name]))
    return got


def differences(more, less):
    return [one - other for one, other in zip(more, less)]
