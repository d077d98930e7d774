"""What checks make of tokens that an engine drew (RLD219, RLD311, RLD404), and how seldom chance alone does."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from rldoctor_checks.devices import completions_identical
from rldoctor_checks.observed.draws import NATS, draws, long
from rldoctor_checks.rollout import option_unknown
from rldoctor_checks.sync import outputs_corrupt

from rldoctor.api import Case, Check, Finding, Outcome, Severity
from rldoctor.judge import judge_one
from tests.observations import completion, packages, scenario_case

# A distribution of eight tokens, as after a prompt, and the same with one parameter that keeps four of them.
CHANCES = (0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.05, 0.02)
KEPT = tuple(chance / sum(CHANCES[:4]) if token < 4 else 0.0 for token, chance in enumerate(CHANCES))
DRAWS = 640
EXACT = {"dtype": "float32", "device": "cpu"}


def drawn(chances: tuple[float, ...], seed: int = 0, count: int = DRAWS) -> list[int]:
    return random.Random(seed).choices(range(len(chances)), chances, k=count)


def setting(name: str, expected: tuple[float, ...], tokens: list[int], **more: Any) -> dict[str, Any]:
    """A row as the scenario leaves it; without the parameter all tokens of CHANCES may come."""
    bins = [
        {"token": t, "expected": chance, "plain": CHANCES[t], "observed": tokens.count(t)}
        for t, chance in enumerate(expected)
    ]
    excluded = sum(expected[token] == 0 for token in tokens)
    ground = None if name == "temperature 1" else "temperature 1"
    row = {"name": name, "parameters": {name: 1}, "draws": len(tokens), "excluded": excluded, "rests_on": ground}
    return {**row, "places": [{"draws": len(tokens), "bins": bins}], "gap": None, **more}


def sums(observed: float = 1200.0, tokens: int = 6144) -> list[dict[str, Any]]:
    """Of long completions: the second likeliest token is drawn ``observed`` times."""
    second = {"observed": observed, "expected": 1200.0, "variance": 960.0, "largest": 1.0}
    whole = {"observed": -12000.0, "expected": -12000.0, "variance": 7000.0, "largest": 6.0}
    scores = {"the second": second, "log-probability": whole}
    return [{"name": "temperature 1", "parameters": {}, "tokens": tokens, "scores": scores, "plain": {}}]


def penalty(observed: float, name: str = "presence_penalty") -> dict[str, Any]:
    """Repetitions that are to be 100 of 1152 tokens, and are 300 without the penalty."""
    score = {"observed": observed, "variance": 90.0, "largest": 1.0}
    scores = {"scores": {"repeated tokens": {**score, "expected": 100.0}}}
    plain = {"plain": {"repeated tokens": {**score, "variance": 220.0, "expected": 300.0}}}
    return {"name": name, "parameters": {name: 1.5}, "tokens": 1152, **scores, **plain}


def case(*settings: dict[str, Any], equal: int = 60, engine: dict[str, Any] = EXACT, **records: Any) -> Case:
    plain = setting("temperature 1", CHANCES, drawn(CHANCES))
    pairs = [{"name": "neighbours in a batch", "pairs": 320, "equal": equal, "chance": 0.19}]
    seeds = [{"seed": seed, "batch": batch, "token_ids": [seed]} for seed in (1, 2) for batch in range(3)]
    healthy = {"settings": [plain, *settings], "long": sums(), "pairs": pairs, "seeds": seeds}
    made = scenario_case("sampling", engine=engine, **{**healthy, **records})
    completions = [completion([n, n + 1, n + 2, 7, 8, 9, n], index=n) for n in range(4)]
    made.observations["rollout"]["miniature"] = {"ended": "done", "records": {"completions": completions}}
    return made


def findings(check: Check, reported: Case) -> list[Finding]:
    return list(judge_one(check, reported).findings)


def all_findings(reported: Case) -> list[str]:
    checks = (option_unknown.check, outputs_corrupt.check, completions_identical.check)
    return [finding.code for check in checks for finding in findings(check, reported)]


def single(observed: float, expected: float = 48.0, vocabulary: int = 1000) -> list[dict[str, Any]]:
    """Long completions that fit, but for one token."""
    worst = [{"token": 71, "observed": observed, "expected": expected}]
    return [{**row, "vocabulary": vocabulary, "single": worst} for row in sums()]


def test_a_token_that_never_comes_is_named_and_chance_among_many_is_not() -> None:
    (one,) = findings(outputs_corrupt.check, case(long=single(0.0)))
    assert "token 71: 0 over all tokens, 48.0 expected" in one.evidence[1].text
    assert len(findings(outputs_corrupt.check, case(long=single(140.0)))) == 1
    for observed, expected, vocabulary in (
        (20.0, 48.0, 1000),
        (85.0, 48.0, 1000),
        (0.0, 24.0, 1000),
        (0.0, 30.0, 150_000),
    ):
        assert findings(outputs_corrupt.check, case(long=single(observed, expected, vocabulary))) == []


def strays(observed: float, growth: float = 60.0) -> list[dict[str, Any]]:
    """Long completions that fit, beside how much likelier they would be with some draws of any token."""
    shares = [
        {"share": share, "observed": at, "growth": growth * share / 0.005}
        for share, at in ((0.001, 0), (0.005, observed))
    ]
    return [{**row, "mixtures": {"any token": shares}} for row in sums()]


def test_draws_of_any_token_are_told_and_the_pass_says_how_few_would_show() -> None:
    (one,) = findings(outputs_corrupt.check, case(long=strays(40.0)))
    assert "draws of any token: 31 over all tokens, 0.0 expected" in one.evidence[1].text
    result = judge_one(outputs_corrupt.check, case(long=strays(15.0)))
    assert result.outcome is Outcome.PASS and ", or 0.5% that are of any token, would show" in str(result.reason)
    weak = judge_one(outputs_corrupt.check, case(long=strays(-2.0, growth=15.0)))
    assert weak.outcome is Outcome.PASS and "any token" not in str(weak.reason)
    # What rounding to 16 bits makes of the probabilities of unlikely tokens.
    assert findings(outputs_corrupt.check, case(long=strays(40.0), engine={**EXACT, "dtype": "bfloat16"})) == []


def test_draws_that_fit_pass_and_say_what_would_have_shown() -> None:
    reported = case(setting("top_k", KEPT, drawn(KEPT)))
    assert all_findings(reported) == []
    result = judge_one(outputs_corrupt.check, reported)
    assert result.outcome is Outcome.PASS and "of wrong draws would show" in str(result.reason)


def test_a_run_that_was_cut_short_tells_what_is_wrong_in_it_and_passes_nothing() -> None:
    for long_completions in (None, sums()):
        healthy = case(setting("top_k", KEPT, drawn(KEPT)), ended="stalled", long=long_completions)
        assert judge_one(outputs_corrupt.check, healthy).outcome is Outcome.NOT_CHECKED
        assert all_findings(healthy) == []
    short = tuple(chance / 0.65 if token < 3 else 0.0 for token, chance in enumerate(CHANCES))
    assert all_findings(case(setting("top_k", KEPT, drawn(short)), ended="stalled", long=None)) == ["RLD404"]


def test_a_parameter_that_is_ignored() -> None:
    reported = case(setting("top_k", KEPT, drawn(CHANCES, seed=1)))
    (finding,) = findings(option_unknown.check, reported)
    assert "does not apply top_k" in finding.message and "of tokens that it excludes" in finding.evidence[0].text
    assert all_findings(reported) == ["RLD219"]


def test_ends_that_do_not_come_are_no_parameter_that_is_ignored() -> None:
    reported = case(setting("ends of answers", KEPT, drawn(CHANCES)))
    assert not findings(option_unknown.check, reported)
    (one,) = findings(outputs_corrupt.check, reported)
    assert "from another distribution than the model's (ends of answers)" in one.message


def test_a_parameter_that_is_applied_wrongly() -> None:
    short = tuple(chance / 0.65 if token < 3 else 0.0 for token, chance in enumerate(CHANCES))
    reported = case(setting("top_k", KEPT, drawn(short)))
    (finding,) = findings(outputs_corrupt.check, reported)
    assert "(top_k)" in finding.message and "token 3: 0 of 640" in finding.evidence[1].text
    assert all_findings(reported) == ["RLD404"]


def test_a_cut_in_another_place_is_no_parameter_that_is_ignored() -> None:
    one_more = tuple(chance if token < 5 else 0.0 for token, chance in enumerate(CHANCES))
    reported = case(setting("top_p", KEPT, drawn(one_more)))
    (finding,) = findings(outputs_corrupt.check, reported)
    assert "(top_p)" in finding.message and "draws of tokens that it excludes" in finding.evidence[0].text
    assert all_findings(reported) == ["RLD404"]


def test_what_rests_on_a_wrong_setting_is_not_said_again() -> None:
    wrong = setting("temperature", CHANCES, drawn(CHANCES[::-1]))
    rests = setting("top_p", KEPT, drawn(CHANCES[::-1]), rests_on="temperature")
    assert all_findings(case(wrong, rests)) == ["RLD404"]


def test_one_draw_in_twenty_that_is_another_token() -> None:
    reported = case(long=sums(observed=1200.0 + 0.05 * 6144))
    assert all_findings(reported) == ["RLD404"]
    assert "the second: 1507 over all tokens" in findings(outputs_corrupt.check, reported)[0].evidence[1].text


def test_too_few_tokens_are_no_pass() -> None:
    result = judge_one(outputs_corrupt.check, case(long=sums(tokens=300)))
    assert not result.findings and "no less" in str(result.reason)


def test_pairs_that_are_equal_too_often() -> None:
    reported = case(equal=200)
    (finding,) = findings(completions_identical.check, reported)
    assert "200 of 320 pairs of draws are equal, 61 expected" in finding.evidence[0].text
    assert all_findings(reported) == ["RLD311"]


def test_rounding_may_change_what_a_near_cut_keeps() -> None:
    reported = case(setting("top_k", KEPT, drawn(CHANCES, seed=1), gap=0.001))
    assert all_findings(reported) == []


def test_chance_alone_raises_no_alarm_and_its_rate_is_that_of_the_bound() -> None:
    offs = []
    for seed in range(2000):
        reported = case(settings=[setting("temperature 1", CHANCES, drawn(CHANCES, seed, 200))])
        (job,) = reported.observations["sampling"].values()
        (one,) = draws(job)
        offs.append(one.off)
    assert max(offs) < NATS
    # A misfit of this many nats has at most this chance, however few draws there are.
    for nats in (1.0, 2.0, 3.0, 4.0):
        assert sum(off > nats for off in offs) / len(offs) <= math.exp(-nats)


def test_sums_of_long_completions_keep_to_their_bound() -> None:
    (job,) = case(long=sums(observed=1200.0 + 3 * math.sqrt(960.0))).observations["sampling"].values()
    assert not any(one.wrong for one in long(job))


@pytest.mark.parametrize(("count", "wrong"), [(0, True), (40, True), (115, False), (145, False), (240, True)])
def test_a_count_of_few_among_many_keeps_to_its_own_bound(count: int, wrong: bool) -> None:
    rare = {"observed": count, "expected": 130.0, "variance": 130.0, "largest": 1.0}
    told = {
        "name": "temperature 1",
        "parameters": {},
        "tokens": 6144,
        "scores": {"the least likely": rare},
        "plain": {},
    }
    (job,) = case(long=[told]).observations["sampling"].values()
    assert any(one.wrong for one in long(job)) is wrong


def test_a_penalty_that_is_ignored_or_counts_otherwise() -> None:
    assert all_findings(case(long=[*sums(), penalty(110.0)])) == []
    assert all_findings(case(long=[*sums(), penalty(290.0)])) == ["RLD219"]
    assert all_findings(case(long=[*sums(), penalty(190.0)])) == ["RLD404"]


def test_an_answer_that_needs_an_ignored_bias_is_no_second_finding() -> None:
    """What holds tokens back shows only in answers that are forced by a bias."""
    biased = setting("logit_bias", KEPT, drawn(CHANCES))
    answer = {"finish_reason": "length", "prompt": True}
    row = {"about": "min_tokens", "asked": 3, "expected": {**answer, "token_ids": [6, 6, 6, 5]}}
    rows = [{**row, "got": {**answer, "token_ids": [6, 6, 6, 6]}}]
    alone = scenario_case("answers", rows=rows, surplus=0, logprobs=[])
    assert "min_tokens" in findings(option_unknown.check, alone)[0].message
    both = case(biased)
    both.observations["answers"] = alone.observations["answers"]
    (finding,) = findings(option_unknown.check, both)
    assert "does not apply logit_bias" in finding.message


def kind(name: str = "top_k", observed: float = 60.0, **more: Any) -> dict[str, Any]:
    """Requests of one kind in a mixed batch: 300 tokens, of which 60 are to be the second likeliest."""
    second = {"observed": observed, "expected": 60.0, "variance": 48.0, "largest": 1.0}
    return {"name": name, "requests": 12, "tokens": 300, "scores": {"the second": second}, "outside": [], **more}


def mixed_case(*kinds: dict[str, Any], lengths: int = 0, imposed: Any = None, **drawn: Any) -> Case:
    """Draws that are right one parameter at a time, beside a batch of requests that differ."""
    both = case(**drawn)
    reach = {"requests": 12 * len(kinds)}
    more: dict[str, Any] = {"kinds": list(kinds), "lengths": lengths, "imposed": imposed or {}, "reach": reach}
    other = scenario_case("mixed", engine=EXACT, **more)
    both.observations["mixed"] = other.observations["mixed"]
    return both


OUTSIDE = {"request": "top_k 3", "place": 4, "token": 9}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kinds": [kind(outside=[{**OUTSIDE, "by": None}])]}, "top_k 3: token 9 at place 4 is ruled out"),
        ({"kinds": [kind(outside=[{**OUTSIDE, "by": 0.5}])]}, "300 tokens of requests with top_k, 1 of them ruled out"),
        ({"kinds": [kind(observed=160.0)]}, "the second: 160 over all tokens, 60.0 expected"),
        ({"kinds": [kind()], "lengths": 2}, "2 completions are not as long as"),
    ],
    ids=["a token that nothing lets through", "one beyond rounding", "too many of a rank", "lengths"],
)
def test_requests_that_are_drawn_by_another_ones_parameters(changed: dict[str, Any], words: str) -> None:
    kinds = changed.pop("kinds")
    (finding,) = findings(outputs_corrupt.check, mixed_case(*kinds, **changed))
    assert "does not answer each by its own parameters" in finding.message
    assert any(words in line.text for line in finding.evidence)


def test_requests_that_get_what_another_one_is_allowed() -> None:
    """vLLM 0.14.1 and 0.26 copy a mask where rows are exchanged."""
    wrong = kind(outside=[{**OUTSIDE, "by": None}], observed=160.0)
    imposed = {"top_k": [{"request": "top_k 3", "index": 0, "place": 2}]}
    (finding,) = findings(outputs_corrupt.check, mixed_case(wrong, imposed=imposed))
    assert "gives some the tokens that allowed_token_ids of another allows (top_k)" in finding.message
    assert finding.severity is Severity.WARNING
    for version, words in (("0.14.1", "vLLM 0.31.0"), ("0.32.0", "another release of vLLM")):
        reported = replace(mixed_case(wrong, imposed=imposed), packages=packages(vllm=version))
        assert words in findings(outputs_corrupt.check, reported)[0].fixes[0].title
    # What is wrong beside that, or before it, is another matter.
    for more in ([kind("top_p", observed=160.0)], []):
        later = {"top_k": [{**imposed["top_k"][0], "place": 2 if more else 5}]}
        (finding,) = findings(outputs_corrupt.check, mixed_case(wrong, *more, imposed=later))
        assert "does not answer each by its own parameters" in finding.message
        assert finding.severity is Severity.ERROR


def test_a_mixed_batch_that_is_right() -> None:
    near = kind(outside=[{**OUTSIDE, "by": 1e-6}], observed=70.0)
    result = judge_one(outputs_corrupt.check, mixed_case(near, kind("top_p")))
    assert result.outcome is not Outcome.FINDINGS
    assert "24 requests of 2 kinds in one batch, each drawn by its own parameters" in str(result.reason)


def test_a_parameter_that_is_wrong_alone_is_no_second_finding_in_a_mixed_batch() -> None:
    wrong = mixed_case(kind(observed=160.0), long=sums(observed=2400.0))
    assert [one.message for one in findings(outputs_corrupt.check, wrong) if "parameters" in one.message] == []


def test_seeds_say_nothing_where_draws_are_wrong_without_any() -> None:
    again = [{"seed": 0, "batch": batch, "token_ids": [1, 2 + batch]} for batch in range(3)]
    changed: dict[str, Any] = {"seeds": again, "siblings": [[1], [2]]}
    assert findings(option_unknown.check, case(**changed))
    assert findings(option_unknown.check, case(long=sums(observed=2400.0), **changed)) == []


@pytest.mark.parametrize(
    ("batches", "device", "said", "severity"),
    [
        ((0, 9, 9, 9), "cpu", "draw other tokens the second time", Severity.ERROR),
        ((0, 0, 0, 9), "cpu", "draw other tokens when they are preempted", Severity.ERROR),
        ((0, 0, 9), "cuda", "draw other tokens beside a request without a seed", Severity.ERROR),
        ((0, 0, 9), "cpu", "draw other tokens beside a request without a seed", Severity.NOTE),
    ],
)
def test_seeds_that_do_not_repeat(batches: tuple[int, ...], device: str, said: str, severity: Severity) -> None:
    seeds = [{"seed": 1, "batch": batch, "token_ids": [token]} for batch, token in enumerate(batches)]
    (finding,) = findings(
        option_unknown.check, case(seeds=seeds, siblings=[[1], [2]], engine={**EXACT, "device": device})
    )
    assert said in finding.message and finding.severity is severity


def test_releases_whose_sampler_of_the_cpu_gives_seeds_up_are_known() -> None:
    seeds = [{"seed": 1, "batch": batch, "token_ids": [token]} for batch, token in enumerate((0, 0, 9))]
    reported = case(seeds=seeds, siblings=[[1], [2]], engine={**EXACT, "device": "cpu"})
    for version, words in (("0.14.1", "vLLM 0.29.0"), ("0.32.0", "another release of vLLM")):
        (finding,) = findings(option_unknown.check, replace(reported, packages=packages(vllm=version)))
        assert words in finding.fixes[0].title


def test_completions_of_a_seeded_request_that_are_the_same() -> None:
    (finding,) = findings(option_unknown.check, case(siblings=[[1, 2], [1, 2], [3, 4]]))
    assert "does not apply the seeds of requests: 1 of them draw the same tokens" in finding.message
