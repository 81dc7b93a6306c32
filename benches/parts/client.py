"""Requests as an SDK sends them, and the measuring client for what wrk can't do."""

import contextlib
import json
import os
import re
import selectors
import socket
import ssl
import time

from processes import Failed

# In a run the jail has its own.
TOKEN = "sk-ant-groom-" + "5a" * 32
HEADERS = {
    "Accept": "application/json",
    "User-Agent": "claude-cli/2.1.197 (external, sdk-cli)",
    "X-Claude-Code-Session-Id": "d60cbae6-e2b1-424b-acdf-a840ce247c35",
    "X-Stainless-Arch": "x64",
    "X-Stainless-Lang": "js",
    "X-Stainless-OS": "Linux",
    "X-Stainless-Package-Version": "0.94.0",
    "X-Stainless-Retry-Count": "0",
    "X-Stainless-Runtime": "node",
    "X-Stainless-Runtime-Version": "v26.3.0",
    "X-Stainless-Timeout": "600",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
    "anthropic-version": "2023-06-01",
    "x-api-key": os.environ.get("ANTHROPIC_API_KEY", TOKEN),
    "x-app": "cli",
    "Accept-Encoding": "gzip, deflate, br, zstd",
}
SENT_AT = re.compile(rb'"sent_at":(\d+)\}')


def body(**fields):
    """A small prompt, 1.5 KB; the stream upstream is told by its fields what to do."""
    words = "Say what this function does and where it could fail. " * 24
    whole = {"model": "claude-opus-4-8", "max_tokens": 1024, "messages": [{"role": "user", "content": words}]}
    return json.dumps({**whole, **fields})


def connect(port, tls):
    connection = socket.create_connection(("127.0.0.1", port), 20)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tls.wrap_socket(connection, server_hostname="localhost") if tls else connection


def head(length):
    lines = [f"{name}: {value}" for name, value in HEADERS.items()]
    lines += ["Host: localhost", "Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join(["POST /v1/messages?beta=true HTTP/1.1", *lines, "", ""]).encode()


def asked(port, tls, **fields):
    """Sends a request; returns the connection once the answer's head and first event have come."""
    connection = connect(port, tls)
    sent = body(**fields).encode()
    connection.sendall(head(len(sent)) + sent)
    answer = b""
    while b"\n\n" not in answer.partition(b"\r\n\r\n")[2]:
        piece = connection.recv(65536)
        answer += piece
        if not piece or (b"\r\n" in answer and not answer.startswith(b"HTTP/1.1 200 ")):
            raise Failed(f"no stream, but: {answer[:200]!r}")
    return connection


@contextlib.contextmanager
def streams(port, tls, count, **fields):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(asked(port, tls, **fields)) for _ in range(count)]


def delays(port, tls, count, every_ms, seconds):
    """How long each event was under way, in seconds, sorted."""
    found = []
    with streams(port, tls, count, every_ms=every_ms) as connections, selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)
        # Events that wait in a socket since it was opened aren't counted, nor is the first settling.
        begin = time.monotonic_ns() + 300_000_000
        end = begin + int(seconds * 1e9)
        while time.monotonic_ns() < end:
            for key, _ in selector.select(1):
                read = received(key.fileobj)
                now = time.monotonic_ns()
                sent = (int(stamp) for stamp in SENT_AT.findall(read))
                found += [(now - stamp) / 1e9 for stamp in sent if stamp > begin]
    if len(found) < count * seconds * 1000 / every_ms / 2:
        raise Failed(f"only {len(found)} events came in time")
    return sorted(found)


def received(connection):
    """All that can be read now: with TLS, records may wait where select doesn't see them."""
    read = b""
    with contextlib.suppress(ssl.SSLWantReadError, BlockingIOError):
        while True:
            piece = connection.recv(65536)
            if not piece:
                raise Failed("a stream ended early")
            read += piece
            if not isinstance(connection, ssl.SSLSocket):
                break
    return read


def upload(port, megabytes):
    """Returns the seconds it took."""
    piece = b"x" * 1_000_000
    with connect(port, None) as connection:
        begin = time.monotonic()
        connection.sendall(head(megabytes * len(piece)))
        for _ in range(megabytes):
            connection.sendall(piece)
        answer = connection.recv(65536)
        took = time.monotonic() - begin
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise Failed(f"the upload was answered: {answer[:200]!r}")
    return took
