"""What is said where a release moves the ends of what a trainer can stand beside."""

from __future__ import annotations

from rldoctor.refresh.bounds import changes
from rldoctor.tables.uses.bounds import Bound, Stretch

SINCE = Bound("vllm", ">=0.9", "vllm.LLM.sleep", "0.8.5")
UNTIL = Bound("vllm", "<0.12", "vllm.worker.Worker", "0.12.0")


def test_an_end_that_the_newest_release_brings_is_said_with_the_name_that_it_imports() -> None:
    before = {"trl": (Stretch(("1.0", "1.1"), (SINCE,)),)}
    after = {"trl": (Stretch(("1.0", "1.1"), (SINCE,)), Stretch(("1.2",), (SINCE, UNTIL)))}
    assert changes("trl", before, after) == ["trl 1.2: vllm<0.12, for vllm.worker.Worker"]


def test_an_end_that_it_takes_away_is_said_too() -> None:
    before = {"trl": (Stretch(("1.0",), (SINCE, UNTIL)),)}
    after = {"trl": (Stretch(("1.0",), (SINCE, UNTIL)), Stretch(("1.1",), (SINCE,)))}
    assert changes("trl", before, after) == ["trl 1.1: no longer vllm<0.12, for vllm.worker.Worker"]


def test_what_changed_in_older_releases_alone_is_told_apart() -> None:
    before = {"trl": (Stretch(("1.0",), ()), Stretch(("1.1",), (SINCE,)))}
    after = {"trl": (Stretch(("1.0",), (UNTIL,)), Stretch(("1.1",), (SINCE,)))}
    assert changes("trl", before, after) == ["the ends of trl changed, not those of its newest release"]


def test_a_package_that_was_not_in_the_table_has_all_its_ends_as_news() -> None:
    assert changes("trl", {}, {"trl": (Stretch(("1.0",), (SINCE,)),)}) == ["trl 1.0: vllm>=0.9, for vllm.LLM.sleep"]
