"""What the tables of messages tell that a release refuses, without its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldoctor.case import Case, Distribution, Packages
from rldoctor.launch.plans import plans
from rldoctor.link.stated import joined, refusal_in, unheard_texts
from rldoctor.link.validations import refused_by_tables
from tests.commands import run

ARGUMENTS = ("transformers.training_args", "TrainingArguments")
SCHEDULER = ("vllm.config.scheduler", "SchedulerConfig")


@pytest.mark.parametrize(
    ("package", "version", "place", "values", "reads"),
    [
        ("transformers", "4.56.2", ARGUMENTS, {"fp16": True, "bf16": True}, ("bf16", "fp16")),
        ("transformers", "4.56.2", ARGUMENTS, {"fp16": True, "bf16": False}, None),
        ("transformers", "4.56.2", ARGUMENTS, {"fp16": True}, None),
        ("transformers", "4.56.2", ARGUMENTS, {"fp16": True, "bf16": None}, None),
        ("transformers", "0.1", ARGUMENTS, {"fp16": True, "bf16": True}, None),
        ("nothing", "1.0", ARGUMENTS, {"fp16": True, "bf16": True}, None),
        (
            *("vllm", "0.20.0", SCHEDULER, {"max_num_batched_tokens": 64, "max_num_seqs": 256}),
            ("max_num_batched_tokens", "max_num_seqs"),
        ),
        ("vllm", "0.20.0", SCHEDULER, {"max_num_batched_tokens": 512, "max_num_seqs": 256}, None),
    ],
)
def test_a_class_refuses_what_it_is_given(
    package: str, version: str, place: tuple[str, str], values: dict[str, Any], reads: tuple[str, ...] | None
) -> None:
    found = refusal_in(package, version, *place, values)
    assert (found.reads if found is not None else None) == reads
    assert found is None or (found.file, found.line) == (place[0], None)


def test_several_conditions_are_one() -> None:
    assert joined(("a",)) == "a"
    assert joined(("a or b", "not c", "d and e")) == "(a or b) and not c and (d and e)"


TRL = """from trl import GRPOConfig, GRPOTrainer
args = GRPOConfig(bf16=True, fp16={fp16}, num_generations={count}, per_device_train_batch_size=8)
GRPOTrainer(model="org/model", args=args).train()
"""


def refused(tmp_path: Path, name: str, text: str, **versions: str) -> list[tuple[str, list[str]]]:
    """The packages that refuse a launch, each with what the refusal reads."""
    installed = [Distribution(name=one.replace("_", "-"), version=version) for one, version in versions.items()]
    case = Case(packages=Packages(python="3.11.9", distributions=tuple(installed)))
    file = tmp_path / name
    file.write_text(text)
    (plan,) = plans(file, case)
    case = Case(packages=case.packages, plan=plan)
    return [(one["name"], one["refusal"]["reads"]) for one in refused_by_tables(case)]


def test_a_launch_of_releases_that_are_not_installed(tmp_path: Path) -> None:
    releases = {"trl": "0.22.2", "transformers": "4.56.2", "vllm": "0.10.1"}
    healthy = TRL.format(fp16=False, count=8)
    assert refused(tmp_path, "train.py", healthy, **releases) == []
    both = TRL.format(fp16=True, count=8)
    assert refused(tmp_path, "train.py", both, **releases) == [("transformers", ["bf16", "fp16"])]
    assert refused(tmp_path, "train.py", TRL.format(fp16=False, count=1), **releases) == [("trl", ["num_generations"])]
    server = "vllm serve org/model --max-num-seqs 256 --max-num-batched-tokens {}\n"
    assert refused(tmp_path, "serve.sh", server.format(8192), vllm="0.20.0") == []
    given = ["engine.max_num_batched_tokens", "engine.max_num_seqs"]
    assert refused(tmp_path, "serve.sh", server.format(64), vllm="0.20.0") == [("vllm", given)]


def test_a_switch_that_a_server_leaves_off(tmp_path: Path) -> None:
    experts = "vllm serve org/model --data-parallel-size 4 --enable-eplb"
    assert refused(tmp_path, "serve.sh", f"{experts} --enable-expert-parallel\n", vllm="0.28.0") == []
    ((package, reads),) = refused(tmp_path, "serve.sh", f"{experts}\n", vllm="0.28.0")
    assert (package, reads) == ("vllm", ["engine.enable_eplb", "engine.enable_expert_parallel"])
    # Where other flags may stand, none is known to be left off.
    assert refused(tmp_path, "serve.sh", f"{experts} $MORE\n", vllm="0.28.0") == []


VERL = """python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=m data.train_files=/data/train.parquet \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.pipeline_model_parallel_size={}
"""
EXPERTS = VERL.partition("actor_rollout_ref.rollout.pipe")[0] + (
    "actor_rollout_ref.rollout.tensor_model_parallel_size=2 actor_rollout_ref.rollout.expert_parallel_size={}\n"
)
AXOLOTL = """base_model: org/model
rl: grpo
sample_packing: {}
trl: {{use_vllm: true, num_generations: 8}}
datasets: [{{path: org/data, type: rewards.transform}}]
"""
ROLL = """pretrain: org/model
async_generation_ratio: {}
generate_opt_level: 0
actor_train: {{device_mapping: "list(range(0,8))"}}
actor_infer: {{device_mapping: "list(range(0,8))", strategy_args: {{strategy_name: vllm}}}}
"""


@pytest.mark.parametrize(
    ("name", "text", "taken", "refused_value", "releases", "reads"),
    [
        (
            *("run.sh", VERL, "1", "2", {"verl": "0.7.0"}),
            ["actor_rollout_ref.rollout.name", "actor_rollout_ref.rollout.pipeline_model_parallel_size"],
        ),
        (
            *("run.sh", EXPERTS, "2", "4", {"verl": "0.6.1"}),
            [
                "actor_rollout_ref.rollout.data_parallel_size",
                "actor_rollout_ref.rollout.expert_parallel_size",
                "actor_rollout_ref.rollout.tensor_model_parallel_size",
            ],
        ),
        ("config.yaml", AXOLOTL, "false", "true", {"axolotl": "0.13.1"}, ["rl", "sample_packing"]),
        ("rlvr.yaml", ROLL, "0", "1", {"roll": "0.2.1"}, ["async_generation_ratio", "generate_opt_level"]),
    ],
)
def test_the_class_of_a_section_and_what_a_framework_asks_of_all_it_is_given(
    tmp_path: Path, name: str, text: str, taken: str, refused_value: str, releases: dict[str, str], reads: list[str]
) -> None:
    package = next(iter(releases))
    assert refused(tmp_path, name, text.format(taken), **releases) == []
    assert refused(tmp_path, name, text.format(refused_value), **releases) == [(package, reads)]


@pytest.mark.parametrize(
    ("own", "refusals"),
    [("log_completions_hub_repo='me/x'", 1), ("log_completions_hub_repo='me/x', log_completions=True", 0)],
)
def test_a_field_that_has_its_default(tmp_path: Path, own: str, refusals: int) -> None:
    text = TRL.format(fp16=False, count=8).replace("fp16=False", f"fp16=False, {own}")
    found = refused(tmp_path, "train.py", text, trl="0.28.0", transformers="4.57.1")
    assert found == [("trl", ["log_completions", "log_completions_hub_repo"])] * refusals


OPENRLHF = "python3 -m openrlhf.cli.train_ppo_ray --pretrain /m --colocate_all_models --actor_num_gpus_per_node 8 "


def test_functions_that_a_program_hands_its_arguments(tmp_path: Path) -> None:
    launch = f"{OPENRLHF} --ref_num_gpus_per_node 8 --vllm_num_engines {{}}\n"
    assert refused(tmp_path, "train.sh", launch.format(8), openrlhf="0.6.4") == []
    ((package, reads),) = refused(tmp_path, "train.sh", launch.format(4), openrlhf="0.6.4")
    assert package == "openrlhf" and {"colocate_all_models", "vllm_num_engines"} <= set(reads)
    # Without an advantage to estimate it drops the critic that it was given.
    dropped = (
        f"{OPENRLHF} --vllm_num_engines 8 --ref_num_gpus_per_node 8 --critic_pretrain /c --critic_num_gpus_per_node 3"
    )
    assert refused(tmp_path, "train.sh", f"{dropped} --advantage_estimator reinforce\n", openrlhf="0.5.9.post1") == []


def test_a_text_that_an_earlier_branch_takes_is_no_unheard_one() -> None:
    # slime's scheduler leaves for a constant rate before it compares the others.
    assert list(unheard_texts("slime", "0.2.2", {"lr_decay_style": "constant"})) == []
    assert [one.known[0] for one in unheard_texts("trl", "0.24.0", {"loss_type": "gspo"})] == ["grpo"]
    agreed = {"actor_rollout_ref.actor.loss_agg_mode": "token-means"}
    assert [one.known[0] for one in unheard_texts("verl", "0.6.1", agreed)] == ["token-mean"]


def test_a_text_is_unheard_of_by_a_method_that_may_be_called() -> None:
    (found,) = unheard_texts("openrlhf", "0.9.10", {"policy_loss_type": "gsspo"})
    assert (found.known, found.function) == (("gspo", "ppo"), "PolicyLoss.forward")
    assert list(unheard_texts("openrlhf", "0.9.10", {"policy_loss_type": "gspo"})) == []


def test_a_text_that_another_function_takes_is_no_unheard_one() -> None:
    # Two loaders judge options of this name. What one refuses has more cases than the table keeps; a branch has them.
    heard = {
        name: list(unheard_texts("nemo-rl", "0.5.0", {"data.dataset_name": name})) for name in ("DeepScaler", "squad")
    }
    assert heard == {"DeepScaler": [], "squad": []}
    (unheard,) = unheard_texts("nemo-rl", "0.5.0", {"data.dataset_name": "HelpSteer"})
    assert unheard.known[0] == "HelpSteer3"


def test_what_no_condition_compares_is_heard_of() -> None:
    # A message without a condition, and one of a handler (`except re.error`).
    assert list(unheard_texts("roll", "0.1.0", {"envs.": "sokoban"})) == []


def test_the_launch_s_own_line_and_a_remedy_for_what_it_names(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(TRL.format(fp16=True, count=8))
    releases = [f"--assume={one}" for one in ("trl==0.22.2", "transformers==4.56.2", "vllm==0.10.1")]
    done = run("check", file, *releases)
    assert done.returncode == 1
    assert "error RLD212 (train.py:2): ValueError: At most one of fp16 and bf16 can be True" in done.stdout
    assert "leave fp16 off" in done.stdout
    assert "bf16=False" not in done.stdout
