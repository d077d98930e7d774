"""RLD405: batch invariance that is asked for."""

from __future__ import annotations

from typing import Any

from rldoctor_checks.sync.batch_dependent import check

from rldoctor.api import Outcome, Severity
from tests.checks.launches import finding, judged, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised

ASKED: dict[str, Any] = {"env__VLLM_BATCH_INVARIANT": "1"}


def test_a_release_that_does_not_know_it() -> None:
    found = finding(check, vllm="0.11.0", **ASKED)
    assert found.severity is Severity.WARNING and "does not know it" in found.message
    assert judged(check, vllm="0.11.1", **ASKED).outcome is Outcome.PASS


def test_a_backend_must_be_named_in_two_releases() -> None:
    found = finding(check, vllm="0.12.0", **ASKED)
    assert found.fixes[0].edits[0].option == "env.VLLM_ATTENTION_BACKEND"
    assert quiet(check, vllm="0.12.0", **ASKED, env__VLLM_ATTENTION_BACKEND="FLASH_ATTN")
    assert quiet(check, vllm="0.14.0", **ASKED)


def test_a_backend_that_is_refused() -> None:
    found = finding(check, vllm="0.17.0", **ASKED, engine__attention_backend="FLASHINFER")
    assert "the backend FLASHINFER" in found.message
    assert found.fixes[0].edits[0].option == "engine.attention_backend"
    assert quiet(check, vllm="0.14.0", **ASKED, engine__attention_backend="FLASHINFER")


def test_fused_all_reduce_over_tensor_parallel_ranks() -> None:
    # https://github.com/vllm-project/vllm/issues/51290
    assert "fuses all-reduce" in finding(check, vllm="0.20.0", **ASKED, engine__tensor_parallel_size=2).message
    assert quiet(check, vllm="0.30.0", **ASKED, engine__tensor_parallel_size=2)
    assert quiet(check, vllm="0.20.0", **ASKED, engine__tensor_parallel_size=1)


def test_who_does_not_ask_gets_no_answer() -> None:
    assert judged(check, vllm="0.10.0").findings == ()
    assert quiet(check, vllm="0.10.0", env__VLLM_BATCH_INVARIANT="0")


def test_a_fusion_that_the_launch_leaves_out_is_none() -> None:
    left_out = {"pass_config": {"fuse_allreduce_rms": False}}
    more: dict[str, Any] = {"engine__tensor_parallel_size": 2, "engine__compilation_config": left_out}
    assert quiet(check, vllm="0.20.0", **ASKED, **more)


def test_vllms_refusal_in_a_log() -> None:
    text = "VLLM batch_invariant mode requires an attention backend in ['FLASH_ATTN'], but got 'None'. Please set"
    assert "refuses the attention backend None" in logged(check, raised("RuntimeError", text)).message


def test_a_test_that_fails() -> None:
    # https://github.com/vllm-project/vllm/pull/45683
    text = "[FAIL] Prompt 2 Step 0: Bitwise mismatch (abs diff=5.671501e-02)\n"
    assert "differ by 0.0567" in logged(check, text).message
    assert findings(check, "Comparing BS=1 vs BS=N\nall equal\n") == []
