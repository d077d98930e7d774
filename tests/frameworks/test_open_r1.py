"""open-r1: recipes over TRL; TRL's version decides what they mean."""

from __future__ import annotations

from collections.abc import Callable

from rldoctor.edits.edit import apply
from rldoctor.frameworks import by_name
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan

Launches = Callable[..., list[RolloutPlan]]

RECIPE = """# Model
model_name_or_path: org/model
dataset_prompt_column: problem  # of the data set
use_vllm: true
vllm_mode: colocate
max_prompt_length: 512
max_completion_length: 1024
num_generations: 16
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
reward_funcs:
- accuracy
"""
RUN = "accelerate launch --num_processes 8 src/open_r1/grpo.py --config recipe.yaml --vllm_gpu_memory_utilization 0.2\n"
VERSIONS = {"open_r1": "0.1.0.dev0", "trl": "0.18.0", "transformers": "4.52.3"}


def test_the_recipe_and_the_command_line(launches: Launches) -> None:
    (plan,) = launches({"run.sh": RUN, "recipe.yaml": RECIPE}, **VERSIONS)
    prompt = plan.get("lengths.prompt")
    assert prompt is not None and (prompt.value, prompt.form, prompt.line) == (512, Form.YAML, 6)
    assert (plan.framework, plan.value("engine.gpu_memory_utilization")) == ("open-r1", 0.2)
    assert (plan.value("batch.generation"), plan.value("batch.prompts")) == (64, 4)
    assert plan.value("engine.max_model_len") == 1536
    assert plan.unread == () and plan.unknown == ()


def test_trls_version_decides(launches: Launches) -> None:
    (plan,) = launches({"run.sh": RUN, "recipe.yaml": RECIPE}, **{**VERSIONS, "trl": "0.16.0"})
    assert plan.value("placement.mode") == "server"
    (unversioned,) = launches({"run.sh": RUN, "recipe.yaml": RECIPE})
    assert unversioned.get("engine.max_model_len") is None


def test_a_recipe_alone_is_recognised_and_a_plain_trl_config_is_not(launches: Launches) -> None:
    (recipe,) = launches({"recipe.yaml": RECIPE}, **VERSIONS)
    (plain,) = launches({"recipe.yaml": RECIPE.replace("dataset_prompt_column: problem", "beta: 0.0")}, **VERSIONS)
    assert (recipe.framework, plain.framework) == ("open-r1", "TRL")


def test_an_option_of_an_older_trl_is_dropped(launches: Launches) -> None:
    (plan,) = launches({"run.sh": RUN, "recipe.yaml": RECIPE + "vllm_device: auto\n"}, **VERSIONS)
    (unknown,) = plan.unknown
    assert (unknown.key, unknown.line, unknown.ignored) == ("vllm_device", 13, True)


def test_fixes_keep_the_recipes_comments(launches: Launches) -> None:
    (plan,) = launches({"recipe.yaml": RECIPE}, **VERSIONS)
    dialect = by_name("open-r1")
    assert dialect is not None
    edits = [Edit(option="batch.generations", value=8), Edit(option="lengths.response", value=2048)]
    edited = apply([dialect.spell(edit, plan) for edit in edits])
    text = next(iter(edited.after.values()))
    assert "num_generations: 8\n" in text and "max_completion_length: 2048\n" in text
    assert "problem  # of the data set" in text and text.startswith("# Model\n")
