"""One-line records: what each framework prints for a step is read, what only looks like it is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.case import Series
from rldoctor.logs import metrics
from rldoctor.logs.metrics import console
from rldoctor.logs.triage import triage_text

Collected = Callable[[str], dict[str, Series]]


def test_trl_prints_strings_and_no_step(collected: Collected) -> None:
    found = collected("trl_healthy.txt")
    assert found["reward"].steps == (1, 2, 3, 4)
    assert found["reward"].values == (0.2875, 0.3125, 0.2438, 0.2438)
    assert found["reward"].lines == (3, 6, 9, 12)
    assert found["completion_length_mean"].key == "completions/mean_length"
    assert found["grad_norm"].source == "trl_healthy.txt"


def test_steps_follow_the_bar_where_not_every_step_is_logged(collected: Collected) -> None:
    assert collected("trl_every_second_step.txt")["loss"].steps == (2, 4, 6, 8)


def test_evaluations_are_no_steps(collected: Collected) -> None:
    found = collected("trl_with_evaluation.txt")
    assert found["reward"].steps == (1, 2, 3, 4)
    assert all(not series.key.startswith("eval") for series in found.values())


def test_trl_logs_none_where_all_was_nan(collected: Collected) -> None:
    assert all(math.isnan(value) for value in collected("trl_nan_reward.txt")["reward"].values)


def test_ms_swift_says_its_step(collected: Collected) -> None:
    found = collected("ms_swift.txt")
    assert found["kl"].steps == (1, 2, 3, 4, 5)
    assert found["sampling_kl"].key == "rollout_correction/kl"
    assert collected("ms_swift_logging.jsonl")["grad_norm"].values == found["grad_norm"].values


def test_verl_behind_rays_prefix_with_numpy_values(collected: Collected) -> None:
    found = collected("verl.txt")
    assert found["grad_norm"].steps == (1, 2, 3, 4, 5)
    assert all(0.2 <= value <= 0.4 for value in found["grad_norm"].values)
    assert found["reward"].key == "critic/score/mean"
    assert "kl" in found and found["kl"].key == "actor/kl_loss"


@pytest.mark.parametrize("name", ["critic/score/mean", "critic/rewards/mean", "actor/grad_norm"])
def test_a_verl_line_that_was_shortened_is_read(name: str) -> None:
    lines = "".join(f"(TaskRunner pid=9) step:{step} - {name}:nan - actor/entropy:nan\n" for step in range(1, 5))
    healthy = lines.replace("nan", "0.5")
    assert [finding.code for finding in triage_text(lines).findings] == ["RLD504"]
    assert not triage_text(healthy).findings


def test_a_zero_that_rounding_made_is_no_value(collected: Collected) -> None:
    found = collected("verl_0.4.txt")
    assert "learning_rate" not in found and "kl" not in found
    assert found["clip_ratio"].values == (0.0, 0.0, 0.0, 0.0)


def test_verl_and_easyr1_log_files(collected: Collected) -> None:
    assert math.isnan(collected("verl_file.jsonl")["grad_norm"].values[-1])
    assert collected("easyr1_experiment_log.jsonl")["advantage_max"].steps == (1, 2, 3)


def test_openrlhf_line_and_bar(collected: Collected) -> None:
    found = collected("openrlhf.txt")
    assert found["grad_norm"].values[:2] == (0.31, 0.32)
    assert found["sampling_kl"].key == "vllm_kl"
    assert "kl" not in found, "OpenRLHF logs 0 where there is no reference"
    assert collected("openrlhf_0.6.txt")["reward"].values == (0.0, 0.1, 0.2, 0.3)


@pytest.mark.parametrize(
    "line",
    [
        "{'prompt': '6+6=', 'completion': 'loss: 3'}",
        "{'reward': 0.5, 'loss': 1.0}",  # a user's own print: neither epoch nor step
        '{"step": 3, "message": "saved"}',
        '{"step": 3, "reward": 0.5, "completion": "a"}',
        "{'eval_loss': 0.1, 'eval_reward': 0.2, 'epoch': 1.0}",
        "{'train_runtime': '7.469', 'train_loss': '-0.08558', 'epoch': '0.5'}",
        "step:0 - val-core/gsm8k/reward/mean@1:0.21",
        "the loss at step:3 was fine",
        '{"' + "a" * 300_000,
        "{" * 50_000,
        "{'loss': 'x', 'grad_norm': [1, 2], 'epoch': '0.5'}",
    ],
)
def test_what_is_no_training_step(line: str) -> None:
    assert console.read(line) is None


def test_nan_and_infinity_as_python_prints_them() -> None:
    found = metrics.collect(
        [("log", 1, "[rank0]: {'loss': nan, 'grad_norm': tensor(inf, device='cuda:0'), 'epoch': 0.1}")]
    )
    assert math.isnan(found["loss"].values[0]) and found["grad_norm"].values[0] == math.inf


def test_hostile_lines_take_linear_time() -> None:
    for line in (
        "'a':" * 60_000,
        "{'" * 100_000,
        "'epoch'" + "'loss': '" * 20_000,
        "%|" * 100_000,
        "step:1 - " * 20_000,
    ):
        metrics.collect([("log", 1, line)])


@pytest.mark.parametrize(
    "name", ["trl_healthy", "trl_top_k_1", "verl", "easyr1", "skyrl", "nemo_rl", "openrlhf", "openrlhf_0.6", "ms_swift"]
)
def test_a_reader_that_jumps_by_literals_finds_the_same(collected: Collected, data: Path, name: str) -> None:
    collector, fed = metrics.Collector(), 0
    for number, line in enumerate((data / f"{name}.txt").read_bytes().decode().split("\n"), 1):
        if collector.follows(name) or any(literal in line for literal in metrics.LITERALS):
            collector.feed(name, number, line)
            fed += 1
    assert fed
    jumped, whole = collector.series(), collected(f"{name}.txt")
    assert {key: one.values for key, one in jumped.items()} == {key: one.values for key, one in whole.items()}


STEP = (
    "'loss': -0.0, 'grad_norm': 0.0, 'reward': 0.34, 'reward_std': 0.43, 'epoch': 0.0, 'global_step/max_steps': '5/37'}"
)


def test_a_record_that_lost_its_brace_is_read_like_a_whole_one() -> None:
    assert console.read(STEP) == console.read("{" + STEP) is not None
    assert console.read("'epoch' is not a key of {'loss': 0.1}") is None
