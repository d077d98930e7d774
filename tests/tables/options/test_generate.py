"""The maintainer's command: from published releases to a table."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from rldoctor.tables.options import Option, OptionTable, generate
from rldoctor.tables.options.archives import RangedFile, git
from rldoctor.tables.options.releases import releases

CONFIG = "@dataclass\nclass GRPOConfig:\n"


def wheel(text: str, folder: str = "") -> bytes:
    """A wheel with one module and a large one that nobody should fetch."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("trl/weights.bin", bytes(3_000_000))
        archive.writestr(f"{folder}trl/trainer/grpo_config.py", CONFIG + text)
    return buffer.getvalue()


def sdist(text: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        content = (CONFIG + text).encode()
        member = tarfile.TarInfo("trl-0.16.0/trl/trainer/grpo_config.py")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


FILES = {
    "trl-0.13.0-py3-none-any.whl": wheel("    too_old: int = 1\n"),
    "trl-0.14.0-py3-none-any.whl": wheel("    beta: float = 0.04\n    device: str = 'auto'\n"),
    "trl-0.15.0-py3-none-any.whl": wheel("    beta: float = 0.04\n", "trl-0.15.0.data/purelib/"),
    "trl-0.15.0.tar.gz": sdist("    from_the_sdist: int = 1\n"),
    "trl-0.16.0.tar.gz": sdist(
        "    beta: float = 0.0\n    mode: Literal['a', 'b'] = 'a'\n    most: float = float('inf')\n"
    ),
    "trl-0.17.0rc1-py3-none-any.whl": wheel("    candidate: int = 1\n"),
    "trl-0.17.0-py3-none-any.whl": wheel("    yanked: int = 1\n"),
    "trl-0.18.0-py3-none-any.whl": wheel("", "moved/"),
}


class Index(BaseHTTPRequestHandler):
    """A simple index that answers range requests and counts the bytes it sent."""

    sent = 0

    def do_GET(self) -> None:
        name = self.path.rstrip("/").rpartition("/")[2]
        if name == "trl":
            links = (f'<a href="/files/{n}#sha256=0"{" data-yanked" * ("0.17.0-" in n)}>{n}</a>' for n in FILES)
            self.answer(200, "<html>".join(links).encode())
        elif name in FILES:
            first, last = 0, len(FILES[name])
            if "Range" in self.headers:
                first, last = (int(n) for n in self.headers["Range"].removeprefix("bytes=").split("-"))
            self.answer(206 if "Range" in self.headers else 200, FILES[name][first : last + 1])
        else:
            self.answer(404, b"")

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(FILES[self.path.rpartition("/")[2]])))
        self.end_headers()

    def answer(self, status: int, body: bytes) -> None:
        Index.sent += len(body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Index.sent = 0
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    server.server_close()


def test_a_table_from_an_index(index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = tmp_path / "cache"
    command = ["trl", "--index", index, "--output", str(tmp_path), "--cache", str(cache)]
    assert generate.main(command) == 0
    text = (tmp_path / "trl.json").read_text()
    table = OptionTable("trl", msgspec.json.decode(text))
    assert table.versions == ["0.14.0", "0.15.0", "0.16.0"]
    content = msgspec.json.decode(text)["groups"]["GRPOConfig"]
    assert content["beta"] == [{"default": 0.04, "until": "0.16.0"}, {"default": 0.0, "since": "0.16.0"}]
    assert content["device"] == [{"default": "auto", "until": "0.15.0"}]
    assert content["mode"] == [{"default": "a", "choices": ["a", "b"], "since": "0.16.0"}]
    assert content["most"] == [{"computed": "float('inf')", "type": "float", "since": "0.16.0"}]
    assert "trl 0.18.0: no options found, left out" in capsys.readouterr().err
    assert Index.sent < 2_000_000  # the weights stayed where they are
    Index.sent = 0
    assert generate.main(command) == 0
    assert Index.sent < 2_000  # the second time only the list of files is asked for
    assert (tmp_path / "trl.json").read_text() == text


def test_what_groups_share_is_written_once() -> None:
    option = {"n": Option("n", 1, "int")}
    content = generate.table("trl", {"1.0": {"GRPOConfig": option, "RLOOConfig": option}}, "2026-11-20")
    assert content["groups"] == {"GRPOConfig": {"n": [{"default": 1}]}, "RLOOConfig": {"n": "GRPOConfig"}}
    assert OptionTable("trl", content).default("n", "1.0", "RLOOConfig") == 1


def test_every_option_has_a_line_of_its_own() -> None:
    options = {name: Option(name, 1, "int") for name in "abc"}
    text = generate.rendered(generate.table("easyr1", {"1.0": {"main": options}}, "2026-11-20"))
    assert [line for line in text.splitlines() if line.startswith('"b"')] == ['"b":[{"default":1}],']


def test_a_remote_file_is_read_in_blocks(index: str) -> None:
    name = "trl-0.14.0-py3-none-any.whl"
    remote = RangedFile(index.replace("simple", f"files/{name}"))
    remote.seek(-100, io.SEEK_END)
    assert remote.read() == FILES[name][-100:]
    remote.seek(262_100)
    assert remote.read(100) == FILES[name][262_100:262_200]  # across two blocks
    assert Index.sent < 1_000_000


def test_a_clone_that_is_not_named_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["easyr1", "--index", "unused"]) == 2
    assert "needs --clone hiyouga/EasyR1=PATH" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_releases_of_a_clone_are_its_tags_and_its_newest_commit(tmp_path: Path) -> None:
    def commit(n: int, version: str) -> None:
        (tmp_path / "verl/trainer").mkdir(parents=True, exist_ok=True)
        (tmp_path / "verl/__init__.py").write_text(f'__version__ = "{version}"\n')
        (tmp_path / "verl/trainer/config.py").write_text(f"@dataclass\nclass PPOConfig:\n    n: int = {n}\n")
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        for arguments in (["add", "."], [*identity, "commit", "-qm", version]):
            subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, timeout=30)

    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=30)
    commit(1, "0.3.0")
    git(tmp_path, "tag", "v0.3.0")
    commit(2, "0.3.1.dev0")
    found = releases("easyr1", "unused", {"hiyouga/EasyR1": tmp_path})
    assert [release.version for release in found] == ["0.3.0", "0.3.1.dev0"]
    read = generate.read_releases("easyr1", found, None)
    assert [groups["main"]["n"].default for groups in read.values()] == [1, 2]
    assert git(tmp_path, "show", "nowhere") is None
