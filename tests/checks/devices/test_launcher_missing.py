"""RLD304: one process of plain python that sees several devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.devices.launcher_missing import check

from rldoctor.api import Outcome, Severity
from rldoctor.api.facts import Distribution, Packages
from rldoctor.judge import judge_one
from tests.checks.launches import LaunchFile, finding, judged, launch, quiet
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
    found = finding(check, version="0.24.0", **PLAIN, model__path="m", env__CUDA_VISIBLE_DEVICES="0,1,2,3")
    assert found.message.endswith("the trainer wraps the model in DataParallel and multiplies the batch by them")
    assert found.severity is Severity.ERROR
    assert found.fixes[0].commands == ("accelerate launch --num_processes 4 train.py ...",)
    assert found.fixes[1].edits[0].value == "0"


@pytest.mark.parametrize("version", ["0.26.0", "0.29.1", "1.16.0"])
def test_newer_releases_spread_a_model_that_is_named(version: str) -> None:
    found = finding(check, version=version, **PLAIN, model__path="m", gpus=4)
    assert 'spreads the model over them (device_map="auto")' in found.message and "DataParallel" not in found.message
    assert found.severity is Severity.WARNING
    assert "spreads the model" in finding(check, "axolotl", **PLAIN, gpus=4).message


@pytest.mark.parametrize(
    ("version", "said", "severity"),
    [
        ("0.24.0", "DataParallel and multiplies", Severity.ERROR),
        ("1.14.2", "DataParallel and multiplies", Severity.ERROR),
        ("1.15.0", "refuses to start", Severity.ERROR),
    ],
)
def test_open_r1_hands_over_a_loaded_model(version: str, said: str, severity: Severity) -> None:
    case = launch("open-r1", **PLAIN, model__path="m", gpus=4)
    installed = Packages(python="3.12", distributions=(Distribution(name="trl", version=version),), complete=False)
    (found,) = judge_one(check, replace(case, packages=installed)).findings
    assert said in found.message and found.severity is severity


def test_a_script_that_loads_the_model_may_place_it_itself(tmp_path: Path) -> None:
    script = SCRIPT.replace("GRPOTrainer(model=", 'm = AutoModelForCausalLM.from_pretrained("m")\nGRPOTrainer(model=')
    (tmp_path / "train.py").write_text(script.replace('model="m"', "model=m"))
    for version, said in (("0.29.1", "DataParallel and multiplies"), ("1.16.0", "refuses to start")):
        file = LaunchFile(tmp_path, "python train.py\n", {**VERSIONS, "trl": version}, gpus=4)
        (found,) = file.findings(check)
        assert said in found.message and "spreads" not in found.message
        assert found.severity is Severity.WARNING


def test_a_model_that_the_script_lays_over_the_devices_is_meant_so(tmp_path: Path) -> None:
    script = SCRIPT.replace('GRPOTrainer(model="m"', "GRPOTrainer(model=m")
    for laid, found in (('"auto"', 0), ('{"": 0}', 1), ("placed()", 1)):
        load = f'm = AutoModelForCausalLM.from_pretrained("m", device_map={laid})\n'
        (tmp_path / "train.py").write_text(script.replace("arguments =", f"{load}arguments ="))
        assert len(LaunchFile(tmp_path, "python train.py\n", VERSIONS, gpus=4).findings(check)) == found


def test_trl_0_26_has_to_move_before_a_launcher_helps() -> None:
    reported = {
        version: finding(check, version=version, **PLAIN, model__path="m", gpus=4) for version in ("0.26.2", "0.27.0")
    }
    assert reported["0.26.2"].fixes[0].commands[0] == 'pip install "trl>=0.27"'
    assert reported["0.27.0"].fixes[0].commands == ("accelerate launch --num_processes 4 train.py ...",)


def test_where_release_or_model_are_not_known_each_possibility_is_reported() -> None:
    found = finding(check, **PLAIN, model__path="m", gpus=4)
    assert "wraps the model in DataParallel" in found.message and ", the trainer spreads" in found.message
    assert "refuses to start" in found.message and found.severity is Severity.WARNING
    unnamed = finding(check, version="1.16.0", **PLAIN, gpus=4)
    assert "refuses to start" in unnamed.message and "DataParallel and multiplies" not in unnamed.message


def test_a_quantized_model_is_not_wrapped() -> None:
    found = finding(check, version="0.24.0", **PLAIN, model__path="m", model__quantization="4bit", gpus=4)
    assert found.message.endswith("the trainer multiplies the batch by them")


def test_the_machines_devices_count_where_none_are_listed() -> None:
    assert "sees 8 devices" in finding(check, **PLAIN, gpus=8).message
    alone = judged(check, **PLAIN, gpus=1)
    assert (alone.outcome, alone.reason) == (Outcome.PASS, "one process, 1 visible device")
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


def test_trl_refuses_data_parallel() -> None:
    # trl/trainer/grpo_trainer.py 1.15.0
    message = (
        "GRPOTrainer does not support `nn.DataParallel`, which `Trainer` uses when several GPUs are visible to a "
        "single process. Launch the script with `accelerate launch` or `torchrun`, or make a single GPU visible with "
        "`CUDA_VISIBLE_DEVICES`."
    )
    found = logged(check, raised("ValueError", message, "/venv/lib/python3.12/site-packages/trl/trainer/x.py __init__"))
    assert found.message.startswith("TRL refuses to start")
    assert findings(check, "completion: the GRPOTrainer does not support `nn.DataParallel` at all\n") == []


TASKS = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=4 --gpus-per-node=4\n"


@pytest.mark.parametrize(
    ("command", "source"),
    [("srun python train.py", "$SLURM_LOCALID"), ("mpirun -np 4 python train.py", "$OMPI_COMM_WORLD_LOCAL_RANK")],
)
def test_tasks_that_nothing_tells_their_rank(command: str, source: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (found,) = LaunchFile(tmp_path, f"{TASKS}{command}\n", VERSIONS, gpus=4).findings(check)
    assert "starts 4 times plain python" in found.message and found.severity is Severity.WARNING
    assert f"LOCAL_RANK={source}" in found.fixes[0].commands[0]


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID python train.py'", SCRIPT),
        ("srun python train.py", 'import os\nos.environ["LOCAL_RANK"] = os.environ["SLURM_LOCALID"]\n' + SCRIPT),
        ("srun torchrun --nproc_per_node=4 train.py", SCRIPT),
        ("srun --ntasks=1 --ntasks-per-node=1 accelerate launch --num_processes 4 train.py", SCRIPT),
    ],
)
def test_tasks_that_are_told_their_rank(command: str, script: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(script)
    assert not LaunchFile(tmp_path, f"{TASKS}{command}\n", VERSIONS, gpus=4).findings(check)


def test_an_environment_that_no_launcher_made() -> None:
    # https://github.com/guoyww/AnimateDiff/issues/306
    where = "/usr/lib/python3.10/os.py __getitem__"
    assert "asks its environment for RANK" in logged(check, raised("KeyError", "'RANK'", where)).message
    assert findings(check, raised("KeyError", "'RANKING'", "/home/user/rl/reward.py score")) == []
