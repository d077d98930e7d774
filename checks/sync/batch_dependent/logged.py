"""The refusal of vLLM and its own test, in a log."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent

from . import BACKEND_VARIABLE, SWITCH, check

# ``override_envs_for_invariance``, 0.12.0 on.
check.signature(
    "batch_invariant mode requires an attention backend in ",
    details=(r"but got '?(?P<backend>\w+)'?",),
    says="batch invariance is asked for, and vLLM refuses the attention backend[[ {backend}]]",
    fixes=(Fix.safe("name one that supports it", {BACKEND_VARIABLE: "FLASH_ATTN"}),),
)


@check.logged("Bitwise mismatch (abs diff=", "Comparing BS=1 vs BS=N", silent=True)
def test_fails(case: Case, event: LogEvent) -> Iterator[Finding]:
    """vLLM's own test of batch invariance, and those written after it."""
    found = event.search(r"Bitwise mismatch \(abs diff=([\d.e+-]+)\)")
    if found is None:
        return
    yield check.finding(
        f"a request alone and the same request in a batch differ by {float(found[1]):.3g}",
        fixes=(
            Fix.unsafe(
                "ask for batch invariance, in a release that covers this model (MoE and tensor parallel came later)",
                {SWITCH: "1"},
                side_effects="slower kernels",
            ),
            Fix(title="vLLM 0.30 and later cover fused all-reduce", commands=('pip install "vllm>=0.30"',)),
        ),
        url="https://github.com/vllm-project/vllm/pull/45683",
    )
