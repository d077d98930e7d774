"""A live run that failed in a known way is told under its own code, not as a failure that nobody knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rldoctor.api import Case, Grade
from rldoctor.api.facts import Packages
from rldoctor.flow import examination
from rldoctor.flow.failed_runs import explained
from rldoctor.model import Report
from rldoctor.plan.model import Form, Given, RolloutPlan
from tests.loaded import REGISTRY
from tests.observations import rollout_case
from tests.plans import QWEN2_7B
from tests.plans import case as planned

TOO_SMALL = (
    "Traceback (most recent call last):",
    '  File "/venv/lib/python3.11/site-packages/vllm/v1/core/kv_cache_utils.py", line 545, in check_enough_memory',
    "    raise ValueError(",
    "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (9.62 GiB). Based on the available memory, the estimated "
    "maximum model length is 78800. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine.",
)


def failing(*tail: str, **job: Any) -> Case:
    return rollout_case("raised", {"tail": list(tail), **job}, completions=None)


def report(case: Case) -> Report:
    return examination.report(case, REGISTRY.checks.values(), REGISTRY)


def codes(case: Case) -> set[str]:
    return {finding.code for finding in report(case).findings}


def test_a_known_pattern_in_the_log_is_the_finding() -> None:
    case = failing(*TOO_SMALL)
    (finding,) = report(case).findings
    assert (finding.code, finding.grade) == ("RLD205", Grade.REPRODUCED)
    assert "in rollout: miniature" in finding.message and finding.fixes
    assert {one.source for one in finding.evidence} == {"log of rollout: miniature"}


NOT_INSTALLED = (
    "Traceback (most recent call last):",
    '  File "/venv/lib/python3.11/site-packages/vllm/attention/ops/ipex_attn.py", line 12, in <module>',
    "    import intel_extension_for_pytorch.llm.modules as ipex_modules",
    "ModuleNotFoundError: No module named 'intel_extension_for_pytorch'",
)


def test_what_a_log_shows_proves_no_other_finding_of_its_code() -> None:
    there = Packages(python="3.11.7", prefix="/venv", executable="/venv/bin/python", distributions=(), named=True)
    plan = RolloutPlan(framework="EasyR1", entry="verl.trainer.main", file="run.sh", line=3, settings={})
    case = replace(failing(*NOT_INSTALLED), plan=plan, packages=there)
    found = {one.grade: one for one in report(case).findings if one.code == "RLD108"}
    launch, engine = found[Grade.DECLARED], found[Grade.REPRODUCED]
    assert "easyr1" in launch.message and all(one.source == "run.sh" for one in launch.evidence)
    assert "intel-extension-for-pytorch" in engine.message


def test_what_the_launch_declares_is_not_what_its_log_shows() -> None:
    launch = planned(config=QWEN2_7B, engine__max_model_len=32769, lengths__prompt=32000, lengths__response=769)
    assert launch.plan is not None
    stands = [(name, setting.value) for name, setting in launch.plan.settings.items()]
    given = tuple(Given(key=n, value=v, file="run.sh", line=7, form=Form.OVERRIDE, option=n) for n, v in stands)
    # The last words of a run that was ended are no failure: the log shows nothing.
    ended = failing("INFO 11-20 10:00:00 [core.py:58] Initializing a V1 LLM engine", ended="timed-out")
    case = replace(launch, plan=replace(launch.plan, given=given), observations=ended.observations)
    found = {finding.code: finding for finding in report(case).findings}
    assert found.keys() == {"RLD203", "RLD900"}
    assert found["RLD203"].grade is Grade.DECLARED
    assert {one.source for one in found["RLD203"].evidence} == {"run.sh", "model/config.json"}


def refusing(message: str) -> Case:
    refusal = {
        "type": "ValueError",
        "message": message,
        "reads": ["num_generations"],
        "file": "trl/trainer/grpo_config.py",
        "line": 685,
        "function": "GRPOConfig.__post_init__",
        "condition": "self.num_generations < 2",
    }
    links = {"frameworks": [{"name": "trl", "version": "0.23.1", "problems": [], "refusal": refusal}], "unread": {}}
    return Case(plan=RolloutPlan(framework="TRL", version="0.23.1", file="train.py", entry="train.py"), links=links)


def test_a_refusal_of_the_source_that_a_code_knows_is_that_codes_alone() -> None:
    (finding,) = report(refusing("GRPO requires at least 2 generations per prompt to go on.")).findings
    assert (finding.code, finding.grade) == ("RLD211", Grade.DECLARED)
    assert [(one.source, one.line) for one in finding.evidence] == [("trl/trainer/grpo_config.py", 685)]


def test_a_refusal_that_no_code_knows_is_told_as_it_is() -> None:
    (finding,) = report(refusing("num_generations does not suit the moon")).findings
    assert (finding.code, finding.grade) == ("RLD212", Grade.DECLARED)


def test_the_whole_log_goes_before_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("\n".join(TOO_SMALL) + "\n")
    assert codes(failing("the last line", log=str(log))) == {"RLD205"}


def test_a_failure_that_no_pattern_knows_stays_one() -> None:
    case = failing("ZeroDivisionError: division by zero")
    assert codes(case) == {"RLD900"}
    assert explained(case, [], []) == (case, [])


def test_a_run_that_came_to_its_end_is_not_searched() -> None:
    assert codes(rollout_case("done", {"tail": list(TOO_SMALL)})) == set()
