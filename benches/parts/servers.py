"""The upstream and the three proxies: each has one thread, checks the upstream's
certificate, checks the client's token, puts the key in, and writes a line a request."""

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import desks
from client import TOKEN
from processes import OTHER_CORE, PROXY_CORE, child, free_port, started

KEY = "sk-ant-api03-" + "c0" * 32
# What the API answers to a small prompt, about 1 KB.
ANSWER = {
    "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-8",
    "content": [{"type": "text", "text": "It reads the head, then the body, and fails on a short read. " * 12}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 384, "output_tokens": 171},
}

NGINX = """
daemon off; master_process {master}; worker_processes 1; worker_rlimit_nofile 16384;
pid {work}/{name}.pid; error_log stderr error;
events {{ worker_connections 8192; }}
http {{
  client_body_temp_path {work}/{name}.body; proxy_temp_path {work}/{name}.proxy;
  fastcgi_temp_path {work}/{name}.1; uwsgi_temp_path {work}/{name}.2; scgi_temp_path {work}/{name}.3;
  client_max_body_size 0; keepalive_requests 100000000; tcp_nodelay on;
  {http}
}}
"""

API = """
  access_log off; default_type application/json;
  server {{
    listen 127.0.0.1:{port} ssl http2 backlog=4096;
    ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;
    if ($http_x_api_key != "{secret}") {{ return 401 "{{}}"; }}
    return 200 '{answer}';
  }}
"""

NGINX_PROXY = """
  log_format line escape=json '{{"time":"$time_iso8601","method":"$request_method","path":"$uri","status":$status,'
    '"bytes_in":$request_length,"bytes_out":$bytes_sent,"first_byte":"$upstream_header_time","total":"$request_time"}}';
  access_log {work}/nginx.log line;
  upstream api {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 100000000; }}
  server {{
    listen {address} backlog=4096;
    location /v1/ {{
      if ($http_x_api_key != "{token}") {{ return 401; }}
      proxy_pass https://api; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_set_header Host localhost:{upstream};
      proxy_set_header x-api-key "{secret}"; proxy_set_header Accept-Encoding identity;
      proxy_ssl_verify on; proxy_ssl_trusted_certificate {ca}; proxy_ssl_name localhost; proxy_ssl_server_name on;
      proxy_ssl_protocols TLSv1.2 TLSv1.3;
      proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 600s;
    }}
  }}
"""

HAPROXY = """
global
  nbthread 1
  maxconn 8192
  log stdout format raw local0
defaults
  mode http
  log global
  option http-no-delay
  http-reuse always
  timeout connect 10s
  timeout client 600s
  timeout server 600s
frontend in
  bind {listener} backlog 4096
  log-format '{{"time":"%tr","method":"%HM","path":"%HP","status":%ST,"bytes_in":%U,"bytes_out":%B,"first_byte":%Tr,"total":%Ta}}'
  http-request deny deny_status 404 unless {{ path_beg /v1/ }}
  http-request deny deny_status 401 unless {{ req.hdr(x-api-key) -m str {token} }}
  http-request set-header x-api-key {secret}
  http-request set-header accept-encoding identity
  http-request set-header host localhost:{upstream}
  default_backend api
backend api
  server api 127.0.0.1:{upstream} ssl verify required ca-file {ca} sni str(localhost) verifyhost localhost alpn http/1.1 pool-max-conn -1 pool-purge-delay 600s
"""


class Place:
    """Where the files of the bench lie, and what is common to all servers."""

    def __init__(self, work: Path, groom_ns, ca, certificate, key, is_jailed=True):
        self.work, self.groom_ns = work, groom_ns
        self.ca, self.certificate, self.key = ca, certificate, key
        # Whether the load comes out of a jail.
        self.is_jailed = is_jailed

    def write(self, name, text, mode=0o600):
        path = self.work / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def log_of(self, name):
        """Where that proxy writes a line a request; haproxy can't name a file, its output is one."""
        return self.work / ("haproxy.out" if name == "haproxy" else f"{name}.log")


def nginx(place, name, http, master="off"):
    config = place.write(f"{name}.conf", NGINX.format(work=place.work, name=name, http=http, master=master))
    return ["nginx", "-e", "stderr", "-c", config, "-p", place.work]


def api(place):
    port = free_port()
    text = API.format(port=port, certificate=place.certificate, key=place.key, secret=KEY, answer=json.dumps(ANSWER))
    return port, started(nginx(place, "api", text), OTHER_CORE, place.work / "api.out", port)


def stream_api(place):
    port = free_port()
    program = Path(__file__).with_name("stream_api.py")
    arguments = [sys.executable, program, port, place.certificate, place.key]
    return port, started(arguments, OTHER_CORE, place.work / "stream_api.out", port)


def groom_ns_flags(place, upstream):
    key = place.write("key", KEY)
    return ["--upstream", f"https://localhost:{upstream}", "--upstream-ca", place.ca, "--key-file", key]


def groom_ns_broker(place, port, upstream):
    token = place.write("token", TOKEN)
    listener = ["--listen", f"tcp:{port}", "--token-file", token, "--log", place.work / "groom-ns.log"]
    return [place.groom_ns, "broker", "anthropic", *listener, *groom_ns_flags(place, upstream)]


def nginx_proxy(place, port, upstream, listener=None):
    # One process alone crashes with a listener that it was given: then there is a master too.
    return nginx_proxy_at(place, f"127.0.0.1:{port}", upstream, "off" if listener is None else "on; user root")


def nginx_proxy_at(place, address, upstream, master="off"):
    """`address`: what nginx's `listen` takes."""
    values = {"work": place.work, "token": TOKEN, "secret": KEY, "ca": place.ca}
    return nginx(place, "nginx", NGINX_PROXY.format(address=address, upstream=upstream, **values), master)


def haproxy_proxy(place, port, upstream, listener=None):
    listener = f"127.0.0.1:{port}" if listener is None else f"fd@{listener}"
    text = HAPROXY.format(listener=listener, upstream=upstream, token=TOKEN, secret=KEY, ca=place.ca)
    return ["haproxy", "-db", "-f", place.write("haproxy.conf", text)]


PROXIES = {"groom-ns": groom_ns_broker, "nginx": nginx_proxy, "haproxy": haproxy_proxy}


@dataclass
class Running:
    """A proxy, and the process that its load is made by."""

    desk: desks.Desk
    port: int
    pid: int

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def on_loopback(place, upstream, name):
    port = free_port()
    server = started(PROXIES[name](place, port, upstream), PROXY_CORE, place.work / f"{name}.out", port)
    with server as pid, desks.desk() as desk:
        yield Running(desk, port, pid)


def open_output(place, name):
    return open(place.work / f"{name}.out", "ab")


@contextlib.contextmanager
def in_a_run(place, upstream):
    flags = ["--broker", "anthropic", "--broker-log", place.work / "groom-ns.log", *groom_ns_flags(place, upstream)]
    with open_output(place, "groom-ns") as output, desks.in_groom_ns(place.groom_ns, flags, output) as desk:
        yield Running(desk, desk.port, desk.process.pid)


@contextlib.contextmanager
def beside_a_jail(place, upstream, name):
    door = place.work / f"{name}.sock"
    with open_output(place, "jail") as output, desks.with_a_listener(place.groom_ns, door, output) as (desk, listener):
        arguments = PROXIES[name](place, desk.port, upstream, listener)
        # nginx takes the listeners that this names for those of its configuration.
        given = {"fds": [listener], "more": {"NGINX": f"{listener};"}}
        with started(arguments, PROXY_CORE, place.work / f"{name}.out", None, **given) as pid:
            yield Running(desk, desk.port, child(pid) if name == "nginx" else pid)


def running(place, upstream, name):
    if not place.is_jailed:
        return on_loopback(place, upstream, name)
    return in_a_run(place, upstream) if name == "groom-ns" else beside_a_jail(place, upstream, name)


@contextlib.contextmanager
def proxies(place, upstream, names):
    """Yields each that runs, by name."""
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(running(place, upstream, name)) for name in names}
