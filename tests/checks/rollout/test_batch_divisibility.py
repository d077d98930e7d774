"""RLD211: the divisions that each framework makes, in the versions that make them."""

from __future__ import annotations

import pytest
from rldoctor_checks.rollout.batch_divisibility import check

from rldoctor.api import Outcome
from tests.logs.raising import found, traceback
from tests.plans import edits, judged


def trl(version: str, **settings: int) -> dict[str, object]:
    return {"framework": "TRL", "versions": {"trl": version, "vllm": "0.10.2"}, **settings}


SMALL = {"batch__per_device": 3, "process__nproc": 4, "batch__accumulation": 1, "batch__generations": 8}


def test_trl_counts_the_whole_generation_batch() -> None:
    result = judged(check, **trl("0.24.0", **SMALL))
    assert "12 (3 per device x 4 processes x 1 steps) is not a multiple of 8" in result.findings[0].message
    assert edits(result) == [{"batch.generations": 6}, {"batch.per_device": 6}, {"batch.accumulation": 2}]
    assert judged(check, **trl("0.24.0", **{**SMALL, "batch__accumulation": 2})).outcome is Outcome.PASS


def test_trl_before_0_18_left_accumulation_out() -> None:
    assert judged(check, **trl("0.16.1", **{**SMALL, "batch__accumulation": 2})).outcome is Outcome.FINDINGS


def test_a_generation_batch_that_is_given_counts() -> None:
    given = {**SMALL, "batch__generation": 24}
    assert judged(check, **trl("0.24.0", **given)).outcome is Outcome.PASS
    ranks = judged(check, **trl("0.24.0", **{**given, "batch__generation": 16}))
    assert "16 (generation batch 16) is not a multiple of 12 (3 per device x 4 processes)" in ranks.findings[0].message
    # 0.18 has an operator slip in that test and accepts it.
    assert judged(check, **trl("0.18.2", **{**given, "batch__generation": 16})).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("framework", "versions", "settings", "fires"),
    [
        ("EasyR1", {"easyr1": "0.3.2"}, {"batch__prompts": 500, "batch__mini_prompts": 128}, True),
        ("EasyR1", {"easyr1": "0.3.2"}, {"batch__prompts": 512, "batch__mini_prompts": 128}, False),
        ("NeMo-RL", {"nemo-rl": "0.3.1"}, {"batch__prompts": 60, "batch__generations": 8, "batch__train": 512}, True),
        ("NeMo-RL", {"nemo-rl": "0.3.1"}, {"batch__prompts": 64, "batch__generations": 8, "batch__train": 512}, False),
        ("SkyRL", {"skyrl-train": "0.2.0"}, {"batch__prompts": 1000, "batch__mini_prompts": 256}, True),
        ("SkyRL", {"skyrl-train": "0.2.0"}, {"batch__prompts": 1024, "batch__mini_prompts": 256}, False),
        (
            "verl",
            {"verl": "0.4.1"},
            {"batch__prompts": 30, "batch__generations": 5, "placement__trainer_gpus": 8},
            True,
        ),
        (
            "verl",
            {"verl": "0.4.1"},
            {"batch__prompts": 32, "batch__generations": 5, "placement__trainer_gpus": 8},
            False,
        ),
    ],
)
def test_the_rules_of_the_others(
    framework: str, versions: dict[str, str], settings: dict[str, int], fires: bool
) -> None:
    result = judged(check, framework=framework, versions=versions, **settings)
    assert result.outcome is (Outcome.FINDINGS if fires else Outcome.PASS)


def test_a_release_without_known_rules_is_not_judged() -> None:
    assert judged(check, **trl("0.14.0", **SMALL)).outcome is Outcome.NOT_APPLICABLE
    assert judged(check, framework="verl", versions={"vllm": "0.8.5"}).outcome is Outcome.NOT_APPLICABLE


# TRL 1.16 (shared log trl_batch_not_divisible), TRL 0.15 (open-r1 issue 249), verl 0.4.1
def test_refusals_in_a_log() -> None:
    error = "ValueError: generation_batch_size (6) must be divisible by num_generations (4)."
    (finding,) = found(check, traceback(error, "trl/trainer/grpo_config.py __post_init__"))
    assert [edit.value for fix in finding.fixes for edit in fix.edits] == [3, 12]
    error = (
        "ValueError: The global train batch size (7 x 1) must be evenly divisible by the number of generations "
        "per prompt "
        "(8). Given the current train batch size, the valid values for the number of generations are: [7]."
    )
    (finding,) = found(check, traceback(error, "trl/trainer/grpo_trainer.py __init__"))
    assert finding.fixes[0].edits[0].value == 7
    error = "AssertionError: only support equal chunk. Got size of DataProto 2 and chunk 4."
    (finding,) = found(check, traceback(error, "verl/protocol.py chunk"))
    assert finding.fixes[0].title == "make the batch a multiple of 4: 4 instead of 2"


def test_a_group_of_one_has_no_advantage() -> None:
    error = "ValueError: GRPO requires at least 2 generations per prompt to calculate the advantages. You provided 1"
    (finding,) = found(check, traceback(error, "trl/trainer/grpo_config.py __post_init__"))
    assert finding.fixes[0].edits[0].option == "batch.generations"


def test_a_remark_about_divisibility_is_quiet() -> None:
    assert found(check, "note: the batch size should be divisible by 8 for speed\nDONE\n") == []


def test_a_later_node_does_not_tell_the_whole_world() -> None:
    trl = {"framework": "TRL", "versions": {"trl": "0.24.0"}}
    sizes = {"batch__per_device": 1, "batch__generations": 7, "process__nproc": 3, "process__nnodes": 2}
    assert judged(check, **trl, **sizes).outcome is Outcome.FINDINGS
    assert judged(check, **trl, **sizes, process__node_rank=1).outcome is not Outcome.FINDINGS
