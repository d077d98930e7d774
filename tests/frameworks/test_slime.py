"""slime: Megatron's options, its own, SGLang's behind a prefix; no default of vLLM is ever taken for its engine."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rldoctor.logs.metrics.console import read as read_line
from rldoctor.logs.reveals import framework_of
from rldoctor.plan.model import Source
from rldoctor.plan.seeds import seed_topology
from tests.frameworks.conftest import Launches

# scripts/run-qwen3-4B.sh of 0.3.1, shortened.
RUN = """\
ROLLOUT_ARGS=(
   --rollout-batch-size 32
   --n-samples-per-prompt 8
   --rollout-max-response-len 8192
   --rollout-temperature 0.8
   --global-batch-size 256
)
SGLANG_ARGS=(
   --rollout-num-gpus-per-engine 2
   --sglang-mem-fraction-static 0.7
   --sglang-context-length 16384
)
ray start --head --num-gpus 8
ray job submit --address="http://127.0.0.1:8265" -- python3 {script} \\
   --actor-num-nodes 1 \\
   --actor-num-gpus-per-node 8 \\
   --hf-checkpoint /opt/Qwen3-4B \\
   ${{ROLLOUT_ARGS[@]}} ${{SGLANG_ARGS[@]}} {more}
"""


def test_a_launch_of_its_own(launches: Launches) -> None:
    (plan,) = launches({"run.sh": RUN.format(script="train.py", more="--colocate")}, vllm="0.11.0")
    assert (plan.framework, plan.value("rollout.backend"), plan.value("placement.mode")) == (
        "slime",
        "sglang",
        "colocate",
    )
    assert (plan.value("model.path"), plan.value("lengths.response")) == ("/opt/Qwen3-4B", 8192)
    assert (plan.value("batch.generation"), plan.value("batch.train"), plan.value("batch.per_request")) == (256, 256, 1)
    assert (plan.value("placement.engines"), plan.value("ray.gpus_needed")) == (4, 8)
    assert plan.unread == () and plan.unknown == ()


# tests/test_qwen3_4B_ppo.py of 0.3.1, shortened.
PYTHON = """\
import os
import slime.utils.external_utils.command_utils as U

MODEL = "Qwen3-4B"
GPUS = int(os.environ.get("SLIME_SCRIPT_NUM_GPUS", "8"))

def execute():
    ckpt_args = f"--hf-checkpoint /opt/{MODEL} "
    rollout_args = (
        "--rollout-batch-size 32 "
        "--n-samples-per-prompt 8 "
        "--rollout-max-response-len 8192 "
        "--input-key 'the prompt' "
    )
    if os.path.exists("more"):
        rollout_args += "--rollout-temperature 0.5 "
    misc_args = f"--actor-num-nodes 1 --actor-num-gpus-per-node {GPUS} " "--rollout-num-gpus-per-engine 2 --colocate "
    train_args = f"{ckpt_args} {rollout_args} {misc_args} {U.get_default_wandb_args(__file__)} "
    U.execute_train(train_args=train_args, num_gpus_per_node=GPUS, megatron_model_type="qwen3-4B"<script>)
"""


@pytest.mark.parametrize(("script", "entry"), [("", "train.py"), (', train_script="train_async.py"', "train_async.py")])
def test_a_python_launcher_puts_its_options_together(launches: Launches, script: str, entry: str) -> None:
    (plan,) = launches({"run.py": PYTHON.replace("<script>", script)}, slime="0.3.1")
    assert (plan.framework, plan.entry, plan.value("model.path")) == ("slime", entry, "/opt/Qwen3-4B")
    assert (plan.value("batch.generation"), plan.value("placement.mode")) == (256, "colocate")
    assert (plan.value("placement.gpus_per_node"), plan.value("placement.engines")) == (8, 4)
    response = plan.get("lengths.response")
    assert response is not None and (response.value, response.line) == (8192, 12)
    assert {given.key: given.value for given in plan.given}["input_key"] == "the prompt"
    told = " ".join(note.text for note in plan.notes if note.unread)
    assert "get_default_wandb_args" in told and "--rollout-temperature 0.5" in told


def test_each_option_of_a_text_stands_on_its_line(launches: Launches) -> None:
    text = PYTHON.replace(
        '"--rollout-batch-size 32 "', '"--lr-decay-style cosine "\n        "--lr 1e-6 --rollout-batch-size 8 "'
    )
    (plan,) = launches({"run.py": text.replace("<script>", "")}, slime="0.3.1")
    assert {given.key: given.line for given in plan.given if given.key in ("lr", "lr_decay_style")} == {
        "lr_decay_style": 10,
        "lr": 11,
    }


def test_a_text_that_holds_others_many_times_has_an_end(launches: Launches) -> None:
    names = ["misc_args", *(f"more_{number}" for number in range(9))]
    texts = "".join(f"    {name} = f'{('{' + held + '} ') * 9}'\n" for held, name in pairwise(names))
    text = PYTHON.replace("    train_args", f"{texts}    train_args").replace("{misc_args}", f"{{{names[-1]}}}")
    (plan,) = launches({"run.py": text.replace("<script>", "")}, slime="0.3.1")
    assert any("too many parts" in note.text for note in plan.notes)


def test_a_function_of_that_name_in_anothers_module_starts_nothing(launches: Launches) -> None:
    text = PYTHON.replace("slime.utils", "ours.utils").replace("<script>", "")
    assert launches({"run.py": text}) == []


def test_stop_tokens_are_numbers_as_its_parser_makes_them(launches: Launches) -> None:
    more = "--colocate --rollout-stop-token-ids 151645 151643"
    (plan,) = launches({"run.sh": RUN.format(script="train.py", more=more)})
    assert plan.value("sampling.stop_token_ids") == [151645, 151643]


def test_what_may_follow_a_flag_is_no_value_of_it(launches: Launches) -> None:
    (plan,) = launches({"run.sh": RUN.format(script="train.py", more="--colocate $MORE")})
    assert plan.value("placement.mode") == "colocate"
    assert any("$MORE may hold more options" in note.text for note in plan.notes)


def test_only_what_sglang_is_given_is_said_of_the_engine(launches: Launches) -> None:
    (plan,) = launches({"run.sh": RUN.format(script="train.py", more="")}, vllm="0.11.0")
    engine = {name: setting for name, setting in plan.settings.items() if name.startswith("engine.")}
    assert all(setting.source is not Source.DEFAULT for setting in engine.values())
    assert {name: setting.key for name, setting in engine.items() if setting.source is Source.GIVEN} == {
        "engine.tensor_parallel_size": "--rollout-num-gpus-per-engine",
        "engine.gpu_memory_utilization": "--sglang-mem-fraction-static",
        "engine.max_model_len": "--sglang-context-length",
    }


@pytest.mark.parametrize(("script", "mode"), [("train.py", "separate"), ("train_async.py", "async")])
def test_engines_with_devices_of_their_own(launches: Launches, script: str, mode: str) -> None:
    (plan,) = launches({"run.sh": RUN.format(script=script, more="--rollout-num-gpus 4")})
    assert (plan.value("placement.mode"), plan.value("placement.engines")) == (mode, 2)
    assert plan.value("ray.gpus_needed") == 12


def test_its_seeds_are_one_apart(launches: Launches) -> None:
    (plan,) = launches({"run.sh": RUN.format(script="train.py", more="--colocate --seed 7")})
    found = seed_topology(plan)
    assert found is not None
    assert [row.seed for row in found.ranks if row.peer == 0] == [7, 8, 9, 10]


def test_another_script_of_that_name_is_not_slimes(launches: Launches) -> None:
    assert launches({"run.sh": "python3 train_by_hand.py --rollout-batch-size 32 --seed 7\n"}) == []


def test_its_log() -> None:
    record = "{'train/loss': 0.5, 'train/grad_norm': 0.25, 'train/lr-pg_0': 1e-06}"
    reading = read_line(f"[2026-08-21 17:14:19] model.py:918 - step 3: {record}")
    assert reading is not None and reading.step == 3
    assert reading.values["grad_norm"] == ("train/grad_norm", 0.25)
    assert framework_of(["/opt/slime/slime/ray/rollout.py"]) == "slime"


def test_an_option_in_another_frameworks_words_is_dropped_in_silence(launches: Launches) -> None:
    text = RUN.format(script="train.py", more="--colocate --max-response-length 4096 --swiglu --train-iters 3")
    (plan,) = launches({"run.sh": text}, slime="0.3.1")
    (found,) = plan.unknown
    assert (found.key, found.nearest, found.ignored) == ("--max-response-length", ("rollout_max_response_len",), True)
    (untold,) = launches({"run.sh": text})
    assert untold.unknown == ()


@pytest.mark.parametrize(
    ("more", "refused", "unknown"),
    [
        ("--advantage-estimator grop", ["--advantage-estimator"], []),
        ("--advantage-estimator gspo --qkv-format bshd", [], []),
        ("--num-rollout many", ["--num-rollout"], []),
        ("--rollout-max-responce-len 100", [], ["--rollout-max-responce-len"]),
        ("--rollout-my-own-flag 1 --recompute-granularity full", [], []),
    ],
)
def test_values_and_slips_of_its_own_options(
    launches: Launches, more: str, refused: list[str], unknown: list[str]
) -> None:
    (plan,) = launches({"run.sh": RUN.format(script="train.py", more=f"--colocate {more}")}, slime="0.3.0")
    assert ([one.key for one in plan.refused], [one.key for one in plan.unknown]) == (refused, unknown)
