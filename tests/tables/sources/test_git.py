"""Repositories read with git."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rldoctor.tables.sources.git import CloneTree, GitError, clone_of, git, tags

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with two releases."""
    folder = tmp_path / "someone" / "framework"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True, timeout=30)
    # What a server of repositories does: it sends commits without the files' contents.
    git(folder, "config", "uploadpack.allowFilter", "true")
    release(folder, "v0.1", "vllm>=0.7\n")
    release(folder, "v0.2", "vllm>=0.8\n")
    return folder


def release(folder: Path, tag: str, text: str) -> None:
    (folder / "requirements.txt").write_text(text)
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", tag)
    git(folder, "tag", tag)


def test_a_repository_is_cloned_once_and_brought_up_to_date(origin: Path, tmp_path: Path) -> None:
    clone = clone_of(f"file://{origin}", {}, tmp_path / "cache")
    assert tags(clone, "v") == ["v0.1", "v0.2"]
    assert CloneTree(clone, "v0.1").read("requirements.txt") == "vllm>=0.7\n"
    assert CloneTree(clone, "HEAD").names("requirements.txt") == ()
    release(origin, "v0.3", "vllm>=0.9\n")
    assert clone_of(f"file://{origin}", {}, tmp_path / "cache") == clone
    assert tags(clone, "v") == ["v0.1", "v0.2", "v0.3"]
    assert CloneTree(clone, "HEAD").read("requirements.txt") == "vllm>=0.9\n"


def test_a_clone_at_hand_is_used(origin: Path, tmp_path: Path) -> None:
    assert clone_of("https://example.org/someone/framework", {"someone/framework": origin}, tmp_path) == origin


def test_what_is_not_there(origin: Path, tmp_path: Path) -> None:
    assert CloneTree(origin, "v9").read("requirements.txt") is None
    assert CloneTree(origin, "v0.1").read("setup.py") is None
    with pytest.raises(GitError):
        clone_of(f"file://{tmp_path}/missing", {}, tmp_path / "cache")
