"""unsloth: the engine is the loader's, the batch arithmetic its own, the trainer TRL's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rldoctor.edits.edit import apply
from rldoctor.frameworks import by_name
from rldoctor.model import Edit
from rldoctor.plan.model import RolloutPlan
from rldoctor.plan.seeds import seed_topology

Launches = Callable[..., list[RolloutPlan]]

SCRIPT = """
from unsloth import FastLanguageModel
from trl import GRPOConfig, GRPOTrainer
max_seq_length = 2048
rank = 48
model, tokenizer = FastLanguageModel.from_pretrained(
    model_name="org/model",
    max_seq_length=max_seq_length,
    load_in_4bit=True,
    fast_inference=True,
    max_lora_rank=rank,
    gpu_memory_utilization=0.6,
)
model = FastLanguageModel.get_peft_model(model, r=rank, lora_alpha=rank)
args = GRPOConfig(
    per_device_train_batch_size=1,
    gradient_accumulation_steps=4,
    num_generations=6,
    max_prompt_length=256,
    max_completion_length=max_seq_length - 256,
)
GRPOTrainer(model=model, args=args)
"""


def unsloth(launches: Launches, script: str = SCRIPT, version: str = "2025.9.9", zoo: str = "2025.9.12") -> RolloutPlan:
    versions = {"unsloth": version, "unsloth_zoo": zoo, "trl": "0.22.2", "transformers": "4.56.2", "vllm": "0.10.2"}
    (plan,) = launches({"train.py": script}, **versions)
    return plan


def test_the_loader_makes_the_engine(launches: Launches) -> None:
    plan = unsloth(launches)
    assert (plan.framework, plan.value("placement.mode"), plan.value("model.path")) == (
        "unsloth",
        "colocate",
        "org/model",
    )
    assert (plan.value("engine.max_model_len"), plan.value("engine.gpu_memory_utilization")) == (2048, 0.6)
    assert (plan.value("engine.quantization"), plan.value("engine.seed")) == ("bitsandbytes", 0)
    assert plan.value("lengths.response") == 1792
    assert plan.unread == () and plan.unknown == ()


@pytest.mark.parametrize(("zoo", "budget", "chunked"), [("2025.6.8", 2048, None), ("2025.9.12", None, True)])
def test_the_token_budget(launches: Launches, zoo: str, budget: int | None, chunked: bool | None) -> None:
    # unsloth_zoo/vllm_utils.py: 2025.6.8 line 1276 (the sequence length), 2025.9.12 line 1620 (by the free memory)
    settings = unsloth(launches, zoo=zoo).settings
    assert settings["engine.max_num_batched_tokens"].value == budget
    assert (settings["engine.enable_chunked_prefill"].value is True) is (chunked is True)


def test_get_peft_model_has_activations_computed_again_whatever_the_arguments_say(launches: Launches) -> None:
    plan = unsloth(launches, SCRIPT.replace("GRPOConfig(\n", "GRPOConfig(\n    gradient_checkpointing=False,\n"))
    assert plan.value("trainer.gradient_checkpointing") is True


def test_ranks_are_rounded_to_what_vllm_takes(launches: Launches) -> None:
    plan = unsloth(launches)
    assert (plan.value("engine.max_lora_rank"), plan.value("lora.rank")) == (64, 48)
    assert any("from 48 to 64" in note.text for note in plan.notes)


@pytest.mark.parametrize(
    ("version", "batch"),
    # models/rl.py: no test; the device alone; the whole step (1 x 4 is no multiple of 6 either)
    [("2025.3.19", 1), ("2025.9.9", 6), ("2026.8.22", 6)],
)
def test_an_indivisible_batch_is_raised(launches: Launches, version: str, batch: int) -> None:
    plan = unsloth(launches, version=version)
    assert plan.value("batch.per_device") == batch
    assert any("changes per_device_train_batch_size" in note.text for note in plan.notes) is (batch == 6)


def test_the_whole_step_counts_from_2025_11(launches: Launches) -> None:
    script = SCRIPT.replace("num_generations=6", "num_generations=4")
    assert unsloth(launches, script, "2025.9.9").value("batch.per_device") == 4
    assert unsloth(launches, script, "2026.8.22").value("batch.per_device") == 1


def test_its_own_defaults_win_over_trls(launches: Launches) -> None:
    script = SCRIPT.replace("    per_device_train_batch_size=1,\n    gradient_accumulation_steps=4,\n", "")
    plan = unsloth(launches, script.replace("num_generations=6", "num_generations=4"))
    assert (plan.value("batch.per_device"), plan.value("batch.accumulation"), plan.value("seed.trainer")) == (
        4,
        2,
        3407,
    )
    assert plan.value("rollout.importance_correction") is False


def test_standby_sleeps_and_sets_the_memory_itself(launches: Launches) -> None:
    plan = unsloth(launches, 'import os\nos.environ["UNSLOTH_VLLM_STANDBY"] = "1"\n' + SCRIPT)
    memory = plan.get("engine.gpu_memory_utilization")
    assert (plan.value("sleep.enabled"), plan.value("sleep.level"), plan.value("engine.enable_sleep_mode")) == (
        True,
        1,
        True,
    )
    assert memory is not None and memory.value is None and memory.unknown
    assert memory.line is None  # nobody could be asked for another value
    assert unsloth(launches).value("sleep.enabled") is False


def test_without_fast_inference_there_is_no_engine(launches: Launches) -> None:
    plan = unsloth(launches, SCRIPT.replace("    fast_inference=True,\n", ""))
    assert (plan.value("placement.mode"), plan.value("rollout.backend")) == ("none", "hf")
    assert not [name for name in plan.settings if name.startswith("engine.")]
    assert plan.value("lengths.model") == 2048


def test_stop_strings_of_its_sampling_params(launches: Launches) -> None:
    script = SCRIPT.replace(
        "args = GRPOConfig(",
        'asked = SamplingParams(min_p=0.1, stop=["</s>"])\nargs = GRPOConfig(\n    vllm_sampling_params=asked,',
    )
    after = '\nSamplingParams(stop=["other"])\n'
    assert unsloth(launches, script + after).value("sampling.stop") == ["</s>"]


def test_a_script_without_unsloth_is_trls(launches: Launches) -> None:
    (plan,) = launches({"train.py": "from trl import GRPOConfig\nGRPOConfig()\n"}, trl="0.22.2")
    assert plan.framework == "TRL"


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("engine.max_model_len", 4096, "max_seq_length=4096"),
        ("engine.gpu_memory_utilization", 0.5, "gpu_memory_utilization=0.5"),
        ("engine.max_lora_rank", 64, "max_lora_rank=64"),
        ("batch.generations", 4, "num_generations=4"),
    ],
)
def test_fixes_stand_in_the_right_call(launches: Launches, option: str, value: object, text: str) -> None:
    dialect = by_name("unsloth")
    assert dialect is not None
    edited = apply([dialect.spell(Edit(option=option, value=value), unsloth(launches))])
    assert edited.refused == [] and text in next(iter(edited.after.values())).replace(" ", "")


@pytest.mark.parametrize(("zoo", "rule"), [("2026.10.8", "same"), ("2026.10.9", "replica")])
def test_engines_of_torchrun_get_seeds_of_their_own(launches: Launches, zoo: str, rule: str) -> None:
    files = {"run.sh": "torchrun --nproc_per_node 4 train.py\n", "train.py": SCRIPT}
    versions = {"unsloth": "2026.10.7", "unsloth_zoo": zoo, "trl": "0.24.0", "vllm": "0.21.0"}
    (plan,) = launches(files, **versions)
    topology = seed_topology(plan)
    assert (plan.value("seed.per_replica"), topology is not None and topology.replicas) == (rule, 4)
