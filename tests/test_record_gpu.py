"""The recorder of live observations: a fixture tells the hardware and the releases, and nothing of the machine's own
folders and logs."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "record_gpu.py"


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    specification = importlib.util.spec_from_file_location("record_gpu", SCRIPT)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_logs_and_folders_go(recorder: ModuleType) -> None:
    job = {
        "log": "/tmp/x/log.txt",
        "tail": ["/home/me"],
        "records": {
            "miniature": {"path": "/tmp/x/kept/miniature", "like": None},
            "exceptions": [
                {"file": "/opt/v/lib/python3.12/site-packages/vllm/v1/core.py", "message": "in /home/me/a.py"}
            ],
            "url": "https://docs.vllm.ai/en/latest/usage.html",
            "devices": {"count": {"cuda:0": 28}},
            "scores": [-1.23456789],
        },
    }
    reported: dict[str, Any] = recorder.plain(job)
    assert (reported["log"], reported["tail"]) == ("log.txt", [])
    assert reported["records"] == {
        "miniature": {"path": "miniature", "like": None},
        "exceptions": [{"file": "site-packages/vllm/v1/core.py", "message": "in a.py"}],
        "url": "https://docs.vllm.ai/en/latest/usage.html",
        "devices": {"count": {"cuda:0": 28}},
        "scores": [-1.23457],
    }


def test_a_line_for_each_run(recorder: ModuleType) -> None:
    reported = {"recorded": {"date": "2026"}, "observations": {"a": {"on": {"x": [1, 2]}, "off": {}}, "b": {"b": {}}}}
    text = recorder.written(reported)
    assert json.loads(text) == reported and '   "on": {"x":[1,2]},' in text.splitlines()


def test_what_it_was_played_with(recorder: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLDOCTOR_GPU_ENGINE", '{"attention_backend": "TRITON_ATTN", "enforce_eager": false}')
    options = " ".join(recorder.arguments())
    assert options == "--enable-sleep-mode --no-enforce-eager --max-model-len 2048 --attention-backend TRITON_ATTN"
    distributions = [{"name": name, "version": "1.0"} for name in ("numpy", "torch", "vllm")]
    gpus = {"devices": [{"name": "NVIDIA H200", "memory_total": 141 << 30}], "driver": "580.1"}
    case = {"packages": {"python": "3.12.3", "distributions": distributions}, "gpus": gpus}
    reported = recorder.recorded(case, "cd /home/me\nvllm serve M --api-key sk-0123456789abcdef0123")
    assert reported["versions"] == "vllm 1.0, torch 1.0, Python 3.12.3"
    assert reported["hardware"] == "NVIDIA H200 (141 GiB), driver 580.1"
    assert reported["launch"].startswith("cd me vllm serve M") and "sk-0123" not in reported["launch"]
