"""A model by its name on the hub: what its cache on this machine holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldoctor.facts import hub_cache
from rldoctor.facts.model_files import read

NAME = "Qwen/Qwen2.5-7B-Instruct"
COMMIT = "a09a35458c702b33eeacc393d103063234e8bc28"


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """One model in a cache, as huggingface_hub lays it out: blobs, a branch, and links for a commit."""
    model = tmp_path / "hub/models--Qwen--Qwen2.5-7B-Instruct"
    files = model / "snapshots" / COMMIT
    for folder in (files, model / "blobs", model / "refs"):
        folder.mkdir(parents=True)
    (model / "refs/main").write_text(COMMIT)
    (model / "blobs/0f").write_text(json.dumps({"model_type": "qwen2", "num_attention_heads": 28}))
    (files / "config.json").symlink_to("../../blobs/0f")
    return files


def test_the_branch_says_which_files(snapshot: Path, tmp_path: Path) -> None:
    (snapshot.parent / ("b" * 40)).mkdir()
    assert hub_cache.directory(NAME, {"HF_HOME": str(tmp_path)}) == snapshot
    model = read(snapshot)
    assert model.cached and model.config["num_attention_heads"] == 28


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/home/me"}, "/home/me/.cache/huggingface/hub"),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "/fast"}, "/fast/huggingface/hub"),
        ({"HF_HOME": "/data/hf", "XDG_CACHE_HOME": "/fast"}, "/data/hf/hub"),
        ({"HF_HUB_CACHE": "/data/hub", "HF_HOME": "/data/hf"}, "/data/hub"),
    ],
)
def test_the_variables_say_where(environ: dict[str, str], folder: str) -> None:
    assert hub_cache.root(environ) == Path(folder)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "../../etc", "/models/qwen", "a/b/c", ""])
def test_what_is_not_there(snapshot: Path, tmp_path: Path, name: str) -> None:
    assert hub_cache.directory(name, {"HF_HOME": str(tmp_path)}) is None


def test_a_download_that_was_interrupted_before_the_config(snapshot: Path, tmp_path: Path) -> None:
    (snapshot.parents[1] / "blobs/0f").unlink()
    assert hub_cache.directory(NAME, {"HF_HOME": str(tmp_path)}) is None


def test_other_directories_are_no_cache(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert not read(tmp_path).cached
