"""Fakes for the control plane: faulty programs, Go, and an API server."""

import fcntl
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from e2e.controlplane.processes.binaries import PROGRAMS, Binaries
from e2e.controlplane.waiting import wait_until

TIMEOUT_SECONDS = 20

# Holds a lock until it ends, so that a test can detect its end without its process ID.
HANGS = """
import fcntl, signal, sys
lock = open({lock!r}, "w")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write("held")
lock.flush()
print("waiting for nothing", flush=True)
while True:
    signal.pause()
"""

IGNORES_SIGTERM = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + HANGS

DIES = """
import sys
print("reading the configuration", flush=True)
print({message!r}, file=sys.stderr)
sys.exit(3)
"""

READY_ETCD = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
port = next(a for a in sys.argv if a.startswith("--listen-client-urls")).rpartition(":")[2]
class Ready(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
HTTPServer(("127.0.0.1", int(port)), Ready).serve_forever()
"""

# Fails once, like a program whose port is taken.
PORT_TAKEN_ONCE = (
    """
import os, sys
if not os.path.exists({marker!r}):
    open({marker!r}, "w").close()
    print("listen tcp 127.0.0.1:1: bind: address already in use")
    sys.exit(1)
"""
    + READY_ETCD
)


def write_program(path: Path, body: str) -> Path:
    """Write a Python program that can be run like a binary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable} -IS\n{body}", encoding="utf-8")
    path.chmod(0o755)
    return path


def fake_binaries(folder: Path, **bodies: str) -> Binaries:
    """Create a set of programs. Those without an argument hang. (In argument names, _ replaces -.)"""
    for program in PROGRAMS:
        body = bodies.get(program.name.replace("-", "_"), HANGS.format(lock=str(folder / program.name)))
        write_program(folder / "bin" / program.name, body)
    return Binaries(folder)


def await_held(lock: Path) -> None:
    """Wait until a hanging program runs."""
    wait_until(
        lambda: lock.exists() and lock.stat().st_size > 0, f"{lock} not held", timeout_seconds=TIMEOUT_SECONDS
    )


def await_ended(lock: Path) -> None:
    """Wait until the program that held the lock has ended."""

    def released() -> bool:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    wait_until(released, f"{lock} still held", timeout_seconds=TIMEOUT_SECONDS)


@dataclass
class FakeApiServer:
    """A store of objects by path, independent of kinds."""

    url: str = ""
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    deletions: list[str] = field(default_factory=list)
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)  # replacement answers, by path
    connections: int = 0
    requests: int = 0

    def respond(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Handle a request like the API server, without validation."""
        match method:
            case "POST":
                return self._create(f"{path}/{body['metadata']['name']}", body)
            case "GET":
                return self._read(path)
            case "PUT":
                self.objects[path] = body
                return 200, body
            case "PATCH":
                return self._patch(path.removesuffix("/status"), body)
        self.deletions.append(path)
        return (200, {}) if self.objects.pop(path, None) is not None else status(404, "NotFound")

    def _create(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path in self.objects:
            return status(409, "AlreadyExists")
        body["metadata"]["uid"] = f"uid-of-{path}"
        self.objects[path] = body
        return 201, body

    def _read(self, path: str) -> tuple[int, dict[str, Any]]:
        if path in self.objects:
            return 200, self.objects[path]
        items = [item for key, item in self.objects.items() if key.rpartition("/")[0] == path]
        return (200, {"items": items}) if items or path.endswith("s") else status(404, "NotFound")

    def _patch(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path not in self.objects:
            return status(404, "NotFound")
        merge(self.objects[path], body)
        return 200, self.objects[path]


def merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """Apply a JSON merge patch (RFC 7386)."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def status(code: int, reason: str) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "code": code, "reason": reason, "message": f"this is\n{reason}"}


@contextmanager
def serve_api(server: FakeApiServer) -> Iterator[FakeApiServer]:
    """Serve the fake API on a loopback port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # send head and body of an answer in one packet

        def setup(self) -> None:
            super().setup()
            server.connections += 1

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            path = urlsplit(self.path).path
            server.requests += 1
            if path in server.answers:
                code, payload = server.answers[path]
            else:
                code, answer = server.respond(self.command, path, body)
                payload = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Suppress log output."""

    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http_server.daemon_threads = True
    thread = threading.Thread(target=http_server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{http_server.server_port}"
    try:
        yield server
    finally:
        http_server.shutdown()
        thread.join()
        http_server.server_close()
