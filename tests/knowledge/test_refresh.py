"""The maintainer's refresh: an index that serves ranges, archives of both kinds, and repositories."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rldoctor.knowledge import refresh
from rldoctor.knowledge.package_index import archives, metadata
from rldoctor.knowledge.source_tree import SourceTree, read

METADATA = """Metadata-Version: 2.4
Name: trl
Version: {version}
Requires-Python: >=3.10
Requires-Dist: transformers>=4.56.1
Requires-Dist: rich>=14
Requires-Dist: accelerate
Requires-Dist: vllm==0.10.2; extra == "vllm"
Requires-Dist: vllm<0.9; extra == "dev"
"""


def _wheel(version: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("trl/kernels.so", bytes(200_000))
        wheel.writestr(f"trl-{version}.dist-info/METADATA", METADATA.format(version=version))
    return packed.getvalue()


def _sdist(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"trl-0.1/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


@pytest.fixture
def index() -> Iterator[str]:
    """A simple index with three releases of trl: two wheels, the newer withdrawn, and a source distribution."""
    files = {
        "trl-0.24.0-py3-none-any.whl": _wheel("0.24.0"),
        "trl-0.25.0-py3-none-any.whl": _wheel("0.25.0"),
        "trl-0.1.tar.gz": _sdist(
            {"PKG-INFO": "Name: trl\nVersion: 0.1\n", "trl.egg-info/requires.txt": "torch>=1.4\n\n[vllm]\nvllm>=0.7\n"}
        ),
    }
    links = "".join(f'<a href="/files/{n}#sha256=0"{" data-yanked" * ("0.25" in n)}>{n}</a>' for n in files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = files.get(self.path.rpartition("/")[2], links.encode())
            wanted = self.headers.get("Range")
            self.send_response(206 if wanted else 200)
            if wanted:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                total = len(body)
                body = body[-int(last) :] if not first else body[int(first) : int(last) + 1]
                self.send_header("Content-Range", f"bytes */{total}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()


def test_metadata_is_read_from_wheels_by_ranges_and_from_source_distributions(index: str) -> None:
    offered = archives(index, "trl")
    assert set(offered) == {"0.1", "0.24.0", "0.25.0"}
    assert "Version: 0.24.0" in metadata(offered["0.24.0"][0])
    assert 'Requires-Dist: vllm>=0.7; extra == "vllm"' in metadata(offered["0.1"][0])


def test_a_refresh_keeps_what_matters_and_merges_neighbours(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "declared.json"
    monkeypatch.setattr(refresh, "TABLE", table)
    assert refresh.main(["--only", "trl", "--index", index]) == 0
    entry = json.loads(table.read_text())["packages"]["trl"]
    assert entry["yanked"] == ["0.25.0"]
    assert entry["rows"] == [
        {"versions": ["0.1"], "python": None, "requires": ["torch>=1.4", 'vllm>=0.7; extra == "vllm"']},
        {
            "versions": ["0.24.0", "0.25.0"],
            "python": ">=3.10",
            "requires": ["transformers>=4.56.1", 'vllm==0.10.2; extra == "vllm"'],
        },
    ]


def test_a_framework_without_packages_is_read_from_its_tags(tmp_path: Path) -> None:
    project = '[project]\nname = "nemo-rl"\nrequires-python = ">=3.12"\ndependencies = ["torch==2.7.0"]\n'
    project += "[project.optional-dependencies]\nvllm = [\"vllm==0.9.0; sys_platform == 'linux'\"]\n"
    (tmp_path / "pyproject.toml").write_text(project)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v0.3.1"]):
        subprocess.run([*git, *command], check=True)
    found = read(SourceTree("https://example.org", "pyproject.toml", tags="v"), tmp_path)
    assert [(d.version, d.python) for d in found] == [("0.3.1", ">=3.12")]
    assert found[0].requires == ("torch==2.7.0", """vllm==0.9.0 ; (sys_platform == 'linux') and extra == "vllm\"""")
