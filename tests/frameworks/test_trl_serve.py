"""``trl vllm-serve``: its engine, release by release."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rldoctor.edits.edit import apply
from rldoctor.frameworks import by_name
from rldoctor.model import Edit
from rldoctor.plan.model import RolloutPlan

Launches = Callable[..., list[RolloutPlan]]


@pytest.mark.parametrize("command", ["trl vllm-serve", "python -m trl.scripts.vllm_serve"])
def test_options_are_the_engines(launches: Launches, command: str) -> None:
    options = "--model org/model --tensor-parallel-size 2 --port 8001 --enforce_eager true"
    run = f"CUDA_VISIBLE_DEVICES=0,1 {command} {options}\n"
    (plan,) = launches({"run.sh": run}, trl="0.24.0", vllm="0.10.2")
    assert (plan.framework, plan.role, plan.version) == ("TRL", "server", "0.24.0")
    assert (plan.value("engine.model"), plan.value("engine.tensor_parallel_size")) == ("org/model", 2)
    assert (plan.value("placement.listen_port"), plan.value("placement.engine_devices")) == (8001, [0, 1])
    assert (plan.value("engine.gpu_memory_utilization"), plan.value("engine.enforce_eager")) == (0.9, True)
    assert plan.unknown == () and plan.unread == ()


@pytest.mark.parametrize(
    ("version", "logprobs", "budget"),
    [("0.24.0", "raw_logprobs", None), ("0.27.1", "processed_logprobs", None), ("1.11.0", "processed_logprobs", -1)],
)
def test_what_the_release_fixes(launches: Launches, version: str, logprobs: str, budget: int | None) -> None:
    # trl/scripts/vllm_serve.py: no logprobs_mode up to 0.27.0, `vllm serve` with --max-logprobs -1 from 1.11
    (plan,) = launches({"run.sh": "trl vllm-serve --model org/model\n"}, trl=version, vllm="0.10.2")
    assert plan.value("engine.logprobs_mode") == logprobs
    assert (plan.value("engine.max_logprobs") == -1) is (budget == -1)


def test_data_parallel_engines_share_vllms_own_seed(launches: Launches) -> None:
    run = "trl vllm-serve --model org/model --tensor_parallel_size 2 --data_parallel_size 4\n"
    (plan,) = launches({"run.sh": run}, trl="0.24.0", vllm="0.11.0")
    assert (plan.value("placement.engines"), plan.value("placement.engine_gpus")) == (4, 8)
    assert plan.value("seed.per_replica") == "same"
    (served,) = launches({"run.sh": run}, trl="1.11.0", vllm="0.20.0")  # vllm serve
    assert served.value("seed.per_replica") == "same"
    for release in ("0.8.5", "0.32.0"):
        (other,) = launches({"run.sh": run}, trl="0.24.0", vllm=release)
        assert other.value("seed.per_replica") == "random"


def test_other_options_of_vllm_are_known_from_1_11_on(launches: Launches) -> None:
    files = {"run.sh": "trl vllm-serve --model org/model --max-num-batched-tokens 4096\n"}
    (old,) = launches(files, trl="0.24.0", vllm="0.10.2")
    (new,) = launches(files, trl="1.11.0", vllm="0.20.0")
    assert [option.key for option in old.unknown] == ["--max-num-batched-tokens"]
    assert new.unknown == () and new.value("engine.max_num_batched_tokens") == 4096
    (wrong,) = launches({"run.sh": "trl vllm-serve --model m --max-model-lenght 9\n"}, trl="1.11.0", vllm="0.20.0")
    assert [option.key for option in wrong.unknown] == ["--max-model-lenght"]


def test_a_fix_of_the_joined_run_goes_to_the_servers_command(launches: Launches) -> None:
    run = "trl vllm-serve --model org/model --max_model_len 1024 &\npython train.py\n"
    script = "from trl import GRPOConfig\nGRPOConfig(use_vllm=True, vllm_mode='server')\n"
    (plan,) = launches({"run.sh": run, "train.py": script}, trl="0.24.0", transformers="4.57.1", vllm="0.10.2")
    dialect = by_name(plan.dialect)
    assert dialect is not None
    edited = apply([dialect.spell(Edit(option="engine.max_model_len", value=4096), plan)])
    assert "--max_model_len 4096 &" in next(iter(edited.after.values()))
