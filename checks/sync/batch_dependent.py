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
    Grade,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.engine import release

from ..observed.agreement import alone_is_wrong, between, in_batch, noise_of, prompts_agree
from ..observed.answers import require_own
from ..observed.rollout import describe, records, require, runs
from ..observed.traces import decided_by_chunks

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


@check.observed(needs=["observations.agreement"])
def alone_and_among_others(case: Case) -> Iterator[Finding | Reach]:
    """One greedy request, twice, in batches of other sizes."""
    require_own(case)
    demanded = case.plan is not None and str(case.plan.value(SWITCH, "0")) == "1"
    for job in runs(case, "agreement"):
        found = in_batch(job)
        if decided_by_chunks(case):
            raise NotApplicable("an engine that prefills whole prompts agrees with transformers (RLD201)")
        if alone_is_wrong(job):
            raise NotApplicable("engine and transformers differ on a request that is alone (RLD403)")
        reported, apart, equal = require(job, "greedy"), found.apart, found.equal
        said = f"alone and among {reported['batch'] - 1}: log-probabilities up to {apart.largest:.2g} apart" + (
            "" if equal else f", another token after {found.same} equal ones"
        )
        evidence = (Evidence(text=said, source="agreement probe"),)
        if found.beyond:
            yield check.finding(
                f"a greedy request to {describe(job)} is answered otherwise among {reported['batch'] - 1} others than "
                "alone, by more than rounding",
                grade=Grade.OBSERVED,
                evidence=evidence,
                fixes=(Fix(title="another attention backend or another release of vLLM"),),
            )
        elif demanded and (not equal or apart.largest > 0):
            if records(job).get("engine", {}).get("device") == "cpu":
                raise NotChecked("batch invariance is asked for, and the CPU's kernels say nothing of a GPU's")
            yield check.finding(
                f"batch invariance is asked for, and {describe(job)} answers a greedy request otherwise in a batch",
                grade=Grade.REPRODUCED,
                evidence=(*cite(plan_of(case), SWITCH, BACKEND, BACKEND_VARIABLE), *evidence),
                fixes=(
                    Fix.safe("name a backend that supports it", {BACKEND: "FLASH_ATTN"}),
                    Fix(title="a later vLLM covers more kernels", commands=("pip install --upgrade vllm",)),
                ),
            )
        yield Reach(said)


@check.observed(needs=["observations.agreement"])
def in_a_crowd(case: Case) -> Iterator[Finding | Reach]:
    """Every request of a larger batch against the trainer, who is right on those of smaller ones."""
    require_own(case)
    for job in runs(case, "agreement"):
        rows, noise = records(job).get("crowd"), noise_of(job)
        if not rows:
            raise NotChecked("no larger batch was compared with the trainer")
        fewer = [*require(job, "plain"), *records(job).get("cached", ())]
        wrong = between(fewer, "engine", "trainer").beyond(noise) or in_batch(job).beyond or alone_is_wrong(job)
        if wrong or not prompts_agree(job) or decided_by_chunks(case):
            raise NotApplicable("engine and trainer differ in smaller batches already")
        apart = between(rows, "engine", "trainer")
        if apart.beyond(noise):
            off = [row["request"] for row in rows if between([row], "engine", "trainer").largest > noise.largest]
            yield check.finding(
                f"{len(off) or 'some'} of {len(rows)} requests of one batch to {describe(job)} are answered otherwise "
                "than the trainer would, and in smaller batches none is",
                grade=Grade.OBSERVED,
                evidence=(
                    Evidence(text=f"in the larger batch: {apart}", source="agreement probe"),
                    *([Evidence(text=f"requests: {', '.join(off[:8])}", source="agreement probe")] if off else []),
                ),
                fixes=(Fix(title="another attention backend or another release of vLLM"),),
            )
        yield Reach(f"all {len(rows)} requests of one batch: {apart}")


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
