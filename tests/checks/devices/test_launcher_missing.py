"""RLD304: one process of plain python that sees several devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldoctor_checks.devices.launcher_missing import check

from rldoctor.api import Outcome
from tests.checks.launches import LaunchFile, finding, judged, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised

PLAIN: dict[str, Any] = {"process__launcher": "none", "process__total": 1}
VERSIONS = {"trl": "0.24.0", "vllm": "0.10.2"}
SCRIPT = """\
from trl import GRPOConfig, GRPOTrainer
arguments = GRPOConfig(output_dir="out", use_vllm=True, vllm_mode="colocate")
GRPOTrainer(model="m", args=arguments).train()
"""


def test_plain_python_and_four_devices() -> None:
    # https://github.com/huggingface/trl/issues/3181
    found = finding(check, **PLAIN, env__CUDA_VISIBLE_DEVICES="0,1,2,3")
    assert "DataParallel" in found.message
    assert found.fixes[0].commands == ("accelerate launch --num_processes 4 train.py ...",)
    assert found.fixes[1].edits[0].value == "0"


def test_the_machines_devices_count_where_none_are_listed() -> None:
    assert "sees 8 devices" in finding(check, **PLAIN, gpus=8).message
    assert judged(check, **PLAIN, gpus=1).outcome is Outcome.PASS
    assert judged(check, **PLAIN).outcome is Outcome.NOT_CHECKED


def test_deepspeed_stops_instead() -> None:
    assert "finds no ranks" in finding(check, **PLAIN, gpus=2, trainer__deepspeed="zero2.json").message


def test_launchers_and_other_frameworks_are_quiet() -> None:
    for launcher in ("accelerate", "torchrun", "deepspeed", "srun"):
        assert quiet(check, process__launcher=launcher, process__total=1, gpus=4), launcher
    assert quiet(check, "unsloth", **PLAIN, gpus=4)
    assert quiet(check, "verl", process__launcher="ray", process__total=1, gpus=4)


def test_a_script_by_itself_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    file = LaunchFile(tmp_path, "python train.py\n", VERSIONS, gpus=4)
    assert [found.code for found in file.findings(check)] == ["RLD304"]
    file.path = tmp_path / "train.py"
    assert file.findings(check) == []


def test_a_process_group_without_ranks() -> None:
    message = (
        "Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but not set"
    )
    found = logged(check, raised("ValueError", message))
    assert "RANK is not set" in found.message
    assert any("torchrun" in command for fix in found.fixes for command in fix.commands)


def test_another_error_of_the_rendezvous() -> None:
    assert (
        findings(check, raised("ValueError", "Error initializing torch.distributed using tcp:// rendezvous: x")) == []
    )
