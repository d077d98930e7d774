"""The maintainer's command: from published releases to a table."""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import msgspec
import pytest

from rldoctor.frameworks.option_table import OptionTable
from rldoctor.refresh import options
from rldoctor.refresh.declarations import SourceError
from rldoctor.refresh.releases import Publications
from rldoctor.tables.options import Option
from rldoctor.tables.sources.git import git
from tests.served import Serve, Served

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


@pytest.fixture
def served(serve: Serve) -> Served:
    started = serve()
    started.offer("trl", FILES, yanked="0.17.0-")
    return started


def test_a_table_from_an_index(served: Served, tmp_path: Path) -> None:
    published = Publications(tmp_path / "cache", served.index)
    folder, said = tmp_path / "of a new framework", list[str]()
    assert options.refresh("trl", published, said.append, folder) == ["3 new releases, 0.14.0 to 0.16.0"]
    text = (folder / "trl.json").read_text()
    table = OptionTable("trl", msgspec.json.decode(text))
    assert table.versions == ["0.14.0", "0.15.0", "0.16.0"]
    content = msgspec.json.decode(text)["groups"]["GRPOConfig"]
    assert content["beta"] == [{"default": 0.04, "until": "0.16.0"}, {"default": 0.0, "since": "0.16.0"}]
    assert content["device"] == [{"default": "auto", "until": "0.15.0"}]
    assert content["mode"] == [{"default": "a", "choices": ["a", "b"], "since": "0.16.0"}]
    assert content["most"] == [{"computed": "float('inf')", "type": "float", "since": "0.16.0"}]
    assert said == ["trl 0.18.0: no options found, left out"]
    assert served.sent < 2_500_000  # of the weights at most the block behind which the wheel's directory lies
    served.sent = 0
    assert options.refresh("trl", published, said.append, folder) == []
    assert served.sent < 2_000  # the second time only the list of files is asked for
    assert (folder / "trl.json").read_text() == text


def test_a_release_of_a_newer_python_is_not_lost(served: Served, tmp_path: Path) -> None:
    options.refresh("trl", Publications(tmp_path / "first", served.index), print, tmp_path)
    before, said = (tmp_path / "trl.json").read_text(), list[str]()
    served.offer("trl", {**FILES, "trl-0.15.0-py3-none-any.whl": wheel("    beta: float = = 1\n")})
    with pytest.raises(SourceError, match=r"^the table has 0.15.0, .* stays as it is$"):
        options.refresh("trl", Publications(tmp_path / "second", served.index), said.append, tmp_path)
    assert (tmp_path / "trl.json").read_text() == before
    python = platform.python_version()
    assert said[0] == f"trl 0.15.0: trl/trainer/grpo_config.py is not for Python {python} (line 3: invalid syntax)"


def test_a_new_release_is_said_with_what_it_changed(served: Served, tmp_path: Path) -> None:
    options.refresh("trl", Publications(tmp_path, served.index), print, tmp_path)
    newer = "    beta: float = 0.1\n    top_k: int = 0\n    most: float = float('inf')\n"
    served.offer("trl", {**FILES, "trl-0.19.0-py3-none-any.whl": wheel(newer)})
    assert options.refresh("trl", Publications(tmp_path, served.index), print, tmp_path)[1:] == [
        "GRPOConfig: new: top_k, yanked",
        "GRPOConfig: gone: mode",
        "GRPOConfig: changed: beta, most",
    ]


def test_what_groups_share_is_written_once() -> None:
    option = {"n": Option("n", 1, "int")}
    content = options.table("trl", {"1.0": {"GRPOConfig": option, "RLOOConfig": option}}, "2026-11-20")
    assert content["groups"] == {"GRPOConfig": {"n": [{"default": 1}]}, "RLOOConfig": {"n": "GRPOConfig"}}
    assert OptionTable("trl", content).default("n", "1.0", "RLOOConfig") == 1


def test_a_number_of_another_type_is_another_default() -> None:
    read = {"1.0": {"train": {"epochs": Option("epochs", 1)}}, "2.0": {"train": {"epochs": Option("epochs", 1.0)}}}
    (whole, broken) = options.table("axolotl", read, "2026-11-20")["groups"]["train"]["epochs"]
    assert (type(whole["default"]), type(broken["default"]), broken["since"]) == (int, float, "2.0")


def test_every_option_has_a_line_of_its_own() -> None:
    declared = {name: Option(name, 1, "int") for name in "abc"}
    text = options.rendered(options.table("easyr1", {"1.0": {"main": declared}}, "2026-11-20"))
    assert [line for line in text.splitlines() if line.startswith('"b"')] == ['"b":[{"default":1}],']


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
    found = Publications(tmp_path / "cache", clones={"hiyouga/EasyR1": tmp_path}).releases("easyr1", "0.3.0")
    assert [release.version for release in found] == ["0.3.0", "0.3.1.dev0"]
    read = options.read_releases("easyr1", found, print)
    assert [groups["main"]["n"].default for groups in read.values()] == [1, 2]
