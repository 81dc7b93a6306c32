"""Namespaces around every run: a groom-ns without its own could change the host's
root, mounts and name, or signal the caller's processes."""

import ctypes
import fcntl
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile

KINDS = ["--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup"]
SIOCSIFFLAGS = 0x8914  # netdevice(7)
IFF_UP = 1


def wrapped(command):
    """The command in namespaces of its own; what is left of it dies with its first
    process."""
    return [
        "unshare", *KINDS, "--propagation=private", "--fork", "--kill-child", "--mount-proc",
        "--", sys.executable, __file__, *command,
    ]


def check():
    """Does to the wrapper what a jail without namespaces could do to the host."""
    bystander = subprocess.Popen(["sleep", "60"])
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        before = look()
        # kill(1)'s -1 is everything that this pid namespace has, but for its pid 1.
        harm = f"""
            hostname changed && [ "$(hostname)" = changed ] || exit 1
            sleep 60 & kill -9 -1; wait $!; [ $? = 137 ] || exit 1
            mount -t tmpfs none {folder} && : >{folder}/x || exit 1
            mount --bind {folder} /usr && [ -e /usr/x ]
        """
        done = subprocess.run(wrapped(["sh", "-c", harm]), stderr=subprocess.DEVNULL, check=False)
        changed = before != look() or any(pathlib.Path(folder).iterdir())
    is_alive = bystander.poll() is None
    bystander.kill()
    bystander.wait()
    if done.returncode != 0:
        sys.exit("vacuous: the harm was not done")
    if changed or not is_alive:
        sys.exit("a run would reach the host")
    print("the host's name, mounts, root and processes are out of reach")


def look():
    """What must not change."""
    mounts = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    return os.uname().nodename, mounts, os.stat("/").st_ino, sorted(os.listdir("/usr"))


def main():
    """Within the namespaces: raises `lo`, mounts a /tmp that ends with them, and becomes
    the command."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)
    if ctypes.CDLL(None).mount(b"tmp", b"/tmp", b"tmpfs", 0, b"mode=1777") != 0:
        sys.exit("no /tmp is mounted")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
