"""slime: Megatron's options, its own, SGLang's behind a prefix; no default of vLLM is ever taken for its engine."""

from __future__ import annotations

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
