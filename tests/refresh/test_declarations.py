"""The maintainer's refresh: an index that serves ranges, archives of both kinds, and repositories."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.frameworks.record import Repository
from rldoctor.refresh import declarations
from rldoctor.refresh.releases import Publications
from rldoctor.refresh.repositories import read
from rldoctor.tables.sources.index import archives, metadata
from tests.served import Serve

METADATA = """Metadata-Version: 2.4
Name: trl
Version: {version}
Requires-Python: >=3.10
Requires-Dist: transformers>=4.56.1
Requires-Dist: rich>=14
Requires-Dist: accelerate
Requires-Dist: vllm==0.10.2; extra == "vllm"
Requires-Dist: vllm<0.9; extra == "dev"
Requires-Dist: transformers>=4.56.1; extra == "vllm"
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
def index(serve: Serve) -> str:
    """A simple index with three releases of trl: two wheels, the newer withdrawn, and a source distribution."""
    files = {
        "trl-0.24.0-py3-none-any.whl": _wheel("0.24.0"),
        "trl-0.25.0-py3-none-any.whl": _wheel("0.25.0"),
        "trl-0.1.tar.gz": _sdist(
            {"PKG-INFO": "Name: trl\nVersion: 0.1\n", "trl.egg-info/requires.txt": "torch>=1.4\n\n[vllm]\nvllm>=0.7\n"}
        ),
    }
    served = serve()
    served.offer("trl", files, yanked="0.25")
    # Another index, which asks for a password and serves metadata as files of their own (PEP 658).
    served.files["/private/trl/"] = b'<a href="/private/trl-0.26.0-py3-none-any.whl" data-core-metadata="true">trl</a>'
    served.files["/private/trl-0.26.0-py3-none-any.whl.metadata"] = METADATA.format(version="0.26.0").encode()
    return served.index


def test_metadata_is_read_from_wheels_by_ranges_and_from_source_distributions(index: str) -> None:
    offered = archives(index, "trl")
    assert set(offered) == {"0.1", "0.24.0", "0.25.0"}
    assert "Version: 0.24.0" in metadata(offered["0.24.0"][0])
    assert 'Requires-Dist: vllm>=0.7; extra == "vllm"' in metadata(offered["0.1"][0])


def test_a_refresh_keeps_what_matters_once_and_merges_neighbours(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "declared.json"
    monkeypatch.setattr(declarations, "TABLE", table)
    assert declarations.refresh("trl", Publications(tmp_path, index), print) == [
        "3 new releases, 0.1 to 0.25.0",
        "withdrawn: 0.25.0",
    ]
    assert declarations.refresh("trl", Publications(tmp_path, index), print) == []
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
    assert not declarations.renew(("peft", "trl"), table, index, tmp_path, said.append)
    written = json.loads(table.read_text())
    assert written["packages"]["peft"] == old
    assert [row["versions"] for row in written["packages"]["trl"]["rows"]] == [["0.1"], ["0.24.0", "0.25.0"]]
    assert written["packages"]["trl"]["date"] > written["date"] == "2025-01-31"
    assert any(line.startswith("peft: the index: HTTP Error 404") and "2025-01-31 stays" in line for line in said)


def test_what_is_not_in_the_table_cannot_be_renewed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="flask: not in the table"):
        declarations.renew(["flask"], tmp_path / "declared.json", None, tmp_path, print)
    with pytest.raises(InputError, match="cannot be written"):
        declarations.renew(["trl"], tmp_path / "missing" / "declared.json", None, tmp_path, print)


def test_a_framework_without_packages_is_read_from_its_tags(tmp_path: Path) -> None:
    project = '[project]\nname = "nemo-rl"\nrequires-python = ">=3.12"\ndependencies = ["torch==2.7.0"]\n'
    project += "[project.optional-dependencies]\nvllm = [\"vllm==0.9.0; sys_platform == 'linux'\"]\n"
    (tmp_path / "pyproject.toml").write_text(project)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v0.3.1"]):
        subprocess.run([*git, *command], check=True)
    found = read(Repository(name="someone/framework", tag="v", requirements="pyproject.toml"), tmp_path)
    assert [(d.version, d.python) for d in found] == [("0.3.1", ">=3.12")]
    assert found[0].requires == ("torch==2.7.0", """vllm==0.9.0 ; (sys_platform == 'linux') and extra == "vllm\"""")
