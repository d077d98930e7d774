"""What a launch comes to: every number with where it comes from, and what is not known said as such."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from rldoctor.case import ModelFiles
from rldoctor.cli import main
from rldoctor.exhibits.sheet import Row, Sheet, sheet, source_of
from rldoctor.launch.plans import plans
from tests.checks.launches import LaunchFile

VERL = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:8\n"
    "python3 -m verl.trainer.main_ppo data.train_batch_size=256 data.max_prompt_length=1024 \\\n"
    "  data.max_response_length=3072 actor_rollout_ref.rollout.n=8 actor_rollout_ref.rollout.name=vllm \\\n"
    "  actor_rollout_ref.rollout.tensor_model_parallel_size=2 trainer.n_gpus_per_node=8 trainer.nnodes=2\n"
)


def made(folder: Path, text: str, versions: dict[str, str]) -> Sheet:
    """The sheet of the only launch of a file."""
    (case,) = LaunchFile(folder, text, versions).cases()
    return sheet(case)


def row(made: Sheet, option: str) -> Row:
    (found,) = (row for rows in made.rows.values() for row in rows if row.option == option)
    return found


def test_every_number_has_its_source(tmp_path: Path) -> None:
    found = made(tmp_path, VERL, {"verl": "0.5.0", "vllm": "0.8.5"})
    file = tmp_path / "run.sh"
    sources = {
        option: (row(found, option).value, source_of(row(found, option)).replace(f"{file.parent}/", ""))
        for option in ("lengths.prompt", "engine.max_model_len", "scheduler.nodes", "engine.pipeline_parallel_size")
    }
    assert sources["lengths.prompt"] == (1024, "data.max_prompt_length (run.sh:4)")
    assert sources["engine.max_model_len"] == (4096, "prompt 1024 + response 3072 (run.sh:5)")
    assert sources["scheduler.nodes"] == (2, "#SBATCH --nodes (run.sh:2)")
    assert sources["engine.pipeline_parallel_size"][1].startswith("pipeline_parallel_size: default of vllm 0.8.5")


def test_ranks_replicas_devices_and_seeds(tmp_path: Path) -> None:
    found = made(tmp_path, VERL, {"verl": "0.7.1"})
    assert [(r.rank, r.node, r.device, r.replica, r.peer, r.seed) for r in found.ranks[7:10]] == [
        (7, 0, 7, 3, 1, 3),
        (8, 1, 0, 4, 0, 4),
        (9, 1, 1, 4, 1, 4),
    ]
    assert found.seeds == "replica rank + rollout.seed" and found.together is None


def test_a_release_that_is_not_known_leaves_its_numbers_open(tmp_path: Path) -> None:
    found = made(tmp_path, VERL, {})
    assert found.ranks == () and found.ranks_unknown == "how verl of an unknown release seeds its replicas is not known"
    length = row(found, "engine.max_model_len")
    assert (length.value, length.source) == (None, "unknown")
    assert source_of(length).startswith("not known: ")


def test_an_engine_that_is_told_no_length_has_the_models_own(tmp_path: Path) -> None:
    (case,) = LaunchFile(tmp_path, VERL, {"verl": "0.7.0"}).cases()
    assert (
        source_of(row(sheet(case), "engine.max_model_len")) == "not known: the model's own context (--model DIRECTORY)"
    )
    model = ModelFiles(path="/m", config={"model_type": "qwen3", "max_position_embeddings": 40960})
    length = row(sheet(replace(case, model=model)), "engine.max_model_len")
    assert (length.value, source_of(length)) == (40960, "the model's own context: max_position_embeddings")


def test_a_variable_that_the_file_does_not_set_is_named(tmp_path: Path) -> None:
    found = made(tmp_path, VERL.replace("max_prompt_length=1024", "max_prompt_length=$LENGTH"), {"verl": "0.7.1"})
    assert "LENGTH" in source_of(row(found, "lengths.prompt"))


def test_memory_says_what_it_lacks(tmp_path: Path) -> None:
    found = made(tmp_path, VERL, {"verl": "0.7.1"})
    assert found.memory == () and found.memory_unknown is not None


def test_the_step_that_starts_ray_is_not_the_runs(tmp_path: Path) -> None:
    text = VERL.replace("python3 -m", "srun -N1 -n1 ray start --head &\npython3 -m")
    (case,) = LaunchFile(tmp_path, text, {}).cases()
    assert case.plan is not None
    assert case.plan.get("scheduler.step") is None and case.plan.value("ray.started") is True
    assert plans(tmp_path / "run.sh", case)[0].value("scheduler.visible") == 8


def test_the_command_prints_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.sh").write_text(VERL)
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(tmp_path / "run.sh"), "--assume", "verl==0.7.1", "--format", "json"])
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out)
    (launch,) = msgspec.convert(document["launches"], list[Sheet])
    assert len(launch.ranks) == 16
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(tmp_path / "run.sh"), "--assume", "verl==0.7.1"])
    text = capsys.readouterr().out
    assert ended.value.code == 0 and "engine replicas in all" in text and "replica rank + rollout.seed" in text


@pytest.mark.parametrize("text", [None, "echo hello\n"])
def test_what_is_no_launch_is_one_line(text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if text is not None:
        (tmp_path / "run.sh").write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(tmp_path / "run.sh")])
    captured = capsys.readouterr()
    assert ended.value.code == 2 and captured.out == "" and len(captured.err.strip().splitlines()) == 1
