"""The engine's log-probabilities and the trainer's differ beyond the expected noise.

What it looks for
    In a running engine: log-probabilities of sampled tokens against those of the same model, in the same precision, in
    transformers, and on a GPU once more in float32, which hides less; what the engine tells while it decodes against
    what it tells of the same tokens in a prompt; and what the framework's own trainer, built as a run builds it, makes
    of the same tokens (TRL, verl, OpenRLHF).
    In a log: log-probabilities of engine and trainer that differ in length where the loss compares them. In the logged
    metrics, as the median of the last twenty steps: TRL's ``sampling/sampling_logp_difference/mean``,
    SkyRL's ``rollout_train_logprobs_abs_diff_mean``, verl's ``rollout_probs_diff_mean`` and
    ``rollout_actor_probs_pearson_corr``, NeMo-RL's ``token_mult_prob_error``, and the KL divergence between rollout
    and training policy (verl ``rollout_corr/kl``, ms-swift ``rollout_correction/kl``, NeMo-RL ``gen_kl_error``,
    OpenRLHF ``vllm_kl``).

Why it hurts
    The completions come from another policy than the one that is trained. Importance ratios are biased or masked, the
    gradient is wrong or small, and runs collapse after some hundred steps.

How sure it is
    The bounds are the frameworks' own where they state one. Noise between two engines with the same weights in
    bfloat16 is about 0.01 per token, and spikes pass: the median over at least three steps is asked, fewer steps only
    where the difference is ten times the bound or so (stale weights, another temperature, a wrong model). Sampling
    with top_p, top_k or min_p biases TRL's difference by the mass that is cut off. Running engines are judged by mean
    and largest difference, by precision: for miniatures in bfloat16 0.12 and 0.5, for real models 0.1 and 1 (sources
    in ``observed/agreement.py``).

    ============================== ======= ====== ==================================================================
    metric                         warning error  bound from
    ============================== ======= ====== ==================================================================
    log-probability difference     0.1     0.5    ten times the 0.012 of https://github.com/huggingface/trl/issues/4772
    probability difference         0.01    0.1    https://github.com/verl-project/verl/blob/main/docs/faq/faq.rst
    correlation of probabilities   0.95    0.7    https://arxiv.org/abs/2506.13585 (0.9x wrong, 0.99x mended)
    multiplicative error           1.05    2      https://github.com/NVIDIA-NeMo/RL/blob/main/docs/guides/dtensor-tp-accuracy.md
    KL, rollout to training        0.1     1      https://github.com/verl-project/verl/blob/main/docs/algo/rollout_corr.md
    ============================== ======= ====== ==================================================================

The fix and its cost
    First see that engine and trainer hold the same weights and settings: weight sync after every update, prefix cache
    reset, one temperature on both sides, log-probabilities after sampling changes (``logprobs_mode``), no quantized
    engine weights or KV cache. Then the kernels: cascade attention off on vLLM 0.10.2 and older, a float32 head,
    eager mode. What is left is noise, which importance sampling corrects.

References
    https://github.com/vllm-project/vllm/issues/22103
    https://github.com/NVIDIA-NeMo/RL/issues/2100
    https://github.com/OpenRLHF/OpenRLHF/issues/1108
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from rldoctor.api import (
    Case,
    Check,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    Threshold,
    cite,
    dataclass,
)

from ..observed.agreement import (
    EXACT,
    apart_from_trainer,
    between,
    decided_by_the_batch,
    difference,
    grade_of,
    lengths,
    masked,
    noise_of,
    power_of,
    prompts_agree,
)
from ..observed.answers import require_own
from ..observed.rollout import Job, describe, records, require, runs
from ..observed.traces import against_trainer, decided_by_chunks
from ..observed.trends import DIFFERENCE, FEWEST, Run, finite, leaves_the_trainer, tail

check = Check("RLD403", "logprob-mismatch", __doc__)

RECENT = 20


@dataclass(frozen=True)
class _Bound:
    """A metric, what it should be without any difference, and how far from there it is suspicious and wrong."""

    name: str
    ideal: float
    warning: Threshold
    error: Threshold
    what: str


def _bound(name: str, setting: str, ideal: float, warning: float, error: float, what: str) -> _Bound:
    says = what.partition(" {value")[0] + ("" if ideal == 0 else f", as the distance from {ideal:g}")
    return _Bound(
        name,
        ideal,
        check.threshold(setting, warning, f"{says}: a warning"),
        check.threshold(f"{setting}-error", error, f"{says}: an error"),
        what,
    )


BOUNDS = (
    _bound(
        *(DIFFERENCE, "logp-difference", 0.0, 0.1, 0.5),
        "token log-probabilities differ by {value:.3g} on average",
    ),
    _bound(
        *("sampling_prob_difference_mean", "prob-difference", 0.0, 0.01, 0.1),
        "token probabilities differ by {value:.3g} on average",
    ),
    _bound(
        *("sampling_prob_correlation", "prob-correlation", 1.0, 0.05, 0.3),
        "token probabilities correlate with {value:.3g} only",
    ),
    _bound(
        *("sampling_prob_error", "prob-factor", 1.0, 0.05, 1.0),
        "token probabilities differ by a factor of {value:.4g} on average",
    ),
    _bound(
        *("sampling_kl", "kl", 0.0, 0.1, 1.0),
        "the KL divergence between rollout and training policy is {value:.3g}",
    ),
)


@check.observed(needs=["metrics"])
def engine_and_trainer(case: Case) -> Iterator[Finding | Reach]:
    """Every logged measure of the difference against its bound."""
    run = Run.of(case)
    if leaves_the_trainer(run):
        raise NotApplicable("the difference grows with every step: the engine keeps old weights (RLD402)")
    logged = [bound for bound in BOUNDS if finite(run.at(bound.name))]
    if not logged:
        raise NotApplicable("no difference between the engine's and the trainer's log-probabilities is logged")
    beyond = [(bound, severity) for bound in logged if (severity := _severity(run, bound)) is not None]
    if not beyond:
        yield Reach(", ".join(f"{run.metrics[b.name].key} {_recent(run, b):.4g}" for b in logged))
        return
    start = min(_since(run, bound) for bound, _ in beyond)
    last = max(max(run.at(bound.name)) for bound, _ in beyond)
    names = (*(bound.name for bound, _ in beyond), "importance_ratio_mean", "reward")
    yield check.finding(
        "; ".join(bound.what.format(value=_recent(run, bound)) for bound, _ in beyond)
        + f", since step {start}: what the engine samples from is not what is trained",
        severity=min((severity for _, severity in beyond), key=list(Severity).index),
        grade=Grade.OBSERVED,
        evidence=run.evidences((start, last), *names),
        fixes=tuple(_remedies()),
    )


def _recent(run: Run, bound: _Bound) -> float:
    return tail(run.at(bound.name), RECENT)


def _severity(run: Run, bound: _Bound) -> Severity | None:
    distance = abs(_recent(run, bound) - bound.ideal)
    if distance >= bound.error.of(run.case):
        return Severity.ERROR
    if distance < bound.warning.of(run.case):
        return None
    return Severity.WARNING if len(finite(run.at(bound.name))) >= FEWEST else Severity.NOTE


def _since(run: Run, bound: _Bound) -> int:
    """The first step of the last stretch that is beyond the bound, single steps inside it forgiven."""
    values, warning = finite(run.at(bound.name)), bound.warning.of(run.case)
    steps = sorted(values)
    distances = [abs(values[step] - bound.ideal) for step in steps]
    start = len(steps) - 1
    for index in range(len(steps) - 1, -1, -1):
        if median(distances[index : index + FEWEST]) < warning:
            break
        start = index
    return next(step for step, distance in zip(steps[start:], distances[start:], strict=True) if distance >= warning)


def _remedies() -> Iterator[Fix]:
    yield Fix(
        title="sample and score with one temperature, and let the engine report log-probabilities as they are after "
        "temperature and truncation",
        edits=(
            Edit(option="sampling.temperature", value=1.0),
            Edit(option="engine.logprobs_mode", value="processed_logprobs"),
        ),
        valid_for="vllm>=0.11.0",
    )
    yield Fix(
        title="see that every update reaches the engine: compare both sides' log-probabilities before and after one",
        commands=("rldoctor check --level compare",),
    )
    yield Fix(
        title="turn cascade attention off",
        edits=(Edit(option="engine.disable_cascade_attn", value=True),),
        valid_for="vllm>=0.8,<0.11",
        side_effects="slower decoding of long shared prefixes",
    )
    yield Fix(
        title="keep the engine's weights and KV cache unquantized and in the trainer's precision, and correct the rest "
        "by importance sampling (vllm_importance_sampling_correction in TRL, algorithm.rollout_correction in verl)",
    )


@check.observed(needs=["observations.agreement"])
def engine_and_transformers(case: Case) -> Iterator[Finding | Reach]:
    """The same tokens, the same weights, the same precision: the running engine against transformers."""
    for job in _reported(case):
        rows, trainer = require(job, "plain"), require(job, "trainer")
        apart = between(rows, "engine", "trainer")
        if not apart.beyond(noise_of(job)):
            power = power_of(job, noise_of(job))
            yield Reach(f"{describe(job)} and transformers: {apart}, {lengths(case, job)}{power and '; '}{power}")
            continue
        if not between(rows, "prefill", "trainer").beyond(noise_of(job)):
            raise NotApplicable("the engine's prefill agrees with transformers: its decoding is at fault")
        yield _computes_otherwise(
            f"{describe(job)} and transformers give the same tokens other log-probabilities with the same weights in "
            f"{trainer['dtype']}: {apart.mean:.2g} apart on average",
            case,
            job,
            f"engine against transformers ({trainer['attention']}, {trainer['device']}): {apart}",
        )


@check.observed(needs=["observations.agreement"])
def across_the_vocabulary(case: Case) -> Iterator[Finding | Reach]:
    """Tokens that are hardly ever sampled: each in a prompt, the running engine against transformers."""
    for job in _reported(case):
        reported, trainer = require(job, "vocabulary"), require(job, "trainer")
        if between(require(job, "plain"), "engine", "trainer").beyond(noise_of(job)):
            raise NotApplicable("engine and transformers disagree on sampled tokens already")
        apart = difference(reported["engine"], reported["trainer"])
        if not apart.beyond(noise_of(job)):
            yield _seen(job, f"a prompt of {apart.tokens} tokens from the whole vocabulary: {apart}")
            continue
        steps = [abs(a - b) for a, b in zip(reported["engine"], reported["trainer"], strict=True)]
        off = sum(step > noise_of(job).largest for step in steps)
        worst = reported["token_ids"][1 + steps.index(max(steps))]
        where = (
            f"on the tokens that it samples and differ on those of a prompt, on {off} of {len(steps)}"
            if off > len(steps) / 2
            else f"on likely tokens and differ on others, most on token {worst}"
        )
        yield _computes_otherwise(
            f"{describe(job)} and transformers agree {where}: "
            f"{apart.largest:.2g} apart with the same weights in {trainer['dtype']}",
            case,
            job,
            f"a prompt of {apart.tokens} tokens from the whole vocabulary: {apart}",
        )


@check.observed(needs=["observations.agreement", "observations.exact"])
def in_float32(case: Case) -> Iterator[Finding | Reach]:
    """The comparisons with transformers once more, where the precision of the launch would hide a small defect."""
    # What goes before a comparison in the launch's own precision goes before this one.
    if any(map(_apart, _reported(case))):
        raise NotApplicable("engine and transformers disagree in the launch's own precision already")
    for job in runs(case, "exact"):
        require(job, "trainer")
        noise, across, cached = noise_of(job), require(job, "vocabulary"), records(job).get("cached")
        compared = {
            "the tokens that it samples": between(require(job, "plain"), "engine", "trainer"),
            "a prompt of tokens from the whole vocabulary": difference(across["engine"], across["trainer"]),
        }
        if cached:
            compared["prompts that begin as earlier ones do"] = between(cached, "engine", "trainer")
        wrong = next(((what, apart) for what, apart in compared.items() if apart.beyond(noise)), None)
        if wrong is None:
            apart, power = compared["the tokens that it samples"], power_of(job, noise)
            yield Reach(f"in float32, which hides less, {apart}{power and '; '}{power}")
            continue
        what, apart = wrong
        yield _computes_otherwise(
            f"{describe(job)} and transformers differ in float32 on {what}: {apart.mean:.2g} apart on average; the "
            "launch's own precision hides it",
            case,
            job,
            f"engine against transformers in float32: {apart}",
        )


def _apart(job: Job) -> bool:
    """Whether the engine disagrees with transformers, or with itself, in any of the comparisons above and below."""
    compared = [between(require(job, "plain"), "engine", "prefill")]
    if records(job).get("cached"):
        compared.append(between(records(job)["cached"], "engine", "trainer"))
    own = any(apart.beyond(noise_of(job)) for apart in compared)
    return own or apart_from_trainer(job) or not prompts_agree(job)


@check.observed(needs=["observations.agreement"])
def decode_and_prefill(case: Case) -> Iterator[Finding | Reach]:
    """The same tokens in one engine: sampled, and read in a prompt."""
    for job in _reported(case):
        rows = require(job, "plain")
        if "trainer" in rows[0] and between(rows, "prefill", "trainer").beyond(noise_of(job)):
            if between(rows, "engine", "trainer").beyond(noise_of(job)):
                raise NotApplicable("engine and transformers differ in a prompt already")
            if not prompts_agree(job):
                raise NotApplicable("engine and transformers disagree on tokens of a new prompt already")
        apart = between(rows, "engine", "prefill")
        if not apart.beyond(noise_of(job)):
            yield _seen(job, f"decode and prefill: {apart}")
            continue
        yield _computes_otherwise(
            f"{describe(job)} gives tokens that it decodes other log-probabilities than the same tokens in a prompt: "
            f"{apart.mean:.2g} apart on average",
            case,
            job,
            f"decode against prefill: {apart}",
        )


@check.observed(needs=["observations.agreement"])
def from_cached_prefixes(case: Case) -> Iterator[Finding | Reach]:
    """Prompts that the engine has computed before, in whole or in part, against transformers."""
    for job in _reported(case):
        rows = records(job).get("cached")
        if not rows:
            raise NotApplicable("no prompt that is longer than a block of the KV cache was asked for again")
        if between(require(job, "plain"), "engine", "trainer").beyond(noise_of(job)):
            raise NotApplicable("engine and transformers disagree on new prompts already")
        if not prompts_agree(job):
            raise NotApplicable("engine and transformers disagree on tokens of a new prompt already")
        apart = {row["request"]: between([row], "engine", "trainer") for row in rows}
        wrong = {name: one for name, one in apart.items() if one.beyond(noise_of(job))}
        if not wrong:
            yield _seen(job, f"{len(rows)} prompts that begin as earlier ones do agree with transformers")
            continue
        name, worst = next(iter(wrong.items()))
        yield _computes_otherwise(
            f"{describe(job)} continues prompts that begin as earlier ones do with other log-probabilities than "
            f"transformers: {worst.mean:.2g} apart on average; its prefix cache is at fault",
            case,
            job,
            f"earlier prompt, {name}: {worst}",
        )


@check.observed(needs=["observations.trainer_code"])
def trainers_own_code(case: Case) -> Iterator[Finding | Reach]:
    """What the framework's own trainer makes of sampled tokens, against transformers with the same weights."""
    for job in runs(case, "trainer_code"):
        rows, own = require(job, "rows"), require(job, "own")
        # The trainer's side is float32 on the CPU in both.
        apart = between(rows, "transformers", "own")
        if not apart.beyond(EXACT):
            yield Reach(f"{own['what']} at temperature {own['temperature']} and transformers: {apart}")
            continue
        yield check.finding(
            f"{own['what']} gives sampled tokens other log-probabilities than transformers with the same weights at "
            f"temperature {own['temperature']}: {apart.mean:.2g} apart on average",
            grade=Grade.REPRODUCED,
            evidence=(
                *(cite(case.plan, "trainer.temperature", "sampling.temperature") if case.plan else ()),
                Evidence(text=f"transformers against {own['title']}: {apart}", source="trainer_code scenario"),
            ),
            fixes=(
                Fix(
                    title=f"releases of {own['title']} and transformers that fit together",
                    commands=("rldoctor compat",),
                ),
                Fix(title="where the trainer is a subclass or patched: look at what it does to logits before the loss"),
            ),
        )


@check.observed(needs=["observations.chunked_prefill"])
def under_pressure(case: Case) -> Iterator[Finding | Reach]:
    """Requests that share steps, overflow the cache and lose their place in it, against transformers."""
    if any(apart_from_trainer(job) for job in case.observations.get("agreement", {}).values()):
        raise NotApplicable("engine and transformers disagree without pressure already")
    by_run = {name: job for name, job in case.observations["chunked_prefill"].items() if "trainer" in records(job)}
    apart = {name: against_trainer(job) for name, job in by_run.items()}
    wrong = {name: found for name, found in apart.items() if found.wrong}
    if not apart:
        raise NotApplicable("the trainer's model was not run beside this traffic")
    if len(wrong) < len(apart):
        if wrong:
            raise NotApplicable("only one of two engines is wrong: it is their difference (RLD201)")
        lost = {name: require(by_run[name], "trace").get("preemptions") for name in apart}
        if None in lost.values():
            raise NotChecked("how many requests lost their place in the KV cache was not recorded")
        if set(lost.values()) == {0}:
            raise NotChecked("no request lost its place in the KV cache: what comes back to it was not reached")
        for name, found in apart.items():
            yield Reach(f"{found.requests} requests under pressure, {lost[name]} preemptions: {found.all}")
        return
    found, job = next(iter(wrong.values())), by_run[next(iter(wrong))]
    preempted = require(job, "trace").get("preemptions")
    yield _computes_otherwise(
        f"{describe(job)} gives {len(found.wrong)} of {found.requests} requests other log-probabilities than "
        f"transformers where they overflow the KV cache: {found.worst.mean:.2g} apart on average ({preempted} "
        "preemptions)",
        case,
        job,
        f"{next(iter(found.wrong))}: {found.worst}",
    )


def _seen(job: Job, what: str) -> Reach:
    """A pass. Raises :class:`NotChecked` where a difference that matters would not have shown."""
    power_of(job, noise_of(job))
    return Reach(what)


def _reported(case: Case) -> Iterator[Job]:
    require_own(case)
    if decided_by_chunks(case):
        raise NotApplicable("an engine that prefills whole prompts agrees with transformers (RLD201)")
    for job in runs(case, "agreement"):
        mode = records(job).get("engine", {}).get("logprobs_mode")
        if str(mode).endswith("logits"):
            raise NotApplicable(f"the engine tells logits (logprobs_mode {mode}, RLD213)")
        if "vocabulary" in records(job) and masked(job):
            raise NotApplicable("the engine masks tokens, which makes the others likelier (RLD404)")
        if decided_by_the_batch(job):
            raise NotApplicable("a request that is alone agrees with transformers: the others in its batch decide")
        yield job


def _computes_otherwise(message: str, case: Case, job: Job, numbers: str) -> Finding:
    fixes = tuple(_engine_remedies(case, job))
    plan = case.plan
    return check.finding(
        message,
        grade=grade_of(case, fixes),
        evidence=(
            Evidence(text=numbers, source="agreement probe"),
            *(cite(plan, *(edit.option for fix in fixes for edit in fix.edits)) if plan is not None else ()),
        ),
        fixes=fixes,
        url="https://github.com/vllm-project/vllm/issues/22103",
    )


def _engine_remedies(case: Case, job: Job) -> Iterator[Fix]:
    """One at a time, what the engine runs with first."""
    engine = records(job).get("engine", {})
    if str(engine.get("kv_cache_dtype")).startswith("fp8"):
        yield Fix.safe(
            "keep the KV cache in the model's precision",
            {"engine.kv_cache_dtype": "auto"},
            side_effects="half as many cached tokens",
        )
    # What the launch asks for is not carried over to every device and precision.
    if records(job).get("asked", {}).get("attention_backend"):
        yield Fix.safe("let vLLM choose the attention backend", {"engine.attention_backend": None})
    if engine.get("enforce_eager") is False:
        yield Fix.unsafe(
            "run without CUDA graphs and compilation", {"engine.enforce_eager": True}, side_effects="slower decoding"
        )
    yield Fix(
        title="releases of vLLM and transformers that go together: the weights are the same, so one of the two "
        "computes this architecture otherwise",
        commands=("rldoctor compat",),
    )


# TRL's importance sampling correction where a patched trainer recomputes other tokens than were sampled.
check.signature(
    "sampling_per_token_logps",
    pattern=r"size of tensor a \((?P<one>\d+)\) must match the size of tensor b \((?P<other>\d+)\)",
    says="the engine's log-probabilities are of {other} tokens and the trainer's of {one}: they cannot be compared",
    fixes=(
        Fix.unsafe(
            "leave the correction out until both sides keep the same tokens",
            {"rollout.importance_correction": False},
            side_effects="the difference between engine and trainer is not corrected",
        ),
        Fix(title="or the trainer as TRL has it, without patches of its log-probabilities"),
    ),
    url="https://github.com/huggingface/trl/issues/4205",
)
