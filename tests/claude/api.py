#!/usr/bin/env python3
"""Plays the API for one run of Claude Code: the first answer asks for a Bash command,
the answer to its result is a text. Appends every request to a file, as JSON, for the
test to judge; prints its port once it listens.

Usage: api.py REQUESTS COMMAND TEXT [CERTIFICATE KEY]   (plain HTTP without the last two)
"""

import http.server
import json
import ssl
import sys
import threading

REQUESTS, COMMAND, TEXT = sys.argv[1:4]
TLS = sys.argv[4:6]
LOCK = threading.Lock()


def content(request):
    """The blocks to answer with: a tool call once, then a text."""
    blocks = [
        block
        for message in request.get("messages", [])
        if isinstance(message.get("content"), list)
        for block in message["content"]
    ]
    has_bash = any(tool.get("name") == "Bash" for tool in request.get("tools", []))
    if has_bash and not any(block.get("type") == "tool_result" for block in blocks):
        wanted = {"command": COMMAND, "description": "Write a file"}
        return [{"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": wanted}], "tool_use"
    return [{"type": "text", "text": TEXT}], "end_turn"


def message(request):
    blocks, reason = content(request)
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": request.get("model"),
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 7},
    }


def events(whole):
    """The same message as the API streams it."""
    yield {
        "type": "message_start",
        "message": {**whole, "content": [], "stop_reason": None, "usage": {"input_tokens": 11, "output_tokens": 1}},
    }
    yield {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, text = {"type": "text", "text": ""}, block["text"]
            kind, field = "text_delta", "text"
        else:
            empty, text = {**block, "input": {}}, json.dumps(block["input"])
            kind, field = "input_json_delta", "partial_json"
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for start in range(0, len(text), 9):
            delta = {"type": kind, field: text[start : start + 9]}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 7}}
    yield {"type": "message_stop"}


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def note(self, body):
        line = {
            "method": self.command,
            "target": self.path,
            "headers": self.headers.items(),
            "body": body.decode("utf-8", "replace"),
        }
        with LOCK, open(REQUESTS, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def stream(self, whole):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events(whole):
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def handle_one(self):
        body = self.body()
        self.note(body)
        path = self.path.split("?")[0]
        if self.command == "POST" and path == "/v1/messages":
            request = json.loads(body)
            whole = message(request)
            self.stream(whole) if request.get("stream") else self.answer(200, whole)
        elif self.command == "POST" and path == "/v1/messages/count_tokens":
            self.answer(200, {"input_tokens": 11})
        elif self.command == "GET" and path == "/v1/models":
            self.answer(200, {"data": [], "has_more": False, "first_id": None, "last_id": None})
        else:
            error = {"type": "not_found_error", "message": "Not found"}
            self.answer(404, {"type": "error", "error": error})

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_one

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that leaves is no error."""


server = Server(("127.0.0.1", 0), Api)
if TLS:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*TLS)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_port, flush=True)
server.serve_forever()
