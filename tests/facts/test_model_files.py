"""A local model directory, whole or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldoctor.case import ModelFiles, Unknown
from rldoctor.catalogue.probe import Request
from rldoctor.errors import InputError
from rldoctor.facts import model_files

CONFIG = {"architectures": ["Qwen3ForCausalLM"], "hidden_size": 64}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    (directory / "original").mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(CONFIG))
    (directory / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    (directory / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    (directory / "model.safetensors").write_bytes(b"\0" * 100)
    return directory


def test_a_whole_model(model: Path) -> None:
    found = model_files.collect(Request(model=model))
    assert isinstance(found, ModelFiles)
    assert found.config == CONFIG
    assert found.tokenizer_config == {"chat_template": "x"}
    assert found.generation_config == {"eos_token_id": [1, 2]}
    assert found.files["model.safetensors"] == 100
    assert "original" not in found.files
    assert found.broken == {}


def test_a_target_that_is_a_model_directory(model: Path) -> None:
    assert model_files.collect(Request(target=model)) == model_files.read(model)


def test_without_a_model_the_fact_is_unknown(tmp_path: Path) -> None:
    for request in (Request(), Request(target=tmp_path), Request(target=tmp_path / "train.sh")):
        assert model_files.collect(request) == Unknown(reason="no local model was named", how="--model DIRECTORY")


def test_what_else_is_damaged_is_recorded(model: Path) -> None:
    (model / "tokenizer_config.json").write_text("{")
    (model / "generation_config.json").unlink()
    (model / "model.safetensors").unlink()
    (model / "model.safetensors").symlink_to("../blobs/gone")
    found = model_files.read(model)
    assert found.tokenizer_config is None and found.generation_config is None
    assert "model.safetensors" not in found.files
    assert found.broken["model.safetensors"] == "is a link to a file that does not exist"
    assert found.broken["tokenizer_config.json"].startswith("is not valid JSON: Expecting property name")


def test_numbers_that_json_does_not_have_are_read_as_transformers_does(model: Path) -> None:
    (model / "config.json").write_text('{"time_step_limit": [0.0, Infinity]}')
    assert model_files.read(model).config == {"time_step_limit": [0.0, float("inf")]}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not valid JSON: Expecting value"),
        (b'{"a": ', "is not valid JSON"),
        (b"[1, 2]", "does not hold a JSON object"),
        (b"\xff\xfe\x00", "is not text in UTF-8"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"a":' * 100_000, "is nested too deeply"),
        (b" " * (model_files.MAX_BYTES + 1), "is larger than 32 MiB"),
    ],
    ids=["empty", "truncated", "list", "binary", "deep list", "deep object", "huge"],
)
def test_a_config_that_cannot_be_read(model: Path, content: bytes, why: str) -> None:
    (model / "config.json").write_bytes(content)
    with pytest.raises(InputError) as caught:
        model_files.read(model)
    assert str(caught.value).startswith(f"{model / 'config.json'}: {why}")
    assert "\n" not in str(caught.value)


def test_a_path_that_is_no_model(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Qwen/Qwen3-0\.6B: no such directory; a model is given as a local directory"):
        model_files.read(Path("Qwen/Qwen3-0.6B"))
    with pytest.raises(InputError, match="is a file, not a directory"):
        model_files.read(model / "config.json")
    with pytest.raises(InputError, match=r"config\.json: No such file or directory"):
        model_files.read(tmp_path)
    (tmp_path / "config.json").mkdir()
    with pytest.raises(InputError, match=r"config\.json: not a regular file"):
        model_files.read(tmp_path)
