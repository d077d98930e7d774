"""RLD219: options that the release does not declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rldoctor_checks.rollout.option_unknown import check

from rldoctor.api import Case, Grade, Outcome, Severity
from rldoctor.judge import judge_one
from rldoctor.launch.plan import Form, UnknownOption
from tests.logs.raising import found, traceback
from tests.plans import case

TYPO = UnknownOption(
    key="actor_rollout_ref.rollout.gpu_memory_utilisation",
    file="run.sh",
    line=31,
    form=Form.OVERRIDE,
    nearest=("actor_rollout_ref.rollout.gpu_memory_utilization",),
    owner="verl 0.6.1",
)


def with_unknown(*options: UnknownOption) -> Case:
    made = case()
    assert made.plan is not None
    return replace(made, plan=replace(made.plan, unknown=options))


def test_names_the_option_the_line_and_the_nearest_real_one() -> None:
    (finding,) = judge_one(check, with_unknown(TYPO)).findings
    assert "gpu_memory_utilisation; did you mean actor_rollout_ref.rollout.gpu_memory_utilization?" in finding.message
    assert (finding.evidence[0].source, finding.evidence[0].line) == ("run.sh", 31)


def test_known_options_are_quiet() -> None:
    assert judge_one(check, with_unknown()).outcome is Outcome.PASS


def test_argparse_refuses() -> None:
    log = "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --vllm_mod colocate\n"
    (finding,) = found(check, log)
    assert finding.message == "this release does not know --vllm_mod"


# Shared log torchrun_local_rank_arg.
def test_a_launcher_that_passes_the_rank_otherwise() -> None:
    log = "usage: train.py [-h]\ntrain.py: error: the following arguments are required: --local_rank\n"
    (finding,) = found(check, log)
    assert "LOCAL_RANK" in finding.fixes[0].title


def test_hydra_names_the_key() -> None:
    error = (
        "hydra.errors.ConfigCompositionException: Could not override 'actor_rollout_ref.rollout.tensor_parallel_size'."
    )
    (finding,) = found(check, traceback(error, "hydra/_internal/config_loader_impl.py f"))
    assert finding.message == "the config of this release has no actor_rollout_ref.rollout.tensor_parallel_size"


def test_a_config_class_refuses_a_keyword() -> None:
    error = "TypeError: GRPOConfig.__init__() got an unexpected keyword argument 'vllm_device'"
    (finding,) = found(check, traceback(error, "trl/x.py f"))
    assert finding.message == "GRPOConfig of this release does not know vllm_device"
    library = "TypeError: Attention.__init__() got an unexpected keyword argument 'scale'"
    assert found(check, traceback(library, "vllm/x.py f")) == []


def test_yaml_names_the_line() -> None:
    error = 'yaml.scanner.ScannerError: mapping values are not allowed here\n  in "acc.yaml", line 3, column 16'
    (finding,) = found(check, traceback(error, "yaml/scanner.py fetch_value"))
    assert finding.message == "acc.yaml, line 3, column 16 is not valid YAML"


def running(asked: Mapping[str, Any], engine: Mapping[str, Any], boot: str = "miniature") -> Case:
    """A launch with these engine options, whose engine was booted."""
    job = {"ended": "done", "records": {"asked": asked, "engine": engine, "versions": {"vllm": "0.9.1"}}}
    options: dict[str, Any] = {f"engine__{name}": value for name, value in asked.items()}
    made = case(**options)
    return replace(made, observations={"rollout": {boot: job}})


def test_an_option_that_the_running_engine_does_not_apply() -> None:
    # As vLLM 0.9.1 was seen to do with its V1 engine.
    (finding,) = judge_one(check, running({"enable_chunked_prefill": False}, {"enable_chunked_prefill": True})).findings
    assert (finding.severity, finding.grade) == (Severity.WARNING, Grade.OBSERVED)
    assert "was given enable_chunked_prefill=False and runs with True" in finding.message


def test_an_engine_that_runs_as_asked_is_quiet() -> None:
    asked = {"enable_chunked_prefill": False, "max_num_seqs": 64, "dtype": "half", "seed": 7}
    engine = {"enable_chunked_prefill": False, "max_num_seqs": 64, "dtype": "float16", "block_size": 16}
    result = judge_one(check, running(asked, engine))
    assert result.outcome is Outcome.PASS and "2 engine options" in str(result.reason)


def test_an_engine_that_differs_on_purpose_is_quiet() -> None:
    other = running({"enable_chunked_prefill": False}, {"enable_chunked_prefill": True}, boot="chunked_prefill: on")
    assert judge_one(check, other).outcome is Outcome.PASS
