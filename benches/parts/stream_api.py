#!/usr/bin/env python3
"""The upstream of the stream measurements. A JSON body says `every_ms`: an event so
often, each with the time it was sent at, or one event and then silence if it is 0.
Any other body is read to its end and answered.

Usage: stream_api.py PORT CERTIFICATE KEY
"""

import asyncio
import json
import random
import ssl
import sys
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = (
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    '"delta":{"type":"text_delta","text":" a few more words"},"sent_at":%d}\n\n'
)
LARGEST_JSON = 1_000_000


def event():
    data = (EVENT % time.monotonic_ns()).encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


async def pieces(reader, head):
    """A request's body, whichever way it is framed."""
    fields = dict(line.split(": ", 1) for line in head.lower().splitlines()[1:] if line)
    if "content-length" in fields:
        left = int(fields["content-length"])
        while left > 0:
            piece = await reader.read(min(left, 262144))
            if not piece:
                return
            left -= len(piece)
            yield piece
        return
    while size := int((await reader.readline()).split(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readline()
    await reader.readline()


async def stream(writer, every):
    writer.write(HEAD + event())
    if every == 0:
        await asyncio.sleep(3600)
    await asyncio.sleep(every * random.random())
    due = asyncio.get_running_loop().time()
    while True:
        writer.write(event())
        await writer.drain()
        due += every
        await asyncio.sleep(due - asyncio.get_running_loop().time())


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            body = b""
            async for piece in pieces(reader, head):
                if len(body) < LARGEST_JSON:
                    body += piece
            if body.startswith(b"{"):
                await stream(writer, json.loads(body)["every_ms"] / 1000)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    except (OSError, asyncio.IncompleteReadError):
        pass  # The client left.
    finally:
        writer.close()


async def main(port, certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=context, backlog=4096, limit=1_000_000)
    await server.serve_forever()


asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
