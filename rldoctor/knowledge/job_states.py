"""What schedulers and services call the end of a job: their vocabularies, word by word, each with its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from rldoctor.knowledge import table


def _vocabularies() -> list[dict[str, Any]]:
    return list(table("job_states")["vocabularies"])


@cache
def job_states() -> Mapping[str, str]:
    """Every word that tells how a job ended, as its scheduler prints it, with what it tells."""
    return dict(_words(""))


@cache
def job_states_of(scheduler: str) -> Mapping[str, str]:
    """The words of one scheduler alone."""
    return dict(_words(scheduler))


def _words(scheduler: str) -> Iterator[tuple[str, str]]:
    for vocabulary in _vocabularies():
        if vocabulary["of"].startswith(scheduler):
            for why, words in vocabulary.get("words", {}).items():
                yield from ((form.format(word), why) for form in vocabulary.get("forms", ["{}"]) for word in words)


@cache
def exit_statuses_of(scheduler: str) -> Mapping[int, tuple[str, str]]:
    """The exit statuses by which a scheduler itself says how a job ended: what each tells, and in words."""
    return {
        int(code): (why, said)
        for vocabulary in _vocabularies()
        if vocabulary["of"].startswith(scheduler)
        for why, codes in vocabulary.get("codes", {}).items()
        for code, said in codes.items()
    }
