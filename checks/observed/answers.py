"""Reads what became of requests whose answer was known beforehand, most general fault first, so that one cause gives
one finding: answers that are another request's, text that is not that of its tokens, lengths, ends, parameters."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rldoctor.api import Case, NotApplicable

from .rollout import Job, records, require, runs

Row = Mapping[str, Any]

# Rows that show whether answers belong to their requests; the others are about the parameter of that name.
ORDERED, CHARACTERS = "the order of answers", "characters of several tokens"
RESTS_ON = {
    "include_stop_str_in_output": ("stop", "stop_token_ids"),
    "output_kind": ("stop", "stop_token_ids", "max_tokens", "n"),
    "min_tokens": ("stop_token_ids", "stop", "logit_bias"),
    # Where a grammar is at its end, one of the model's ends has to stop the answer; several answers are asked for.
    **dict.fromkeys(("structured_outputs", "guided_decoding"), ("stop_token_ids", "n", "max_tokens")),
}


def rows(job: Job) -> list[Row]:
    return list(require(job, "rows"))


def beside_their_prompts(job: Job) -> list[Row]:
    """Rows of which it is known whose prompt their answer has."""
    return [row for row in rows(job) if row["got"] is not None and "prompt" in row["got"]]


def mixed_up(job: Job) -> list[str]:
    """Requests that got nothing, or an answer that was forced for another one."""
    told = []
    for number, row in enumerate(rows(job)):
        expected, got = row["expected"], row["got"]
        if got is None:
            told.append(f"request {number} ({row['about']}): no answer")
        elif not got.get("prompt", True):
            told.append(f"request {number} ({row['about']}): the answer is to another prompt")
        elif got.get("index") != expected.get("index"):
            told.append(f"request {number} ({row['about']}): completion {got['index']} in place of {expected['index']}")
        elif row["about"] == ORDERED and set(got["token_ids"]) != set(expected["token_ids"]):
            other = [one for one in rows(job) if set(one["expected"]["token_ids"]) == set(got["token_ids"])]
            if other:
                told.append(f"request {number}: forced to {expected['token_ids'][:3]}, got {got['token_ids'][:3]}")
    if require(job, "surplus"):
        told.append(f"{records(job)['surplus']} outputs more than requests")
    return told


def forced(job: Job) -> bool:
    """Whether the engine can be made to choose a token at all."""
    return all(set(row["got"]["token_ids"]) == set(row["expected"]["token_ids"]) for row in _ordered(job))


def length_off(job: Job) -> list[Row]:
    """Rows of forced tokens whose number is not what ``max_tokens`` says."""
    return [row for row in _ordered(job) if len(row["got"]["token_ids"]) != len(row["expected"]["token_ids"])]


def wrong_ends(job: Job) -> list[Row]:
    """Answers of the right tokens whose end is named wrongly, and their text by that. Where answers about the same
    parameter have wrong tokens, that is the parameter's; one that is said to have ended by its length may have been cut
    there, where others were."""
    rows_ = _comparable(job)
    wrong = {row["about"] for row in rows_ if row["got"] != row["expected"] and not _end_alone(row)}
    cut = any(map(_cut_short, rows_))
    return [
        row for row in rows_ if _end_alone(row) and row["about"] not in wrong and not (cut and _said_to_be_long(row))
    ]


def not_applied(job: Job, ignored: Collection[str] = ()) -> dict[str, list[Row]]:
    """By parameter the answers that are not as it asks for; ``ignored`` are those that are known to have no effect."""
    found: dict[str, list[Row]] = {}
    if length_off(job):
        return {"max_tokens": length_off(job)}
    ends = wrong_ends(job)
    for row in _comparable(job):
        # A token that could not come is about what allows tokens; what texts are drawn of is allowed.
        strange = "text" not in row["expected"] and set(row["got"]["token_ids"]) - set(row["expected"]["token_ids"])
        if _end_alone(row) or strange or row["about"] in (ORDERED, CHARACTERS) or row["got"] == row["expected"]:
            continue
        if ends and _stopped_early(row):
            continue
        found.setdefault("max_tokens" if _cut_short(row) else row["about"], []).append(row)
    if _went_on(job, found.get("min_tokens", ())):
        found.pop("min_tokens", None)
    for name, grounds in RESTS_ON.items():
        if any(ground in found or ground in ignored for ground in grounds):
            found.pop(name, None)
    return found


def no_stop_tokens(case: Case) -> bool:
    """Whether stop tokens are found not to stop as requests ask for."""
    jobs = case.observations.get("answers", {}).values()
    return any("rows" in records(job) and "stop_token_ids" in not_applied(job) for job in jobs)


def _went_on(job: Job, wrong: Collection[Row]) -> bool:
    """Whether some drawn answers, and not all, have passed a stop that was no longer held back: draws that went astray,
    as no greedy answer can."""
    longer = all(len(row["got"]["token_ids"]) > len(row["expected"]["token_ids"]) for row in wrong)
    drawn = [row for row in _with_answer(job) if row["about"] == "min_tokens" and row.get("drawn", True)]
    return longer and len(wrong) < len(drawn) and all(row.get("drawn", True) for row in wrong)


def _stopped_early(row: Row) -> bool:
    """Whether all that is wrong with an answer follows from where it stopped, which is wrong where others have stopped
    that were not to."""
    tokens, whole = row["got"]["token_ids"], row["expected"]["token_ids"]
    return bool(row["got"].get("finish_reason") == "stop" and tokens == whole[: len(tokens)])


def torn_characters(job: Job) -> list[Row]:
    return [
        row for row in _with_answer(job) if row["about"] == CHARACTERS and row["got"]["text"] != row["expected"]["text"]
    ]


def without_logprob(job: Job) -> int:
    """Sampled tokens whose log-probability does not come with the others'."""
    return sum(not one["told"] for one in require(job, "logprobs"))


def with_more_logprobs(job: Job) -> int:
    """Completions that come with log-probabilities of more tokens than they have; older bundles do not tell."""
    return int(records(job).get("longer", 0))


def with_fewer_tops(job: Job) -> int:
    """Tokens that come with fewer of the likeliest ones than were asked for; older bundles do not tell."""
    return sum(bool(one.get("lacking")) for one in require(job, "logprobs"))


def with_wrong_rank(job: Job) -> int:
    """Sampled tokens that the engine tells another rank of than their log-probability has, or than one of those that
    come with them has. Greedy requests that did not get the likeliest ones tell nothing of ranks."""
    told = [one for one in require(job, "logprobs") if one["told"] and isinstance(one["rank"], int) and one["rank"] > 0]
    return sum(_rank_off(one) for one in told if not (one["greedy"] and not_greedy(job)))


def not_first(job: Job) -> int:
    """Tokens whose log-probability does not come before those of the likeliest; older bundles do not tell."""
    return sum(one.get("first") is False for one in require(job, "logprobs"))


def wrong_sums(job: Job) -> list[list[float]]:
    """Cumulative log-probabilities that are not those of the completion's tokens, each with these."""
    return [list(pair) for pair in require(job, "sums")]


def not_greedy(job: Job) -> int:
    """Tokens of greedy requests that are less likely, by the engine's own numbers, than another. Where its rank says
    otherwise, the numbers are not the token's."""
    told = [one for one in require(job, "logprobs") if one["greedy"] and one["told"]]
    return sum(one["place"] != 1 and one["rank"] != 1 for one in told)


def require_own(case: Case) -> None:
    """Raises :class:`NotApplicable` where answers are mixed up, or tokens and text do not belong together: no other
    comparison says anything then."""
    for job in case.observations.get("answers", {}).values():
        if {"rows", "surplus"} <= records(job).keys() and mixed_up(job):
            raise NotApplicable("answers are lost or another request's (RLD220)")
    for job in case.observations.get("tokens", {}).values():
        if any(row["engine"] != row["tokenizer"] for row in records(job).get("texts") or ()):
            raise NotApplicable("texts are not those of their own tokens (RLD404)")


def require_true_ends(case: Case) -> None:
    """Raises :class:`NotApplicable` where the engine names another end than its answers have."""
    for job in case.observations.get("answers", {}).values():
        if "rows" in records(job) and wrong_ends(job):
            raise NotApplicable("the engine names ends that its answers do not have (RLD404)")


def judged(case: Case) -> Iterator[Job]:
    """The runs whose answers are their own requests'. Raises :class:`NotApplicable` where they are not."""
    require_own(case)
    for job in runs(case, "answers"):
        if not forced(job):
            raise NotApplicable("the engine cannot be made to choose a token: what it samples is judged by itself")
        yield job


def _ordered(job: Job) -> list[Row]:
    return [row for row in _with_answer(job) if row["about"] == ORDERED]


def _comparable(job: Job) -> list[Row]:
    """All but those about the stop at a character that falls apart: it is in no text, or in another one."""
    torn = [row["asked"] for row in torn_characters(job)]
    return [row for row in _with_answer(job) if not (row["about"] == "stop" and row["asked"] in torn)]


def _end_alone(row: Row) -> bool:
    """Whether the tokens of an answer are right and its end is not."""
    got, expected = row["got"], row["expected"]
    ends = any(got.get(key) != expected.get(key) for key in ("finish_reason", "stop_reason", "finished"))
    return ends and got["token_ids"] == expected["token_ids"]


def _said_to_be_long(row: Row) -> bool:
    return bool(row["got"].get("finish_reason") == "length")


def _cut_short(row: Row) -> bool:
    """Whether an answer that is said to have ended by its length lacks tokens of those that were to come."""
    tokens, whole = row["got"]["token_ids"], row["expected"]["token_ids"]
    return _said_to_be_long(row) and tokens != whole and tokens == whole[: len(tokens)]


def _with_answer(job: Job) -> list[Row]:
    return [row for row in rows(job) if row["got"] is not None]


def _rank_off(one: Mapping[str, Any]) -> bool:
    """A place among the likeliest is the rank; beyond them the rank is beyond them, too. Equally likely tokens,
    as rounding makes some, may stand in any order."""
    if one.get("misplaced"):
        return True
    if one["place"] is None:
        return bool(one["rank"] <= one["tops"] and not one.get("alike"))
    # Of the least likely one that is told it is not known how many are as likely.
    most = math.inf if one.get("least") else one["place"] + one.get("alike", 0)
    return not one["place"] <= one["rank"] <= most
