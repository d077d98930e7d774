"""RLD900: what nothing else explains, and only that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rldoctor_checks.processes.failure_unrecognised import check

from rldoctor.api import Case, Outcome, Severity
from rldoctor.logs.triage import triage_text
from tests.cases import judged_among_all
from tests.checks.launches import launch
from tests.logs.asking import raised
from tests.logs.excerpts import SEGFAULT
from tests.observations import died, failed, imported, imports_case, link, packages, rollout_case

STACK = packages(vllm="0.11.0", torch="2.8.0", transformers="5.0")
AIMV2 = link("ValueError", "'aimv2' is already used by a Transformers config, pick another name.", "vllm/ovis.py:7")


def test_a_crash_below_python_names_who_called_what_crashed() -> None:
    (found,) = triage_text(SEGFAULT).findings
    assert found.code == "RLD900"
    assert found.message.startswith("Segmentation fault in native code, called by _engine_run_backward (")


def test_of_what_a_validator_refuses_the_field_is_looked_for_and_who_asked() -> None:
    # https://github.com/BytedTsinghua-SIA/MemAgent/issues/9
    message = (
        "1 validation error for ModelConfig\nlimit_mm_per_prompt\n  Input should be a valid dictionary "
        "[type=dict_type, input_value=None, input_type=NoneType]"
    )
    folder = "/opt/venv/lib/python3.12/site-packages"
    frames = (f"{folder}/vllm/engine/arg_utils.py create_model_config", f"{folder}/pydantic/_internal/x.py __init__")
    log = raised("pydantic_core._pydantic_core.ValidationError", message, *frames)
    (fix, *_) = triage_text(log).findings[0].fixes
    assert '"limit_mm_per_prompt Input should be a valid dictionary"' in fix.title
    assert "create_model_config of vllm" in fix.title


def test_an_import_failure_without_a_name_is_reported_once_with_its_frames() -> None:
    case = imports_case(STACK, vllm=failed(AIMV2), trl=failed(AIMV2), torch=imported())
    (finding,) = judged_among_all(check, case).findings
    assert finding.message.startswith("the import of trl, vllm fails: ValueError: 'aimv2' is already used")
    assert [e.text for e in finding.evidence][1].endswith("vllm/ovis.py:7 in <module>")
    assert finding.evidence[-1].source == "/tmp/log.txt"


def test_an_optional_package_that_does_not_import_is_a_warning() -> None:
    error = link("AttributeError", "module 'triton' has no attribute 'x'", "bitsandbytes/x.py")
    (finding,) = judged_among_all(check, imports_case(STACK, bitsandbytes=failed(error))).findings
    assert finding.severity is Severity.WARNING


def test_an_import_that_was_killed_or_hangs() -> None:
    (killed,) = judged_among_all(check, imports_case(STACK, vllm=died(-9))).findings
    (hangs,) = judged_among_all(check, imports_case(STACK, vllm={**died(-9), "ended": "timed-out"})).findings
    assert "its process died" in killed.message and killed.severity is Severity.ERROR
    assert "did not end in time" in hangs.message and hangs.severity is Severity.WARNING


@pytest.mark.parametrize(
    "reported",
    [
        failed(link("RuntimeError", "operator torchvision::nms does not exist", "torchvision/x.py")),
        failed(link("ModuleNotFoundError", "No module named 'cbor2'", "vllm/x.py", name="cbor2")),
        failed(link("ImportError", "libcuda.so.1: cannot open shared object file", "vllm/x.py")),
        died(-11, "Current thread 0x0 (most recent call first):", '  File "/x/site-packages/vllm/y.py", line 3 in z'),
    ],
    ids=["a misfit", "an absent package", "no GPU driver", "a native crash"],
)
def test_an_import_failure_with_a_code_of_its_own(reported: dict[str, Any]) -> None:
    assert judged_among_all(check, imports_case(STACK, vllm=reported)).outcome is Outcome.PASS


def test_a_rollout_that_raised_tells_stage_root_and_frames() -> None:
    root = link("AssertionError", "len(running) == 0", "vllm/core/scheduler.py:9", link="cause")
    wrapper = link("RuntimeError", "Engine core initialization failed. See root cause above.", "vllm/x.py")
    (finding,) = judged_among_all(check, rollout_case("raised", exceptions=[wrapper, root], stage="boot")).findings
    assert finding.message.endswith("failed with AssertionError: len(running) == 0 at stage boot")
    assert finding.evidence[0].text.endswith("vllm/core/scheduler.py:9 in <module>")
    assert "/tmp/log.txt" in {evidence.source for evidence in finding.evidence}


def test_a_rollout_that_died_or_hangs() -> None:
    memory = rollout_case("died", job={"signal": "SIGKILL", "exit_code": -9}, stage="boot", out_of_memory_kills=1)
    (finding,) = judged_among_all(check, memory).findings
    assert finding.message.endswith("was ended by SIGKILL at stage boot")
    assert any("want of memory" in evidence.text for evidence in finding.evidence)
    (slow,) = judged_among_all(check, rollout_case("timed-out", stage="generate")).findings
    assert slow.severity is Severity.WARNING


@pytest.mark.parametrize(
    "error",
    [
        link("RuntimeError", "Expected all tensors to be on the same device, but found two", "torch/x.py"),
        link("KeyError", "'original_max_position_embeddings'", "vllm/x.py"),
        link(
            "ModuleNotFoundError",
            "No module named 'intel_extension_for_pytorch'",
            "vllm/x.py",
            name="intel_extension_for_pytorch",
        ),
    ],
)
def test_a_rollout_failure_with_a_code_of_its_own(error: dict[str, Any]) -> None:
    assert judged_among_all(check, rollout_case("raised", exceptions=[error])).findings == ()


def test_an_interpreter_that_could_not_be_started_is_unknown() -> None:
    error = {"type": "FileNotFoundError", "message": "no such file: /absent/python", "frames": []}
    result = judged_among_all(check, rollout_case("not-started", job={"error": error}))
    assert result.outcome is Outcome.NOT_CHECKED
    assert "/absent/python" in str(result.reason)


def test_a_rollout_that_could_not_be_played_here_is_neither_a_failure_nor_a_pass() -> None:
    result = judged_among_all(check, rollout_case("not-run", job={"why": "no kernel for the CPU"}))
    assert result.outcome is Outcome.NOT_CHECKED
    assert (result.reason or "").startswith("no kernel for the CPU")


@pytest.mark.engine
def test_a_healthy_rollout_says_what_it_did(rollout: Callable[..., Case]) -> None:
    result = judged_among_all(check, rollout())
    assert result.outcome is Outcome.PASS
    assert "18 completions" in str(result.reason)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        ("assertion", "failed with AssertionError: len(self.running) == 0 at stage generate"),
        ("crash", "was ended by SIGSEGV at stage generate"),
        ("killed", "was ended by SIGKILL at stage boot"),
    ],
)
def test_a_broken_engine(rollout: Callable[..., Case], fault: str, ending: str) -> None:
    case = rollout(fault)
    (finding,) = judged_among_all(check, case).findings
    assert finding.message.endswith(ending)
    # What the child had delivered before is there.
    assert case.observations["rollout"]["miniature"]["records"]["versions"]["vllm"]


@pytest.mark.engine
def test_an_engine_that_does_not_start(rollout: Callable[..., Case]) -> None:
    (finding,) = judged_among_all(check, rollout(tensor_parallel_size=0)).findings
    assert "at stage boot" in finding.message


def test_both_probes_count() -> None:
    case = imports_case(STACK, vllm=failed(AIMV2))
    observations = {**case.observations, **rollout_case("died", stage="boot").observations}
    assert len(judged_among_all(check, replace(case, observations=observations)).findings) == 2


def test_a_failure_with_another_code_is_no_pass_without_a_word() -> None:
    error = link("RuntimeError", "Expected all tensors to be on the same device, but found two", "torch/x.py")
    result = judged_among_all(check, rollout_case("raised", exceptions=[error]))
    assert "1 run failed in a way that has a code of its own" in str(result.reason)


BESIDE: dict[str, Any] = {
    "engine__tensor_parallel_size": 2,
    "engine__distributed_executor_backend": "external_launcher",
}
REFUSED = link("ValueError", "No available memory for the cache blocks.", "vllm/v1/core/kv_cache_utils.py:9")
GONE = link("RuntimeError", "[gloo/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4242", "torch/x.py:1")


def ranks(*reported: dict[str, Any], ended: str = "failed", gpus: int | None = 2, seeds: str = "replica") -> Case:
    """The peers probe's record of so many ranks, beside an engine that came up by itself."""
    answers = [{"rank": n, "ended": "done", "stage": "boot", "tail": [], **answer} for n, answer in enumerate(reported)]
    records = {"ranks": answers, "ended": ended, "launcher": ["torchrun: no port"], "reach": {"ranks": 2}}
    job = {"ended": "done", "records": records, "seconds": 9.0, "log": "/tmp/peers.txt", "tail": []}
    case = launch(gpus=gpus, seed__per_replica=seeds, placement__engines=1, **BESIDE)
    return replace(case, observations={"peers": {"peers": job}, **rollout_case().observations})


def test_ranks_with_an_engine_object_each_fail_where_one_engine_does_not() -> None:
    case = ranks({"ended": "raised", "exceptions": [GONE]}, {"ended": "raised", "exceptions": [REFUSED]})
    (finding,) = judged_among_all(check, case).findings
    assert finding.message == (
        "rank 1 of 2, started by torchrun with an engine object of its own, failed with ValueError: No available "
        "memory for the cache blocks. at stage boot"
    )
    assert finding.severity is Severity.ERROR
    assert finding.evidence[0].text.endswith("kv_cache_utils.py:9 in <module>")


def test_ranks_that_stand_in_on_the_cpu_or_only_wait_are_a_warning() -> None:
    (here,) = judged_among_all(
        check, ranks({"ended": "raised", "exceptions": [REFUSED]}, {"ended": "died"}, gpus=None)
    ).findings
    assert here.severity is Severity.WARNING
    slow = ranks({"ended": "died"}, {"ended": "raised", "exceptions": [], "waiting": True}, ended="timed-out")
    (late,) = judged_among_all(check, slow).findings
    assert late.message.startswith("rank 1 of 2,") and "did not end within 9 s" in late.message
    assert late.severity is Severity.WARNING
    (silent,) = judged_among_all(check, ranks({"ended": "died"}, {"ended": "died"})).findings
    assert "ended without a word at stage boot" in silent.message


def test_ranks_that_do_well_or_fail_for_a_known_reason_are_quiet() -> None:
    healthy = judged_among_all(check, ranks({}, {}, ended="done"))
    assert "2 ranks with an engine object each" in str(healthy.reason)
    raised = {"ended": "raised", "exceptions": [REFUSED]}
    assert judged_among_all(check, ranks(raised, raised, seeds="rank")).findings == ()  # RLD310
    alone = ranks(raised, raised)
    broken = rollout_case("raised", exceptions=[REFUSED]).observations
    (only,) = judged_among_all(check, replace(alone, observations={**alone.observations, **broken})).findings
    assert only.message.startswith("vLLM 0.11.0")
    unstarted = judged_among_all(check, ranks({"ended": "absent"}, {"ended": "absent"}))
    assert "torchrun did not run its ranks here: torchrun: no port" in str(unstarted.reason)


@pytest.mark.parametrize(
    ("message", "phrase"),
    [
        ("no key (no-tty). call login(key=[your_key])", "no key (no-tty). call login(key=[your_key])"),
        ("the sampler (of the second kind, asked '/srv/models/one/of/many') gave up", "of the second kind, asked"),
        ("batches) that are left", "that are left"),
        ("'Gizmo' object is not iterable", "'Gizmo' object is not iterable"),
    ],
)
def test_what_to_search_for_has_no_half_of_a_bracket(message: str, phrase: str) -> None:
    frame = '  File "/e/lib/python3.12/site-packages/acme/core.py", line 3, in step\n    go()'
    report = triage_text(f"Traceback (most recent call last):\n{frame}\nRuntimeError: {message}\n")
    assert f'"{phrase}"' in report.findings[0].fixes[-1].title


@pytest.mark.parametrize(
    ("said", "searched"),
    [
        (
            "AttributeError: 'EngineX' object has no attribute 'mp_group'",
            "AttributeError \"'EngineX' object has no attribute 'mp_group'\", raised by step of acme",
        ),
        (
            "IndexError: list index out of range",
            'IndexError "list index out of range", raised by step of acme at "self.parts[0].go()"',
        ),
        (
            "RuntimeError: weights should have three dimensions```",
            'RuntimeError "weights should have three dimensions"',
        ),
    ],
)
def test_what_to_search_for_is_whole_and_names_the_line_where_words_say_little(said: str, searched: str) -> None:
    frame = '  File "/e/lib/python3.12/site-packages/acme/core.py", line 3, in step\n    self.parts[0].go()'
    report = triage_text(f"Traceback (most recent call last):\n{frame}\n{said}\n")
    assert f"search for {searched}" in report.findings[0].fixes[-1].title


def test_what_was_none_is_named() -> None:
    frame = '  File "/e/lib/python3.12/site-packages/acme/core.py", line 3, in step\n    n = self.size // groups'
    said = "TypeError: unsupported operand type(s) for //: 'NoneType' and 'int'"
    report = triage_text(f"Traceback (most recent call last):\n{frame}\n{said}\n")
    assert "(`self.size` was None)" in report.findings[0].message


@pytest.mark.parametrize(
    ("stack", "searched"),
    [
        (
            "*** SIGSEGV received at time=1720000000 on cpu 12 ***\nPC: @     0x7f1f6ad0a7f4  (unknown)  acmeProxy()\n"
            "    @     0x7f1f6acff1b2       3344  acmeSetup()",
            'SIGSEGV "acmeProxy"',
        ),
        (
            "[node12:4412 :0:4890] Caught signal 11 (Segmentation fault: address not mapped to object)\n"
            " 0 0x0000000000042520 __sigaction()  ???:0\n 1 0x0000000000090f51 acmeSend()  acme.cc:488",
            'SIGSEGV "acmeSend"',
        ),
        (
            "!!!!!!! Segfault encountered !!!!!!!\n"
            '  File "<unknown>", line 0, in pthread_kill\n  File "<unknown>", line 0, in acme::forward(Tensor const&)',
            'Segmentation fault "acme::forward"',
        ),
        (
            "terminate called after throwing an instance of 'c10::Error'\n  what():  acme has no room left\n"
            "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f5 in libc10.so)\n"
            "frame #1: acme::grow(long) + 0x1 (0x7f5 in libacme.so)",
            'c10::Error "acme has no room left", raised by acme::grow',
        ),
    ],
)
def test_a_native_stack_is_searched_for_by_the_function_that_tells(stack: str, searched: str) -> None:
    report = triage_text(f"{stack}\n")
    assert [finding.code for finding in report.findings] == ["RLD900"]
    assert f"search for {searched}" in report.findings[0].fixes[-1].title


def test_a_thread_that_goes_down_with_its_process_is_no_cause() -> None:
    completion = (
        "node3:1:22 [0] transport/net_ib.cc:1200 NCCL WARN NET/IB : Got completion from peer with status=12 opcode=0"
    )
    report = triage_text(f"{completion}\nterminate called without an active exception\n")
    assert [finding.code for finding in report.findings] == ["RLD322"]


def test_a_long_name_is_not_cut_from_what_to_search_for() -> None:
    said = "Can't get local object 'AutoModelForCausalLMWithValueHead.post_init.<locals>.set_a_hook_for_devices'"
    report = triage_text(f"AttributeError: {said}\n")
    assert "AutoModelForCausalLMWithValueHead.post_init.<locals>.set_a_hook" in report.findings[0].fixes[-1].title
