"""RLD219: options that the release does not declare."""

from __future__ import annotations

from dataclasses import replace

from rldoctor_checks.rollout.option_unknown import check

from rldoctor.api import Case, Outcome
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
