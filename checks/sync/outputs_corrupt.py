"""The engine's outputs are corrupt: log-probabilities that are no numbers, or one token over and over.

What it looks for
    In a real rollout on a miniature model: log-probabilities of sampled tokens that are NaN or infinite, and sampled
    completions that consist of one and the same token although the engine's own log-probabilities make that
    impossible; log-probabilities of requests that compete for the KV cache; and draws that do not follow the
    distribution of the model (a G-test for each sampling parameter, and sums over long completions; both together
    give a healthy engine a false alarm in at most one of a million runs); texts, ends and spellings that are not those
    of the tokens. In a log: torch's refusal to sample from probabilities that are no numbers.

Why it hurts
    Rewards and ratios are computed from garbage; typical are completions of ``!!!!`` (token 0), which is what sampling
    gives when all logits are NaN. Training goes on, and what it learns is lost.

How sure it is
    A NaN is a NaN: the miniature's weights are finite, so kernels, precision or memory made it. A repeated token is
    reported only where its probability, by the engine's own numbers, is below one in a thousand million.

The fix and its cost
    Another attention backend, eager execution, bfloat16 instead of float16, another release of vLLM: one at a time.
    Each costs speed or an installation, none costs quality.

References
    https://github.com/vllm-project/vllm/issues?q=nan+logits
    https://docs.vllm.ai/en/latest/configuration/env_vars.html (VLLM_COMPUTE_NANS_IN_LOGITS)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rldoctor.api import Case, Check, Edit, Evidence, Finding, Fix, Grade, NotApplicable, Reach, Severity

from ..observed import answers
from ..observed.agreement import masked
from ..observed.draws import Kind, judged, mixed, power, sampled
from ..observed.known_defects import fixes_here
from ..observed.rollout import (
    NEVER,
    Completion,
    Job,
    completions,
    describe,
    groups,
    log_probability,
    one_cause,
    records,
    repeats_one_token,
    require,
    rollouts,
    runs,
)
from ..observed.soak import soaked, turned

check = Check("RLD404", "outputs-corrupt", __doc__)

SHOWN = 4


@check.observed(needs=["observations.rollout"])
@one_cause
def no_numbers(case: Case) -> Iterator[Finding | Reach]:
    """Log-probabilities that are NaN or infinite."""
    for job in rollouts(case).values():
        rows = completions(job)
        broken = [(row, place) for row in rows for place, value in enumerate(row["logprobs"]) if isinstance(value, str)]
        if broken:
            tokens = sum(len(row["token_ids"]) for row in rows)
            first, place = broken[0]
            where = f"{first['request']}, completion {first['index']}, token {place}"
            yield check.finding(
                f"{len(broken)} of {tokens} log-probabilities from {describe(job)} are no finite numbers",
                grade=Grade.OBSERVED,
                evidence=(
                    Evidence(text=f"{where}: {first['logprobs'][place]}", source="rollout probe"),
                    Evidence(text=f"token ids {first['token_ids'][:16]}", source="rollout probe"),
                ),
                fixes=_fixes(job),
            )
        reported = [value for row in rows for value in row["logprobs"]]
        yield Reach(f"{len(reported) - reported.count(None)} finite log-probabilities from {describe(job)}")


@check.observed(needs=["observations.soak"])
def turns(case: Case) -> Iterator[Finding | Reach]:
    """Requests that are the same every time are answered otherwise from some cycle on, with the same weights."""
    job, windows = soaked(case)
    turn = turned(job, windows)
    if turn is None:
        count = len(require(job, "first")["answers"])
        yield Reach(f"{count} fixed requests are answered alike through {windows[-1]['cycles']} cycles")
        return
    if turn.others or turn.unanswered:
        raise NotApplicable("requests get each other's answers, or none (RLD220)")
    name, (before, after) = next(iter(turn.answers.items()))
    yield check.finding(
        f"{describe(job)} answers requests otherwise after {turn.requests} requests, with the same weights "
        f"({', '.join(turn.answers)})",
        severity=Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=tuple(
            Evidence(text=f"{name}: {said} after {cycles} cycles", source="soak")
            for said, cycles in zip((before, after), turn.cycles, strict=True)
        ),
        fixes=_fixes(job),
    )


@check.observed(needs=["observations.chunked_prefill"])
@one_cause
def no_numbers_in_traffic(case: Case) -> Iterator[Finding | Reach]:
    """Log-probabilities that are NaN or infinite where prompts are cut into chunks, preempted or aborted."""
    for job in runs(case, "chunked_prefill"):
        answers = require(job, "trace")["answers"]
        wrong = [
            f"{name}: {value} at token {place} after {answer['prompt_tokens']} tokens"
            for name, answer in answers.items()
            for place, value in enumerate(answer["logprobs"])
            if isinstance(value, str)
        ]
        if wrong:
            chunked = records(job).get("engine", {}).get("enable_chunked_prefill")
            yield check.finding(
                f"{len(wrong)} log-probabilities under traffic are no finite numbers, chunked prefill "
                f"{'on' if chunked else 'off'} in {describe(job)}",
                grade=Grade.OBSERVED,
                evidence=tuple(Evidence(text=line, source="chunked_prefill scenario") for line in wrong[:SHOWN]),
                fixes=_fixes(job),
            )
        reported = sum(len(answer["logprobs"]) for answer in answers.values())
        yield Reach(f"{reported} finite log-probabilities under traffic from {describe(job)}")


@check.observed(needs=["observations.rollout"])
@one_cause
def one_token(case: Case) -> Iterator[Finding | Reach]:
    """All sampled completions repeat one token, against their own log-probabilities."""
    for job in rollouts(case).values():
        for request, rows in groups(job):
            if repeats_one_token(rows) and not _likely(rows):
                yield check.finding(
                    f"all {len(rows)} sampled completions from {describe(job)} repeat token {rows[0]['token_ids'][0]}",
                    grade=Grade.OBSERVED,
                    evidence=(
                        Evidence(text=f"{request}: {rows[0]['token_ids'][:16]}", source="rollout probe"),
                        Evidence(text=f"log-probabilities {rows[0]['logprobs'][:4]}", source="rollout probe"),
                    ),
                    fixes=_fixes(job),
                )
        yield Reach(f"completions from {describe(job)} vary")


@check.observed(needs=["observations.agreement"])
def masked_tokens(case: Case) -> Iterator[Finding | Reach]:
    """Ordinary tokens that the engine gives no probability, or no number, where the same weights give them one."""
    answers.require_own(case)
    for job in runs(case, "agreement"):
        reported = require(job, "vocabulary")
        without, asked = masked(job), len(set(reported["token_ids"][1:]))
        if without:
            yield check.finding(
                f"{describe(job)} gives {len(without)} of {asked} tokens of the vocabulary no finite "
                f"log-probability, token {without[0]} among them; transformers does with the same weights",
                grade=Grade.OBSERVED,
                evidence=(Evidence(text=f"token ids {without[:16]}", source="agreement scenario"),),
                fixes=(Fix(title="another release of vLLM, or no mask of tokens (allowed_token_ids, bad_words)"),),
            )
        yield Reach(f"{asked} tokens of the whole vocabulary have a finite log-probability")


@check.observed(needs=["observations.tokens"])
def text_of_the_tokens(case: Case) -> Iterator[Finding | Reach]:
    """The engine's text of a completion against the tokenizer's text of the same tokens."""
    for job in runs(case, "tokens"):
        reported = require(job, "texts")
        wrong = [row for row in reported if row["engine"] != row["tokenizer"]]
        if wrong:
            yield check.finding(
                f"{len(wrong)} of {len(reported)} texts from {describe(job)} are not those of their own tokens",
                grade=Grade.OBSERVED,
                evidence=(
                    Evidence(text=f"token ids {wrong[0]['token_ids'][:16]}", source="tokens scenario"),
                    Evidence(text=f"engine: {wrong[0]['engine'][:80]!r}", source="tokens scenario"),
                    Evidence(text=f"tokenizer: {wrong[0]['tokenizer'][:80]!r}", source="tokens scenario"),
                ),
                fixes=(
                    Fix(
                        title="decode the token ids in the trainer, or use releases of vLLM and transformers that fit",
                        commands=("rldoctor compat",),
                    ),
                ),
            )
        misspelt = [pair for row in reported for pair in row.get("misspelt", ())]
        if misspelt and not wrong:
            told, own = misspelt[0]
            yield check.finding(
                f"{describe(job)} calls {len(misspelt)} of its tokens otherwise beside their log-probability",
                grade=Grade.OBSERVED,
                evidence=(Evidence(text=f"{told[:40]!r}, which is {own[:40]!r}", source="tokens scenario"),),
                fixes=(Fix(title="another release of vLLM; until then tell tokens by their ids"),),
            )
        yield Reach(f"{len(reported)} texts from {describe(job)} are those of their tokens")


@check.observed(needs=["observations.answers"])
def ends_and_characters(case: Case) -> Iterator[Finding | Reach]:
    """Ends that the engine names wrongly, and characters that fall apart because their bytes come in several tokens."""
    for job in answers.judged(case):
        ends, torn = answers.wrong_ends(job), answers.torn_characters(job)
        if ends:
            first = ends[0]
            yield check.finding(
                f"{len(ends)} answers from {describe(job)} have ended otherwise than it says",
                grade=Grade.OBSERVED,
                evidence=(
                    Evidence(
                        text=f"{first['about']}: {len(first['got']['token_ids'])} tokens, {_end(first['got'])}, which "
                        f"is {_end(first['expected'])}",
                        source="answers scenario",
                    ),
                ),
                fixes=(Fix(title="another release of vLLM; until then tell ends by the last token"),),
            )
        if torn:
            yield check.finding(
                f"characters of several tokens are lost or doubled in {len(torn)} texts from {describe(job)}",
                grade=Grade.OBSERVED,
                evidence=(
                    Evidence(
                        text=f"{torn[0]['asked']!r}: {len(torn[0]['expected']['text'])} times in the tokens, "
                        f"{len(torn[0]['got']['text'])} times in the text",
                        source="answers scenario",
                    ),
                ),
                fixes=(Fix(title="decode the token ids in the trainer, or another release of vLLM"),),
            )
        yield Reach(f"ends and characters of {len(answers.rows(job))} answers from {describe(job)} are right")


def _end(answer: Mapping[str, Any]) -> str:
    at = f" at {answer['stop_reason']}" if answer.get("stop_reason") is not None else ""
    return f"finish reason {answer['finish_reason']}{at}" + ", not finished" * (answer.get("finished") is False)


@check.observed(needs=["observations.sampling"])
def another_distribution(case: Case) -> Iterator[Finding | Reach]:
    """Tokens that do not follow the probabilities that the model gives them."""
    for job in sampled(case):
        found = judged(job)
        # A parameter that is ignored is a pattern of its own (RLD219).
        wrong = [one for one in found if one.wrong and not one.ignored]
        if wrong:
            yield check.finding(
                f"{describe(job)} draws tokens from another distribution than the model's "
                f"({', '.join(dict.fromkeys(one.name for one in wrong))})",
                grade=Grade.OBSERVED,
                evidence=tuple(
                    Evidence(text=text, source="sampling scenario") for one in wrong for text in (str(one), one.worst)
                ),
                fixes=(Fix(title="another release of vLLM, or another sampler (VLLM_USE_FLASHINFER_SAMPLER=0)"),),
            )
        yield Reach(f"{sum(one.count for one in found)} draws from {describe(job)} fit the model; {power(job)}")


@check.observed(needs=["observations.mixed"])
def requests_that_differ(case: Case) -> Iterator[Finding | Reach]:
    """Requests of one batch that are not drawn by what they ask for, though each kind is when it is alone."""
    for job, kinds in mixed(case):
        wrong = [kind for kind in kinds if kind.wrong]
        short = require(job, "lengths")
        reported = [text for one in wrong[:SHOWN] for text in (str(one), one.worst)]
        if short:
            reported.append(f"{short} completions are not as long as max_tokens and ignore_eos ask for")
        imposed = records(job).get("imposed", {})  # older bundles have none
        if reported and not short and all(_is_imposed(kind, imposed.get(kind.name, ())) for kind in wrong):
            first = imposed[wrong[0].name][0]
            yield check.finding(
                f"in a batch of requests that differ {describe(job)} gives some the tokens that allowed_token_ids of "
                f"another allows ({', '.join(kind.name for kind in wrong)})",
                # Batches without that parameter are as they should be.
                severity=Severity.WARNING,
                grade=Grade.OBSERVED,
                evidence=(
                    *(Evidence(text=text, source="mixed scenario") for text in reported),
                    Evidence(
                        text=f"{first['request']}, completion {first['index']}: from token {first['place']} on nothing "
                        "but what another request is allowed",
                        source="mixed scenario",
                    ),
                ),
                fixes=fixes_here(
                    "vllm-allowed-tokens-of-another-row",
                    case,
                    "another release of vLLM; until then no allowed_token_ids beside other requests",
                ),
                url="https://github.com/vllm-project/vllm/pull/48419",
            )
        elif reported:
            yield check.finding(
                f"in a batch of requests that differ {describe(job)} does not answer each by its own parameters "
                f"({', '.join(kind.name for kind in wrong) or 'max_tokens'})",
                grade=Grade.OBSERVED,
                evidence=tuple(Evidence(text=text, source="mixed scenario") for text in reported),
                fixes=(Fix(title="another release of vLLM; until then requests of one kind in each batch"),),
            )
        count = records(job)["reach"]["requests"]
        yield Reach(f"{count} requests of {len(kinds)} kinds in one batch, each drawn by its own parameters")


def _is_imposed(kind: Kind, ends: Collection[Mapping[str, Any]]) -> bool:
    """Whether all tokens of a kind that are ruled out come where completions end in what another request is allowed."""
    return bool(ends) and all(
        any(end["request"] == one["request"] and end["place"] <= one["place"] for end in ends) for one in kind.outside
    )


def _likely(rows: list[Completion]) -> bool:
    reported = [log_probability(row) for row in rows]
    numbers = [value for value in reported if value is not None]
    return len(numbers) == len(reported) and sum(numbers) > NEVER


def _fixes(job: Job) -> tuple[Fix, ...]:
    engine = records(job).get("engine", {})
    fixes = [Fix(title=f"another attention backend than {engine.get('attention_backend')}")]
    if not engine.get("enforce_eager"):
        fixes.append(Fix(title="run without CUDA graphs", edits=(Edit(option="engine.enforce_eager", value=True),)))
    if engine.get("dtype") == "float16":
        fixes.append(
            Fix(
                title="bfloat16 has the range that float16 lacks",
                edits=(Edit(option="engine.dtype", value="bfloat16"),),
            )
        )
    fixes.append(Fix(title="another release of vLLM: the miniature's weights are finite, so the engine made this"))
    return tuple(fixes)


# `torch.multinomial` got NaN, infinity or a negative number: the logits were corrupt before.
check.signature(
    "probability tensor contains either",
    "Assertion `probability tensor contains",
    says="sampling met probabilities that are no numbers: the model's logits are NaN or infinite",
    fixes=(
        Fix.unsafe(
            "bfloat16 in place of float16, on both sides", {"trainer.dtype": "bfloat16", "engine.dtype": "bfloat16"}
        ),
        Fix(
            title="look at the steps before: loss and gradient norm that were NaN mean that training diverged first "
            "(a lower learning rate, gradient clipping)"
        ),
        Fix(title="left padding and an attention mask for batched prompts; the eager attention kernel to compare"),
    ),
)

# TRL keeps a log-probability that is no number as None, and makes a tensor of it.
check.signature(
    "Could not infer dtype of NoneType",
    exception=("RuntimeError", "TypeError"),
    pattern=r"torch\.tensor\([^\n]{0,80}log_?p",
    says="the engine gave a log-probability that is no number (NaN), and the trainer cannot make a tensor of it",
    fixes=(
        Fix.unsafe(
            "bfloat16 in place of float16, on both sides", {"trainer.dtype": "bfloat16", "engine.dtype": "bfloat16"}
        ),
        Fix(title="look at the steps before: loss or gradient norm that were NaN went to the engine with the weights"),
        Fix(title="or do without the correction by the engine's log-probabilities"),
    ),
    url="https://github.com/huggingface/trl/pull/6266",
)
