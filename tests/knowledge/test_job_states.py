"""The schedulers' own words for the end of a job."""

from __future__ import annotations

import re

import pytest
from rldoctor_checks.observed.causes import Why, spelled

from rldoctor.knowledge import table
from rldoctor.knowledge.job_states import exit_statuses_of, job_states

VOCABULARIES = table("job_states")["vocabularies"]


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=[one["of"].partition(":")[0] for one in VOCABULARIES])
def test_every_vocabulary_names_its_source_and_its_words_tell_a_cause(vocabulary: dict[str, object]) -> None:
    assert all(re.fullmatch(r"https://\S+", url) for url in str(vocabulary["source"]).split(", "))
    causes = {one.value for one in Why}
    told = vocabulary.get("words") or vocabulary.get("codes")
    assert isinstance(told, dict) and told and set(told) <= causes


def test_one_word_tells_one_thing_however_it_is_written() -> None:
    told: dict[str, set[str]] = {}
    for word, why in job_states().items():
        told.setdefault(spelled(word), set()).add(why)
    assert {word: whys for word, whys in told.items() if len(whys) > 1} == {}


def test_words_are_put_into_the_forms_that_their_scheduler_has() -> None:
    kueue = job_states("Kueue")
    assert {kueue[f"{form}PodsReadyTimeout"] for form in ("", "EvictedDueTo", "WorkloadEvictedDueTo")} == {"place"}


def test_exit_statuses() -> None:
    assert exit_statuses_of("OpenPBS")[-29] == ("time", "its time was over")
    assert exit_statuses_of("Slurm") == {}
