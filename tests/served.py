"""A package index on this machine: pages of links and files, served whole and by ranges."""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class Served:
    """A running server: ``files`` by path, ``sent`` the bytes of bodies so far. What lies below ``/private`` is given
    to ``me:secret`` alone."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    sent: int = 0

    @property
    def index(self) -> str:
        return f"{self.address}/simple"

    def offer(self, project: str, files: dict[str, bytes], yanked: str | None = None) -> None:
        """Puts files on the project's page; the ones with ``yanked`` in their name are marked as withdrawn."""
        links = (
            f'<a href="/files/{n}#sha256=0"{" data-yanked" * (yanked is not None and yanked in n)}>{n}</a>'
            for n in files
        )
        self.files[f"/simple/{project}/"] = "<html>".join(links).encode()
        self.files |= {f"/files/{name}": body for name, body in files.items()}


Serve = Callable[[], Served]


def wheel(files: dict[str, str]) -> bytes:
    """A wheel with these files, by name."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server; it stops with the test."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ExitStack() as running:

        def start() -> Served:
            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            running.callback(server.server_close)
            running.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            served = Served(f"http://127.0.0.1:{server.server_port}")
            server.served = served  # type: ignore[attr-defined]
            return served

        yield start


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        served: Served = self.server.served  # type: ignore[attr-defined]
        body = served.files.get(self.path, b"")
        locked = self.path.startswith("/private") and self.headers.get("Authorization") != "Basic bWU6c2VjcmV0"
        if locked or not body:
            self.send_error(401 if locked else 404)
            return
        wanted = self.headers.get("Range")
        self.send_response(206 if wanted else 200)
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            total = len(body)
            body = body[-int(last) :] if not first else body[int(first) : int(last) + 1]
            self.send_header("Content-Range", f"bytes */{total}")
        served.sent += len(body)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass
