"""RLD211: the divisions that each framework makes, in the versions that make them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.rollout.batch_divisibility import check

from rldoctor.api import Outcome
from rldoctor.judge import judge_one
from tests.checks.launches import LaunchFile, machine
from tests.logs.asking import finding, findings, raised
from tests.logs.raising import found, traceback
from tests.plans import case, edits, judged


def trl(version: str, **settings: int) -> dict[str, object]:
    return {"framework": "TRL", "versions": {"trl": version, "vllm": "0.10.2"}, **settings}


SMALL = {"batch__per_device": 3, "process__nproc": 4, "batch__accumulation": 1, "batch__generations": 8}


def test_trl_counts_the_whole_generation_batch() -> None:
    result = judged(check, **trl("0.24.0", **SMALL))
    assert (
        "3 per device x 4 processes x 1 step = 12 is not a multiple of num_generations 8" in result.findings[0].message
    )
    assert edits(result) == [{"batch.generations": 6}, {"batch.per_device": 6}, {"batch.accumulation": 2}]
    assert judged(check, **trl("0.24.0", **{**SMALL, "batch__accumulation": 2})).outcome is Outcome.PASS


def test_trl_before_0_18_left_accumulation_out() -> None:
    assert judged(check, **trl("0.16.1", **{**SMALL, "batch__accumulation": 2})).outcome is Outcome.FINDINGS


def test_a_generation_batch_that_is_given_counts() -> None:
    given = {**SMALL, "batch__generation": 24}
    assert judged(check, **trl("0.24.0", **given)).outcome is Outcome.PASS
    ranks = judged(check, **trl("0.24.0", **{**given, "batch__generation": 16}))
    assert "generation batch 16 is not a multiple of 3 per device x 4 processes = 12" in ranks.findings[0].message
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
    assert bool(result.findings) is fires


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


def test_a_mini_batch_of_verls_that_nothing_is_left_of() -> None:
    # https://github.com/PRIME-RL/TTRL/issues/43
    error = "AssertionError: ppo_mini_batch_size 0 should be larger than 0 after normalization"
    (finding,) = found(check, traceback(error, "verl/workers/fsdp_workers.py __init__"))
    assert finding.message.startswith("ppo_mini_batch_size is smaller than the ranks")
    assert found(check, traceback("AssertionError: lr should be larger than 0", "verl/workers/fsdp_workers.py f")) == []


def test_a_later_node_does_not_tell_the_whole_world() -> None:
    trl = {"framework": "TRL", "versions": {"trl": "0.24.0"}}
    sizes = {"batch__per_device": 1, "batch__generations": 7, "process__nproc": 3, "process__nnodes": 2}
    assert judged(check, **trl, **sizes).outcome is Outcome.FINDINGS
    assert judged(check, **trl, **sizes, process__node_rank=1).outcome is not Outcome.FINDINGS


VERL = {"framework": "verl", "versions": {"verl": "0.6.1"}, "placement__trainer_gpus": 8, "batch__dynamic": False}
EASYR1 = {"framework": "EasyR1", "versions": {"easyr1": "0.3.2"}, "placement__trainer_gpus": 8}
OPENRLHF = {"framework": "OpenRLHF", "versions": {"openrlhf": "0.8.5"}, "placement__trainer_gpus": 8}
SKYRL = {"framework": "SkyRL", "versions": {"skyrl-train": "0.4.0"}, "placement__trainer_gpus": 4}


# A rank's share of a mini batch and its micro batches: verl fsdp_workers.py 0.6.1 line 249, EasyR1 0.3.2 line 140,
# SkyRL utils.py.
@pytest.mark.parametrize("framework", [VERL, EASYR1, SKYRL])
def test_micro_batches_divide_what_a_rank_gets(framework: dict[str, object]) -> None:
    sizes = {"batch__prompts": 64, "batch__mini_prompts": 64, "batch__generations": 8}
    result = judged(check, **framework, **sizes, batch__per_device=48)
    assert "is not a multiple of " in result.findings[0].message and result.findings[0].message.endswith(" 48")
    assert edits(result) == [{"batch.per_device": 32}]
    assert judged(check, **framework, **sizes, batch__per_device=32).outcome is Outcome.PASS


def test_verl_with_other_workers_divides_otherwise() -> None:
    sizes = {"batch__prompts": 64, "batch__mini_prompts": 64, "batch__generations": 8, "batch__per_device": 48}
    assert judged(check, **VERL, **sizes, trainer__strategy="megatron").outcome is Outcome.PASS
    later = {**VERL, "versions": {"verl": "0.8.0"}}
    assert judged(check, **later, **sizes).outcome is Outcome.PASS


# https://github.com/insait-institute/open-proof-corpus/issues/2
def test_fewer_prompts_than_a_mini_batch() -> None:
    sizes = {"batch__prompts": 16, "batch__mini_prompts": 128, "batch__generations": 8}
    result = judged(check, **VERL, **sizes)
    assert result.findings[0].message == "a step rolls out 16 prompts, and one mini batch has 128: verl refuses"
    assert edits(result) == [{"batch.mini_prompts": 16}, {"batch.prompts": 128}]
    assert judged(check, **{**VERL, "batch__dynamic": True}, **sizes).findings == ()


@pytest.mark.parametrize(
    ("entry", "fires"),
    [
        ("verl.trainer.main_ppo", True),
        ("verl.experimental.one_step_off_policy.main_ppo", True),
        ("verl.experimental.fully_async_policy.fully_async_main", False),  # its samples come in a stream
        ("verl.experimental.vla.main_sac", False),  # a replay pool fills its batches
        ("verl/experimental/vla/main_sac.py", False),
        ("recipe.dapo.main_dapo", True),
        ("recipe.r1.main_eval", False),
    ],
)
def test_entries_with_trainers_of_their_own_are_not_held_against_the_batch(entry: str, fires: bool) -> None:
    made = case("verl", {"verl": "0.7.1"}, batch__prompts=0, batch__mini_prompts=4, batch__dynamic=False)
    assert made.plan is not None
    result = judge_one(check, replace(made, plan=replace(made.plan, entry=entry)))
    assert (result.outcome is Outcome.FINDINGS) == fires


# https://github.com/PRIME-RL/TTRL/issues/43
def test_a_mini_batch_that_leaves_nothing_for_a_rank() -> None:
    sizes = {"batch__prompts": 32, "batch__mini_prompts": 1, "batch__generations": 4, "batch__per_device": 2}
    result = judged(check, **VERL, **sizes)
    assert "leaves nothing for each of 8 ranks" in result.findings[0].message
    assert edits(result) == [{"batch.mini_prompts": 4}]


# https://github.com/hiyouga/EasyR1/issues/44
def test_prompts_that_the_ranks_do_not_divide() -> None:
    result = judged(check, **{**EASYR1, "placement__trainer_gpus": 6}, batch__prompts=512, batch__mini_prompts=128)
    assert "512 prompts is not a multiple of 6 devices" in result.findings[0].message
    assert edits(result) == [{"batch.prompts": 384}]


# https://github.com/OpenRLHF/OpenRLHF/issues/346
def test_deepspeed_accumulates_whole_steps() -> None:
    seven = {**OPENRLHF, "placement__trainer_gpus": 7}
    result = judged(check, **seven, batch__train=256, batch__per_device=2)
    assert (
        "train_batch_size 256 is not a multiple of micro_train_batch_size 2 x 7 ranks = 14"
        in result.findings[0].message
    )
    assert edits(result) == [{"batch.train": 252}]
    assert judged(check, **OPENRLHF, batch__train=128, batch__per_device=2).findings == ()


def test_every_rank_gets_a_sample_batch() -> None:
    sizes = {"batch__prompts": 4, "batch__generations": 4, "batch__logprob_per_device": 8}
    result = judged(check, **OPENRLHF, **sizes)
    assert "2 sample batches do not reach 8 training ranks" in result.findings[0].message
    assert edits(result) == [{"batch.logprob_per_device": 2}]


# https://github.com/OpenRLHF/OpenRLHF/issues/760
def test_engines_that_do_not_divide_the_actors() -> None:
    old = {**OPENRLHF, "versions": {"openrlhf": "0.5.9"}, "placement__trainer_gpus": 4}
    result = judged(check, **old, placement__engines=3)
    assert edits(result) == [{"placement.engines": 2}]
    newer = judged(check, **{**old, "versions": {"openrlhf": "0.8.5"}}, placement__engines=3)
    assert newer.outcome is Outcome.NOT_CHECKED and "cannot be read" in str(newer.reason)


@pytest.mark.parametrize(
    ("framework", "versions", "algorithm", "fires"),
    [
        ("TRL", {"trl": "0.24.0"}, "grpo", True),
        ("TRL", {"trl": "0.24.0"}, "dpo", False),
        ("EasyR1", {"easyr1": "0.3.2"}, "grpo", True),
        ("EasyR1", {"easyr1": "0.3.2"}, "gae", False),
        ("OpenRLHF", {"openrlhf": "0.8.5"}, "group_norm", True),
        ("ms-swift", {"ms-swift": "3.8.0"}, "grpo", True),
        ("ms-swift", {"ms-swift": "4.5.0"}, "grpo", False),
    ],
)
def test_a_group_of_one_is_refused_at_start(
    framework: str, versions: dict[str, str], algorithm: str, fires: bool
) -> None:
    result = judged(check, framework=framework, versions=versions, batch__generations=1, trainer__algorithm=algorithm)
    assert (result.outcome is Outcome.FINDINGS) is fires


def test_the_numbers_of_an_exception_that_ray_carries() -> None:
    # https://github.com/hiyouga/EasyR1/issues/44
    text = """\
Traceback (most recent call last):
  File "/home/user/EasyR1/verl/trainer/main.py", line 44, in main
    ray.get(main_task.remote(ppo_config))
ray.exceptions.RayTaskError(AssertionError): ray::main_task() (pid=10111, ip=192.0.2.1)
  File "/home/user/EasyR1/verl/protocol.py", line 500, in chunk
    assert len(self) % chunks == 0, (
AssertionError: only support equal chunk. Got size of DataProto 512 and chunk 6.
"""
    (only,) = found(check, text)
    assert "516 instead of 512" in only.fixes[0].title


# TRL 0.24.0 grpo_config.py line 670; 0.20 and 0.21 had left it out.
@pytest.mark.parametrize(
    ("version", "strategy", "fires"),
    [("0.24.0", "steps", True), ("0.24.0", "no", False), ("0.21.0", "steps", False)],
)
def test_an_evaluation_step_holds_whole_groups(version: str, strategy: str, fires: bool) -> None:
    sizes = {"batch__per_device": 8, "process__nproc": 1, "batch__accumulation": 1, "batch__generations": 8}
    asked = {"batch__per_device_eval": 2, "trainer__eval_strategy": strategy}
    result = judged(check, **trl(version, **sizes), **asked)
    assert (result.outcome is Outcome.FINDINGS) is fires
    if fires:
        assert edits(result) == [{"batch.per_device_eval": 8}]
    fewer = {**asked, "rollout__eval_sampling": {"n": 2}}
    assert judged(check, **trl(version, **sizes), **fewer).outcome is not Outcome.FINDINGS


def test_megatron_divides_by_its_data_parallel_ranks_and_what_samples_nothing_is_not_asked() -> None:
    swift: dict[str, object] = {"framework": "ms-swift", "versions": {"ms-swift": "4.5.2"}}
    sizes = {"batch__per_device": 8, "process__nproc": 4, "batch__generation": 16}
    assert judged(check, **swift, **sizes).outcome is Outcome.FINDINGS
    assert judged(check, **swift, **sizes, parallel__tensor=4, parallel__data=1).outcome is Outcome.PASS
    assert judged(check, **swift, **sizes, trainer__algorithm="dpo").outcome is not Outcome.FINDINGS


# verl/utils/seqlen_balancing.py, rearrange_micro_batches
@pytest.mark.parametrize(
    ("tokens", "sequence_ranks", "dynamic", "fires"),
    [(4096, 1, True, True), (4096, 2, True, False), (7168, 1, True, False), (4096, 1, False, False)],
)
def test_a_packed_micro_batch_holds_a_whole_sequence(
    tokens: int, sequence_ranks: int, dynamic: bool, fires: bool
) -> None:
    lengths = {"lengths__prompt": 1024, "lengths__response": 6144}
    sizes = {"batch__tokens_per_device": tokens, "parallel__sequence": sequence_ranks, "batch__dynamic": dynamic}
    result = judged(check, framework="verl", versions={"verl": "0.6.1"}, **sizes, **lengths)
    assert (result.outcome is Outcome.FINDINGS) == fires
    if fires:
        assert edits(result) == [{"batch.tokens_per_device": 7168}]


@pytest.mark.parametrize(("part", "option"), [("critic", "trainer.critic"), ("reference", "trainer.reference")])
def test_parts_of_the_trainer_with_a_limit_of_their_own_hold_a_whole_sequence(part: str, option: str) -> None:
    lengths: dict[str, Any] = {"lengths__prompt": 4096, "lengths__response": 4096, "batch__tokens_per_device": 24000}
    verl: dict[str, Any] = {"framework": "verl", "versions": {"verl": "0.6.1"}, f"batch__{part}_dynamic": True}
    runs = {option.replace(".", "__"): True}
    result = judged(check, **verl, **lengths, **runs, **{f"batch__{part}_tokens_per_device": 4096})
    (finding,) = result.findings
    assert "a micro batch of 4096 tokens of the" in finding.message
    assert edits(result) == [{f"batch.{part}_tokens_per_device": 8192}]
    for quiet in ({**runs, f"batch__{part}_tokens_per_device": 8192}, {f"batch__{part}_tokens_per_device": 4096}):
        assert judged(check, **verl, **lengths, **quiet).findings == ()


def test_unsloth_leaves_trls_least_group_as_it_is() -> None:
    trl = {"framework": "unsloth", "versions": {"trl": "0.22.2", "unsloth": "2025.9.9"}}
    assert "requires at least 2" in judged(check, batch__generations=1, **trl).findings[0].message
    assert judged(check, batch__generations=2, **trl).findings == ()


def test_verl_shares_out_a_dynamic_batch_where_it_balances_lengths(tmp_path: Path) -> None:
    text = (
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo trainer.n_gpus_per_node=8 "
        "data.train_batch_size=12 actor_rollout_ref.actor.ppo_mini_batch_size=12 actor_rollout_ref.rollout.n=2 "
        "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384 "
    )
    pairs = "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 actor_rollout_ref.model.use_remove_padding=True "
    for more, release, wrong in (
        ("data.train_batch_size=11 ", "0.6.1", True),
        ("data.train_batch_size=11 trainer.balance_batch=False ", "0.6.1", False),
        ("data.train_batch_size=14 " + pairs, "0.6.1", True),  # 28 over all 8 ranks
        ("data.train_batch_size=14 " + pairs, "0.7.0", False),  # over the 4 that do not share a sequence
        ("", "0.6.1", False),
    ):
        found = LaunchFile(tmp_path, text + more + "\n", {"verl": release}, gpus=8).findings(check)
        other = text.replace("verl.trainer.main_ppo", "main_gkd.py").replace("-m ", "") + more + "\n"
        assert LaunchFile(tmp_path, other, {"verl": release}, gpus=8).findings(check) == [], "a trainer of its own"
        assert bool(found) == wrong, (more, release, [one.message for one in found])


@pytest.mark.parametrize(("end", "fires"), [(" \\", False), (" \\ ", False), ("", True)])
def test_what_was_cut_off_is_no_default(end: str, fires: bool, tmp_path: Path) -> None:
    text = (
        f"python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=m{end}\n"
        f"{'' if fires else '    actor_rollout_ref.rollout.n=8 data.train_batch_size=1024'}\n"
    )
    found = LaunchFile(tmp_path, text, {"verl": "0.6.1"}).findings(check)
    assert ["group of 1" in finding.message for finding in found] == ([True] if fires else [])


@pytest.mark.parametrize(("name", "fires"), [("n_agent", False), ("n_trajectories", False), ("temperature", True)])
def test_a_forks_own_count_of_completions_makes_a_group(name: str, fires: bool, tmp_path: Path) -> None:
    text = f"python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.{name}=5\n"
    found = LaunchFile(tmp_path, text, {"verl": "0.2.0"}).findings(check)
    assert ["group of 1" in finding.message for finding in found] == ([True] if fires else [])


def test_a_script_of_ones_own_may_group_them_otherwise(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import hydra\nfrom verl.trainer.ppo.ray_trainer import RayPPOTrainer\n\n\n"
        '@hydra.main(config_path="config", config_name="own", version_base=None)\ndef main(config):\n    pass\n'
    )
    own = "python train.py algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm"
    assert LaunchFile(tmp_path, f"{own} es.group_size=16\n", {"verl": "0.6.1"}).findings(check) == []
    (found,) = LaunchFile(tmp_path, f"{own} actor_rollout_ref.rollout.n=1\n", {"verl": "0.6.1"}).findings(check)
    assert "group of 1" in found.message


OPEN = {"batch__per_device": 3, "batch__accumulation": 1, "batch__generations": 8}


def started_anyhow(gpus: int | None, nodes: int = 1, **settings: int) -> Any:
    """RLD211 of a launch that does not tell its processes, on nodes with so many GPUs."""
    told: dict[str, Any] = trl("0.24.0", **{**OPEN, **settings})
    return judge_one(check, replace(case(**told), gpus=machine(gpus), nodes=nodes))


def test_what_no_number_of_processes_mends_needs_none() -> None:
    result = started_anyhow(4)
    assert "no number of processes up to 4 fits: 3 per device x 4 processes" in result.findings[0].message
    assert edits(result) == [{"batch.generations": 3}, {"batch.per_device": 24}, {"batch.accumulation": 8}]
    given = started_anyhow(4, batch__per_device=5, batch__generation=16)
    assert "is not a multiple of 5 per device x 4 processes = 20" in given.findings[0].message


@pytest.mark.parametrize(
    ("gpus", "nodes", "settings"),
    [(8, 1, {}), (4, 2, {}), (4, 1, {"batch__per_device": 4}), (None, 1, {}), (4, 1, {"process__node_rank": 1})],
    ids=["eight processes fit", "eight on two nodes", "two fit", "no machine", "a later node of several"],
)
def test_where_some_number_may_fit_the_processes_are_what_is_missing(
    gpus: int | None, nodes: int, settings: dict[str, int]
) -> None:
    result = started_anyhow(gpus, nodes, **settings)
    assert result.outcome is Outcome.NOT_CHECKED


def test_the_reason_names_the_numbers_that_are_missing() -> None:
    processes = started_anyhow(8).reason or ""
    assert "the number of processes" in processes and "--num_processes" in processes
    prompts = judged(check, framework="EasyR1", versions={"easyr1": "0.3.2"}, batch__mini_prompts=128)
    assert "distinct prompts per rollout step" in (prompts.reason or "")
    assert "processes" not in (prompts.reason or "")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "assert num_prompts == train_batch_size and len(seen_uids) == train_batch_size",
            "a batch does not have the train_batch_size rows",
        ),
        ("assert len(rows) == train_batch_size, rows", "does not have the train_batch_size rows"),
        ("assert self.lr_decay_steps > 0", "the run has no step of training"),
    ],
)
def test_assertions_without_a_word_about_batches(code: str, says: str) -> None:
    # https://github.com/NovaSky-AI/SkyRL/issues/1583, https://github.com/THUDM/slime/pull/2296
    (only,) = found(check, traceback("AssertionError", "skyrl/train/dataset/preprocess.py boundaries", code=code))
    assert says in only.message


def test_an_assertion_about_something_else_beside_a_batch() -> None:
    code = "assert ready, batch_size == train_batch_size"
    assert found(check, traceback("ValueError: no", "skyrl/train/trainer.py f", code=code)) == []
    assert found(check, "if n == train_batch_size: the last one is whole\nDONE\n") == []


def test_fewer_samples_than_parts_to_balance() -> None:
    # https://github.com/verl-project/verl/issues/4152
    found = finding(check, raised("AssertionError", "number of items:[64] < k_partitions:[128]"))
    assert found.message.startswith("64 samples are to be balanced over 128 parts")
    assert findings(check, "balanced: number of items:[128] over k_partitions:[64]\n") == []
