"""The maintainer's refresh: an index that serves ranges, archives of both kinds, and repositories."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.knowledge import refresh
from rldoctor.knowledge.package_index import archives, metadata
from rldoctor.knowledge.source_tree import SourceTree, read, read_remote

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
    served = {f"/files/{name}": body for name, body in files.items()}
    served["/simple/trl/"] = links.encode()
    # Another index, which asks for a password and serves metadata as files of their own (PEP 658).
    served["/private/trl/"] = b'<a href="/private/trl-0.26.0-py3-none-any.whl" data-core-metadata="true">trl</a>'
    served["/private/trl-0.26.0-py3-none-any.whl.metadata"] = METADATA.format(version="0.26.0").encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = served.get(self.path, b"")
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


def test_an_index_may_serve_metadata_alone_and_want_a_password(index: str) -> None:
    private = index.replace("//", "//me:secret@").replace("/simple", "/private")
    offered = archives(private, "trl")
    assert [archive.has_metadata_file for archive in offered["0.26.0"]] == [True]
    assert "Version: 0.26.0" in metadata(offered["0.26.0"][0])
    with pytest.raises(OSError, match="401"):
        archives(private.replace("me:secret@", ""), "trl")


def test_a_source_that_does_not_answer_keeps_its_rows_and_their_date(index: str, tmp_path: Path) -> None:
    table = tmp_path / "declared.json"
    rows = [{"versions": ["0.9.0"], "python": None, "requires": ["torch>=2"]}]
    old = {"source": "PyPI", "date": "2025-01-31", "yanked": [], "rows": rows}
    table.write_text(json.dumps({"date": "2025-01-31", "packages": {"peft": old, "trl": {**old, "rows": []}}}))
    said: list[str] = []
    assert not refresh.refresh(table, ("peft", "trl"), index, say=said.append)
    told = json.loads(table.read_text())
    assert told["packages"]["peft"] == old
    assert [row["versions"] for row in told["packages"]["trl"]["rows"]] == [["0.1"], ["0.24.0", "0.25.0"]]
    assert told["packages"]["trl"]["date"] > told["date"] == "2025-01-31"
    assert any(line.startswith("peft: the index: HTTP Error 404") and "2025-01-31 stays" in line for line in said)


def test_what_is_not_in_the_table_cannot_be_renewed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="flask: not in the table"):
        refresh.renew(["flask"], tmp_path / "declared.json", None, print)
    with pytest.raises(InputError, match="cannot be written"):
        refresh.renew(["trl"], tmp_path / "missing" / "declared.json", None, print)


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


def test_a_repository_is_read_without_a_clone(tmp_path: Path) -> None:
    """git lists the tags; of each only the one file is asked for, and a tag from before it is left out."""
    origin = tmp_path / "someone" / "framework"
    origin.mkdir(parents=True)
    git = ["git", "-C", str(origin), "-c", "user.name=a", "-c", "user.email=a@b"]
    commands = (["init", "-q"], ["commit", "-q", "--allow-empty", "-mx"], ["tag", "v0.1"], ["tag", "v0.2"])
    for command in commands:
        subprocess.run([*git, *command], check=True)
    served = tmp_path / "raw" / "someone" / "framework" / "v0.2"
    served.mkdir(parents=True)
    (served / "requirements.txt").write_text("vllm>=0.8.0\n")
    tree = SourceTree(str(origin), "requirements.txt", tags="v")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "raw")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = read_remote(tree, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    assert [(declared.version, declared.requires) for declared in found] == [("0.2", ("vllm>=0.8.0",))]
    with pytest.raises(OSError):
        read_remote(SourceTree(str(tmp_path / "missing"), "requirements.txt", tags="v"))


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass
