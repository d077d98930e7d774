"""What schedulers and services call the end of a job: their vocabularies, word by word, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from rldoctor.knowledge import table


def _vocabularies(scheduler: str) -> list[dict[str, Any]]:
    return [one for one in table("job_states")["vocabularies"] if one["of"].startswith(scheduler)]


@cache
def job_states(scheduler: str = "") -> Mapping[str, str]:
    """Every word that tells how a job ended, as its scheduler prints it, with what it tells; of one scheduler alone
    where one is named."""
    return {
        form.format(word): why
        for vocabulary in _vocabularies(scheduler)
        for why, words in vocabulary.get("words", {}).items()
        for form in vocabulary.get("forms", ["{}"])
        for word in words
    }


@cache
def exit_statuses_of(scheduler: str) -> Mapping[int, tuple[str, str]]:
    """The exit statuses by which a scheduler itself says how a job ended: what each tells, and in words."""
    return {
        int(code): (why, said)
        for vocabulary in _vocabularies(scheduler)
        for why, codes in vocabulary.get("codes", {}).items()
        for code, said in codes.items()
    }
