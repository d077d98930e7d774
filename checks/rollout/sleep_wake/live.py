"""What an engine answers after it slept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, Reach, cite, plan_of

from ...exceptions import root_of
from ...observed.agreement import Noise, difference, noise_of
from ...observed.rollout import describe, records, refuses_segments, require, runs
from . import LEVEL, SLEEP, awake, check

Told = Mapping[str, Any]
# A drawn completion of so many kinds of tokens does not come twice by chance.
KINDS = 12


def changes(before: Told, after: Told, noise: Noise) -> Iterator[tuple[str, str]]:
    """What is not as it was, and the numbers that show it; the gravest first."""
    values = [*after["scores"], *after["seen"]["logprobs"]]
    lost = [value for value in values if not _is_number(value)]
    if lost and all(map(_is_number, before["scores"])):
        yield "its log-probabilities are no numbers", f"{len(lost)} of {len(values)}, such as {lost[0]}"
        return
    fixed = difference(before["scores"], after["scores"])
    if fixed.beyond(noise):
        yield "what it computes differs", f"fixed tokens: {fixed}"
    seen = _parting(before["seen"], after["seen"], noise)
    if seen is not None:
        yield "what it continues from cached prompts differs", f"a prompt seen before: {seen}"
    had, has = before.get("free_blocks"), after.get("free_blocks")
    # The same requests ran before, and none is left.
    if had is not None and has is not None and has < had:
        yield "blocks of its KV cache are lost", f"{had} were free while nothing ran, and {has} are"


def _parting(before: Told, after: Told, noise: Noise) -> str | None:
    """How a greedy continuation differs from the one before beyond rounding, or None. What follows another token is
    another text."""
    pairs = list(zip(before["token_ids"], after["token_ids"], strict=False))
    place = next((place for place, (one, other) in enumerate(pairs) if one != other), len(pairs))
    apart = difference(before["logprobs"][:place], after["logprobs"][:place]) if place else None
    if apart is not None and apart.beyond(noise):
        return str(apart)
    if place == len(pairs):
        return None
    one, other = pairs[place]
    tops = {int(token): float(value) for token, value in before["tops"][place]}
    held, now = tops.get(other, min(tops.values())), after["logprobs"][place]
    gap = before["logprobs"][place] - held
    # The reading of each of the two tokens is off by no more than the noise.
    if gap <= 2 * noise.largest and abs(now - held) <= noise.largest:
        return None
    return f"token {other} ({now:.3g}) in place of {one} after {place} equal ones, held for {held:.3g} before"


def repeated(rows: Sequence[Told]) -> tuple[int, int] | None:
    """The cycles of two wakings after which a request without a seed drew the same tokens, if any did."""
    drawn: dict[tuple[int, ...], int] = {}
    for row in rows:
        tokens = tuple(row.get("drawn", ()))
        if len(set(tokens)) >= KINDS and tokens in drawn:
            return drawn[tokens], row["cycle"]
        drawn[tokens] = row["cycle"]
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


@check.observed(needs=["observations.sleep"])
def outputs_after_waking(case: Case) -> Iterator[Finding | Reach]:
    """What the engine tells before it sleeps and after it woke up."""
    plan = plan_of(case)
    for job in runs(case, "sleep"):
        failed = records(job).get("failed")
        if refuses_segments(job):
            raise NotApplicable("the sleep allocator refuses expandable segments (RLD207)")
        if failed is not None:
            root = root_of(failed["exceptions"]) or {}
            yield check.finding(
                f"{describe(job)} fails in cycle {failed['cycle']} of sleep level {failed['level']}: "
                f"{root.get('type')}: {root.get('message')}"[:400],
                grade=Grade.REPRODUCED,
                evidence=cite(plan, SLEEP, LEVEL),
                fixes=tuple(awake(plan)),
            )
            continue
        kinds, noise, cycles = [require(job, "start")], noise_of(job), len(require(job, "cycles"))
        kinds += [records(job)["second"]] if "second" in records(job) else []
        by_level: dict[int, list[Told]] = {}
        for reported in require(job, "after"):
            by_level.setdefault(reported["level"], []).append(reported)
        changed: dict[int, tuple[Told, dict[str, str]]] = {}
        for level, rows in by_level.items():
            judged = [(row, dict(changes(kinds[row.get("weights", 0)], row, noise))) for row in rows]
            other = next((pair for pair in judged if pair[1]), None)
            if other is None:
                yield Reach(f"{describe(job)}: level {level} changes nothing, {cycles} cycles in all")
            else:
                changed[level] = other
        if changed:
            row, found = next(iter(changed.values()))
            parts = ", weights and cache woken one after the other" if row["parts"] else ""
            levels = " and ".join(map(str, changed))
            yield check.finding(
                f"{describe(job)} is not the same after sleep level {levels}: {next(iter(found))} (cycle "
                f"{row['cycle']}{parts})",
                grade=Grade.REPRODUCED,
                evidence=(
                    *cite(plan, SLEEP, LEVEL),
                    *(
                        Evidence(text=f"level {level}, {text}", source="sleep scenario")
                        for level, (_, texts) in changed.items()
                        for text in texts.values()
                    ),
                ),
                fixes=(
                    *(
                        Fix.unsafe(
                            "keep the weights in host memory (level 1)",
                            {LEVEL: 1},
                            side_effects="host memory for the weights",
                        )
                        for _ in range([*changed] == [2] and plan.value(LEVEL) == 2)
                    ),
                    *awake(plan),
                ),
            )
        twice = repeated(require(job, "after"))
        if twice is not None:
            yield check.finding(
                f"{describe(job)} draws the same completion after two wakings (cycles {twice[0]} and {twice[1]}): its "
                "random numbers begin anew, and completions of different steps repeat each other",
                grade=Grade.REPRODUCED,
                evidence=cite(plan, SLEEP, LEVEL),
                fixes=tuple(awake(plan)),
            )
        untold = records(job).get("unread", {})
        if "level 2" in untold:
            yield Reach(f"level 2 was not played: {untold['level 2']}")
        elif "update" in untold:
            yield Reach(f"the weights were those of the boot: {untold['update']}")
