"""What the checks make of answers that are known beforehand: RLD213, RLD215, RLD219, RLD220 and RLD404."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rldoctor_checks.observed.answers import CHARACTERS, ORDERED
from rldoctor_checks.rollout import engine_internal, logprobs, option_unknown
from rldoctor_checks.sync import outputs_corrupt

from rldoctor.api import Case, Finding, Outcome, Severity
from rldoctor.judge import judge_one
from tests.observations import scenario_case
from tests.plans import case as planned

CHECKS = (engine_internal.check, option_unknown.check, outputs_corrupt.check, logprobs.check)
TOLD = {"told": True, "rank": 1, "place": 1, "tops": 5}


def row(about: str, asked: Any, tokens: list[int], finish: str = "length", **got: Any) -> dict[str, Any]:
    """A row as the scenario leaves it, right but for what ``got`` says."""
    expected = {"token_ids": tokens, "finish_reason": finish, "prompt": True}
    return {"about": about, "asked": asked, "expected": expected, "got": {**expected, **got}}


def text_row(about: str, asked: Any, text: str, **got: Any) -> dict[str, Any]:
    expected = {"token_ids": [65, 66], "finish_reason": "stop", "text": text}
    return {"about": about, "asked": asked, "expected": expected, "got": {**expected, **got}}


def healthy() -> list[dict[str, Any]]:
    return [
        row(ORDERED, 0, [3] * 4),
        row(ORDERED, 1, [40] * 3),
        row("n", 2, [5, 5]),
        row("max_tokens", 1, [5]),
        row("stop_token_ids", 5, [5], "stop"),
        row("min_tokens", 3, [6, 6, 6, 5], "stop"),
        text_row("stop", "AB", "xy"),
        text_row("include_stop_str_in_output", "AB", "xyAB"),
        text_row(CHARACTERS, "\u00e9", "\u00e9\u00e9"),
    ]


def case(rows: list[dict[str, Any]], **records: Any) -> Case:
    places = [{**TOLD, "greedy": True}, {**TOLD, "greedy": False, "rank": 7, "place": None}]
    return scenario_case("answers", rows=rows, **{"surplus": 0, "logprobs": places, "sums": [], **records})


def findings(reported: Case) -> list[Finding]:
    return [finding for check in CHECKS for finding in judge_one(check, reported).findings]


def changed(number: int, **got: Any) -> Case:
    rows = healthy()
    rows[number]["got"].update(got)
    return case(rows)


def test_right_answers_pass() -> None:
    results = [judge_one(check, case(healthy())) for check in CHECKS]
    assert [result.outcome for result in results] == [Outcome.PASS] * len(CHECKS)


@pytest.mark.parametrize(
    ("number", "got", "code", "words"),
    [
        (2, {"token_ids": [5]}, "RLD219", "does not apply max_tokens"),
        (4, {"token_ids": [5] * 6, "finish_reason": "length"}, "RLD219", "does not apply stop_token_ids"),
        (5, {"token_ids": [5]}, "RLD219", "does not apply min_tokens"),
        (6, {"text": "x"}, "RLD219", "does not apply stop"),
        (6, {"finish_reason": "length"}, "RLD404", "ended otherwise than it says"),
        (4, {"stop_reason": 7}, "RLD404", "ended otherwise than it says"),
        (8, {"text": "\u00e9"}, "RLD404", "characters of several tokens"),
    ],
)
def test_one_wrong_answer_is_one_finding(number: int, got: dict[str, Any], code: str, words: str) -> None:
    (finding,) = findings(changed(number, **got))
    assert finding.code == code and words in finding.message


def test_a_character_that_never_comes_is_no_stop_that_is_not_applied() -> None:
    stop = {"about": "stop", "asked": "\u00e9", "expected": {"token_ids": [195, 169], "finish_reason": "stop"}}
    missed = {**stop, "got": {"token_ids": [195, 169, 195], "finish_reason": "length"}}
    assert findings(case([*healthy(), {**stop, "got": stop["expected"]}])) == []
    (finding,) = findings(case([*healthy(), missed]))
    assert finding.code == "RLD219" and "does not apply stop" in finding.message
    rows = [*healthy(), missed]
    rows[8]["got"].update(text="")
    (finding,) = findings(case(rows))
    assert finding.code == "RLD404" and "characters of several tokens" in finding.message


def test_one_draw_past_a_stop_is_no_min_tokens_that_is_ignored() -> None:
    late = {"token_ids": [6, 6, 6, 6, 5]}
    again = row("min_tokens", 3, [6, 6, 6, 5], "stop")
    rows = healthy()
    rows[5]["got"].update(late)
    assert findings(case([*rows, again])) == []
    again["got"].update(late)
    (finding,) = findings(case([*rows, again]))
    assert finding.code == "RLD219" and "min_tokens" in finding.message


def test_a_greedy_answer_past_its_stop_is_min_tokens_that_counts_otherwise() -> None:
    rows = [*healthy(), row("min_tokens", 3, [6, 6, 6, 5], "stop")]
    rows[5].update(drawn=False, got={**rows[5]["got"], "token_ids": [6, 6, 6, 6, 5]})
    (finding,) = findings(case(rows))
    assert finding.code == "RLD219" and "min_tokens" in finding.message


def test_a_grammar_that_breaks_off_is_an_error_for_those_who_ask_for_one() -> None:
    """vLLM 0.26, where generation_config.json names a second end."""
    rows = [*healthy(), text_row("structured_outputs", {"choice": ["AB"]}, "AB", token_ids=[65], finish_reason="error")]
    (finding,) = findings(case(rows))
    assert (finding.code, finding.severity) == ("RLD219", Severity.WARNING) and "error" in finding.evidence[2].text
    guided = replace(case(rows), plan=planned(sampling__guided="AB|CD").plan)
    assert [one.severity for one in findings(guided)] == [Severity.ERROR]


def test_answers_of_other_requests_go_before_all_else() -> None:
    rows = healthy()
    rows[0]["got"], rows[1]["got"] = rows[1]["got"], rows[0]["got"]
    (finding,) = findings(case(rows))
    assert finding.code == "RLD220" and "request 0: forced to [3, 3, 3], got [40, 40, 40]" in finding.evidence[0].text


def test_answers_that_are_missing_or_surplus() -> None:
    rows = healthy()
    rows[-1]["got"] = None
    for reported in (case(rows), case(healthy(), surplus=1)):
        assert [finding.code for finding in findings(reported)] == ["RLD220"]


def test_a_length_that_is_off_everywhere_is_that_of_max_tokens() -> None:
    rows = healthy()
    for one in rows[:4]:
        one["got"]["token_ids"] = one["got"]["token_ids"] + one["got"]["token_ids"][:1]
    (finding,) = findings(case(rows))
    assert "does not apply max_tokens" in finding.message


def test_answers_that_stop_where_nothing_is_to_stop_them_are_one_finding() -> None:
    rows = healthy()
    rows[3]["got"]["finish_reason"] = "stop"  # after the most that it may have
    rows[5]["got"].update(token_ids=rows[5]["got"]["token_ids"][:1], finish_reason="stop")
    (finding,) = findings(case(rows))
    assert finding.code == "RLD404" and "ended otherwise than it says" in finding.message


def test_a_pass_says_why_no_grammars_were_asked_for() -> None:
    result = judge_one(option_unknown.check, case(healthy(), no_grammars="xgrammar is not installed"))
    assert result.outcome is Outcome.PASS
    assert "no grammars were asked for: xgrammar is not installed" in str(result.reason)


def test_an_engine_that_cannot_be_forced_is_judged_by_its_draws() -> None:
    rows = healthy()
    for one in rows[:2]:
        one["got"]["token_ids"] = [90, 91, 92, 93]
    assert not findings(case(rows))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"told": False, "rank": None, "place": None}, "come without their log-probability"),
        ({"rank": 2}, "have another rank than it tells"),
        ({"rank": 3, "place": None}, "have another rank than it tells"),
        ({"misplaced": 2}, "or those told beside them, have another rank"),
    ],
)
def test_log_probabilities_beside_sampled_tokens(place: dict[str, Any], words: str) -> None:
    (finding,) = findings(case(healthy(), logprobs=[{**TOLD, "greedy": False, **place}]))
    assert finding.code == "RLD213" and words in finding.message


def test_log_probabilities_of_more_tokens_than_there_are() -> None:
    assert findings(case(healthy(), longer=0)) == []
    (finding,) = findings(case(healthy(), longer=3))
    assert finding.code == "RLD213" and finding.message.startswith("3 completions from")


def test_fewer_of_the_likeliest_tokens_than_were_asked_for() -> None:
    told = {**TOLD, "greedy": False, "tops": 20}
    assert findings(case(healthy(), logprobs=[{**told, "lacking": 0}])) == []
    (finding,) = findings(case(healthy(), logprobs=[{**told, "lacking": 12}, told]))
    assert finding.code == "RLD213" and finding.message.startswith("1 tokens from")


def test_tokens_that_do_not_come_before_the_likeliest() -> None:
    told = {**TOLD, "greedy": False, "first": True}
    assert findings(case(healthy(), logprobs=[told])) == []
    (finding,) = findings(case(healthy(), logprobs=[{**told, "first": False}, told]))
    assert finding.code == "RLD213" and "1 tokens from" in finding.message and "stand first" in finding.message


def test_an_answer_that_is_over_and_does_not_say_so() -> None:
    rows = healthy()
    for one in rows:
        one["expected"]["finished"] = one["got"]["finished"] = True
    assert findings(case(rows)) == []
    rows[3]["got"]["finished"] = False
    (finding,) = findings(case(rows))
    assert finding.code == "RLD404" and "not finished" in finding.evidence[0].text


def test_how_many_are_as_likely_as_the_least_one_that_is_told_is_not_known() -> None:
    tied = {**TOLD, "greedy": False, "tops": 1, "place": 1, "rank": 2}
    assert findings(case(healthy(), logprobs=[{**tied, "least": True}])) == []
    assert len(findings(case(healthy(), logprobs=[{**tied, "least": False}]))) == 1


def test_a_cumulative_log_probability_that_is_not_that_of_the_tokens() -> None:
    (finding,) = findings(case(healthy(), sums=[[-3.0, -4.5]]))
    assert finding.code == "RLD213" and "-3, not -4.5" in finding.message


def test_greedy_tokens_that_are_not_the_likeliest() -> None:
    (finding,) = findings(case(healthy(), logprobs=[{**TOLD, "greedy": True, "rank": 2, "place": 2}]))
    assert finding.code == "RLD219" and "temperature 0" in finding.message


def test_log_probabilities_of_another_token_are_one_finding() -> None:
    places = [{**TOLD, "greedy": True, "rank": 1, "place": 3}]
    (finding,) = findings(case(healthy(), logprobs=places, sums=[[-3.0, -4.5]]))
    assert finding.code == "RLD213" and "another rank" in finding.message


@pytest.mark.parametrize(("told", "codes"), [([-1.0, -2.0], ["RLD213"]), ([-1.0, -9.0], [])])
def test_ranks_beside_wrong_log_probabilities_of_prompts_say_nothing(told: list[float], codes: list[str]) -> None:
    reported = case(healthy(), logprobs=[{**TOLD, "greedy": False, "rank": 3}])
    vocabulary = {"token_ids": [1, 2, 3], "engine": told, "trainer": [-1.0, -2.0]}
    beside = {"ended": "done", "records": {"vocabulary": vocabulary, "engine": {"dtype": "float32", "device": "cpu"}}}
    together = replace(reported, observations={**reported.observations, "agreement": {"agreement": beside}})
    assert [one.code for one in judge_one(logprobs.check, together).findings] == codes


@pytest.mark.parametrize(("rank", "alike"), [(3, 2), (1, 0)])
def test_equally_likely_tokens_may_have_any_of_their_ranks(rank: int, alike: int) -> None:
    place = {**TOLD, "greedy": False, "rank": rank, "alike": alike}
    assert not findings(case(healthy(), logprobs=[place]))


def test_answers_that_are_cut_at_their_length_are_one_finding() -> None:
    rows = healthy()
    rows[5]["got"].update(token_ids=rows[5]["got"]["token_ids"][:2], finish_reason="length")
    rows[4]["got"]["finish_reason"] = "length"  # cut behind its last token
    (finding,) = findings(case(rows))
    assert finding.code == "RLD219" and "does not apply max_tokens" in finding.message
    rows[5]["got"].update(rows[5]["expected"])
    (finding,) = findings(case(rows))
    assert finding.code == "RLD404" and "ended otherwise than it says" in finding.message


def test_an_end_that_is_named_wrongly_leaves_its_token_in_the_text() -> None:
    rows = [*healthy(), text_row("stop_token_ids", 66, "A", finish_reason="length")]
    rows[-1]["got"]["text"] = "AB"
    rows[4]["got"]["finish_reason"] = "length"
    (finding,) = findings(case(rows))
    assert finding.code == "RLD404" and "2 answers" in finding.message
    # Where such a token does not stop at all, that is it.
    rows[4]["got"]["token_ids"] = [5] * 6
    (finding,) = findings(case(rows))
    assert finding.code == "RLD219" and "does not apply stop_token_ids" in finding.message


def test_a_stop_at_a_character_that_falls_apart_is_not_told_again() -> None:
    expected = {"token_ids": [195, 195, 169], "finish_reason": "length"}
    rows = [*healthy(), {"about": "stop", "asked": "\u00e9", "expected": expected, "got": {**expected}}]
    rows[-1]["got"]["finish_reason"] = "stop"
    (finding,) = findings(case(rows))
    assert finding.code == "RLD404" and "ended otherwise than it says" in finding.message
    rows[8]["got"].update(text="")
    (finding,) = findings(case(rows))
    assert finding.code == "RLD404" and "characters of several tokens" in finding.message


def test_completions_that_stand_in_each_others_place() -> None:
    rows = healthy()
    for place, one in enumerate(rows[2:4]):
        one["expected"]["index"], one["got"]["index"] = place, place
    assert findings(case(rows)) == []
    rows[2]["got"]["index"], rows[3]["got"]["index"] = 1, 0
    (finding,) = findings(case(rows))
    assert finding.code == "RLD220" and "request 2 (n): completion 1 in place of 0" in finding.evidence[0].text
