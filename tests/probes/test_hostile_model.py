"""A model folder that would run code wherever it is loaded carelessly: nothing of it runs, at any level."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest


class Trap:
    """Makes a file where it is unpickled."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (os.system, (f"touch {self.sprung}",))


@pytest.fixture
def sprung(tmp_path: Path) -> Path:
    """The file that is there once anything of the model has run."""
    return tmp_path / "sprung"


@pytest.fixture
def model(tmp_path: Path, sprung: Path) -> Path:
    """A Qwen2 by its configuration, with code and pickles in all the places where loaders look for them."""
    folder = tmp_path / "model"
    folder.mkdir()
    code = {"AutoConfig": "trap.C", "AutoModel": "trap.M", "AutoModelForCausalLM": "trap.M", "AutoTokenizer": "trap.T"}
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "vocab_size": 512,
        "torch_dtype": "float32",
        "auto_map": code,
    }
    template = "{{ ''.__class__.__mro__[1].__subclasses__() }}{{ cycler.__init__.__globals__.os.system('touch " + str(
        sprung
    )
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = {"tokenizer_class": "trap.T", "auto_map": code, "chat_template": template + "') }}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (folder / "generation_config.json").write_text(json.dumps({"custom_generate": "trap.py", "max_length": 9}))
    springs = f"open({str(sprung)!r}, 'w').close()\n"
    for name in ("trap.py", "__init__.py", "tokenizer.py", "sitecustomize.py", "torch.py", "vllm.py"):
        (folder / name).write_text(f"{springs}class C: pass\nM = T = C\n")
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text(springs)
    for name in (
        "pytorch_model.bin",
        "model.pt",
        "adapter_model.bin",
        "optimizer.pt",
        "training_args.bin",
        "rng_state.pth",
    ):
        (folder / name).write_bytes(pickle.dumps(Trap(sprung)))
    return folder


def check(model: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rldoctor", "check", "--model", str(model), *arguments, "--format", "json"]
    return subprocess.run(command, cwd=model, capture_output=True, text=True, timeout=300)


def test_the_trap_works(model: Path, sprung: Path) -> None:
    pickle.loads((model / "pytorch_model.bin").read_bytes())
    assert sprung.exists()


def test_nothing_of_it_runs_where_it_is_read(model: Path, sprung: Path) -> None:
    done = check(model, "--level", "imports", "--select", "RLD115,RLD203,RLD209,RLD215")
    assert json.loads(done.stdout)["checks"], done.stderr
    assert not sprung.exists()


@pytest.mark.engine
def test_nothing_of_it_runs_where_an_engine_plays_its_architecture(model: Path, sprung: Path, patient: Path) -> None:
    done = check(model, "--level", "rollout", "--select", "RLD404", "--python", str(patient))
    report = json.loads(done.stdout)
    (judged,) = report["checks"]
    assert judged["outcome"] == "pass", done.stdout + done.stderr
    assert not sprung.exists()
