"""The same request gives different results in another batch.

What it looks for
    Batch invariance that is asked for and not given: a vLLM that does not know the variable, an attention backend that
    it refuses, a release in which tensor parallel engines are not covered. In a running engine: a greedy request alone
    against the same request among fifteen others. In a log: vLLM's refusal, and tests that
    compare a request alone with the same request among others.

Why it hurts
    Kernels split their sums by the shape of the batch, so the last bits differ. Where sampling is meant to be
    reproducible, or engine and trainer to agree bit by bit, what depends on it fails: evaluations waver, exact
    on-policy training is off-policy.

How sure it is
    Versions and backends are the tests in vLLM's own source. Without a demand for batch invariance a difference within
    rounding is normal and nothing is reported; another token counts as rounding where the two best were as close.
    Beyond rounding (``observed/agreement.py``) requests reach into each other, whatever was asked for. What the CPU's
    kernels do says nothing of a GPU's.

The fix and its cost
    ``VLLM_BATCH_INVARIANT=1`` with a release and a backend that support it. It costs speed, up to half.

References
    ``vllm/model_executor/layers/batch_invariant.py`` 0.11.1 to 0.20.0, ``vllm/config/vllm.py`` 0.17.0, 0.28.0, 0.30.0
    (``enable_allreduce_rms_fusion``); https://github.com/vllm-project/vllm/issues/51290
    https://github.com/vllm-project/vllm/pull/45683; https://docs.vllm.ai/en/latest/features/batch_invariance.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Edit,
    Evidence,
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.engine import release

check = Check("RLD405", "outputs-batch-dependent", __doc__)
SWITCH = "env.VLLM_BATCH_INVARIANT"
BACKEND, BACKEND_VARIABLE = "engine.attention_backend", "env.VLLM_ATTENTION_BACKEND"
TENSOR = "engine.tensor_parallel_size"
COMPILATION = "engine.compilation_config"
KNOWN_FROM = (0, 11, 1)
# Between these the backend must be named by its variable, or vLLM refuses.
MUST_BE_NAMED = ((0, 12), (0, 14))
# FlashInfer is no longer taken from here on.
WITHOUT_FLASHINFER = (0, 17)
TAKEN = ("FLASH_ATTN", "FLASHINFER", "FLASH_ATTN_MLA", "TRITON_MLA", "TRITON_ATTN", "FLASHINFER_MLA")
# All-reduce is fused with the norm for tensor parallel engines on Hopper and Blackwell, whatever is asked.
FUSED = ((0, 17), (0, 29))


@check.declared(needs=["plan", "packages.vllm"])
def asked_and_not_given(case: Case) -> Iterator[Finding | Reach]:
    """The demand against the release."""
    plan = plan_of(case)
    if str(plan.value(SWITCH, "0")) != "1":
        raise NotApplicable("batch invariance is not asked for")
    version = release(case)
    if version is None:
        raise NotChecked("the vLLM release is not known")
    reported = Evidence(text=f"vllm {'.'.join(map(str, version))}")
    if version < KNOWN_FROM:
        yield check.finding(
            "VLLM_BATCH_INVARIANT=1 is asked of a vLLM that does not know it: outputs depend on the batch",
            severity=Severity.WARNING,
            evidence=(*cite(plan, SWITCH), reported),
            fixes=(Fix(title="vLLM 0.11.1 and later know it", commands=('pip install "vllm>=0.11.1"',)),),
        )
        return
    refused = _refused_backend(plan, version)
    if refused is not None:
        yield check.finding(
            f"batch invariance is asked for, and this vLLM refuses {refused}",
            evidence=(*cite(plan, SWITCH, BACKEND, BACKEND_VARIABLE), reported),
            fixes=(
                Fix(
                    title="name a backend that supports it",
                    applicability=Applicability.SAFE,
                    edits=(
                        Edit(option=BACKEND_VARIABLE, value="FLASH_ATTN")
                        if version < (0, 14) or plan.value(BACKEND) is None
                        else Edit(option=BACKEND, value="FLASH_ATTN"),
                    ),
                ),
            ),
        )
    if FUSED[0] <= version < FUSED[1] and plan.value(TENSOR, 1) > 1 and not _fusion_left_out(plan):
        yield check.finding(
            f"batch invariance is asked for, and this vLLM fuses all-reduce and norm over {plan.value(TENSOR)} tensor "
            "parallel ranks, which is not deterministic (Hopper and Blackwell, with flashinfer)",
            severity=Severity.WARNING,
            evidence=(*cite(plan, SWITCH, TENSOR), reported),
            fixes=(
                Fix(title="vLLM 0.30 and later leave the fusion out", commands=('pip install "vllm>=0.30"',)),
                Fix.unsafe(
                    "leave it out by hand",
                    {COMPILATION: {"pass_config": {"fuse_allreduce_rms": False}}},
                    side_effects="replaces other compilation settings",
                ),
            ),
            url="https://github.com/vllm-project/vllm/issues/51290",
        )
    yield Reach("this vLLM knows VLLM_BATCH_INVARIANT")


def _fusion_left_out(plan: RolloutPlan) -> bool:
    """Whether the launch itself switches the fusion off (vLLM's ``PassConfig.fuse_allreduce_rms``)."""
    config = plan.value(COMPILATION)
    passes = config.get("pass_config") if isinstance(config, Mapping) else None
    return isinstance(passes, Mapping) and passes.get("fuse_allreduce_rms") is False


def _refused_backend(plan: RolloutPlan, version: tuple[int, ...]) -> str | None:
    """What vLLM says of the attention backend: its name, or that none is named; None where it takes it."""
    named = plan.value(BACKEND) or plan.value(BACKEND_VARIABLE)
    if named is None:
        return (
            "an automatic choice of the attention backend" if MUST_BE_NAMED[0] <= version < MUST_BE_NAMED[1] else None
        )
    name = str(named).upper()
    if version < MUST_BE_NAMED[0]:
        return None  # replaced without a word
    flashinfer = name == "FLASHINFER" and version >= WITHOUT_FLASHINFER
    return f"the backend {name}" if name not in TAKEN or flashinfer else None
