"""A project that the examples are tried in."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.test_cli import MACHINE, VERL

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One launch that is sick, one that is well, and the machine that both are for."""
    gpu = {"name": "NVIDIA A100-SXM4-80GB", "memory_gib": 80, "compute_capability": "8.0", "count": 8}
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "launch_sick.sh").write_text(VERL)
    (folder / "launch_well.sh").write_text(VERL.replace("max_num_batched_tokens=8192", "max_num_batched_tokens=10240"))
    (folder / "machine.json").write_text(json.dumps({**MACHINE, "gpus": [gpu]}))
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables under which ``rldoctor`` is this one."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
