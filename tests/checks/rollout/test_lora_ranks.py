"""The sizes that vLLM accepts for its largest adapter, by release, and the ways to one of them."""

from __future__ import annotations

import pytest
from rldoctor_checks.rollout.lora.ranks import accepted, instead_of, room_for

from rldoctor.api import RolloutPlan, Setting, Source


def fixes(**limit: object) -> list[dict[str, object]]:
    """The edits for a limit of 24 that comes as ``limit`` says, with an adapter of rank 24 and alpha 48."""
    given = {"lora.rank": Setting(value=24), "lora.alpha": Setting(value=48)}
    settings = {**given, "engine.max_lora_rank": Setting(value=24, **limit)}  # type: ignore[arg-type]
    plan = RolloutPlan(framework="verl", file="run.sh", entry="train", settings=settings)
    found = instead_of(plan, 24, accepted((0, 11, 0)))
    return [{edit.option: edit.value for edit in fix.edits} for fix in found]


@pytest.mark.parametrize(
    ("version", "largest", "one"),
    [((0, 7, 3), 256, False), ((0, 8, 0), 512, False), ((0, 11, 0), 512, False), ((0, 11, 1), 512, True)],
)
def test_sizes_differ_over_the_releases(version: tuple[int, ...], largest: int, one: bool) -> None:
    assert max(accepted(version)) == largest
    assert (1 in accepted(version)) is one


def test_where_the_release_is_not_known_every_size_counts() -> None:
    assert set(accepted(None)) == {*accepted((0, 7, 3)), *accepted((0, 11, 1))}


def test_a_limit_that_is_given_is_raised() -> None:
    assert fixes(source=Source.GIVEN) == [{"engine.max_lora_rank": 32}]


def test_a_limit_that_is_made_from_the_trained_rank_changes_with_it_and_alpha_in_proportion() -> None:
    assert fixes(source=Source.DERIVED) == [{"lora.rank": 32, "lora.alpha": 64}, {"lora.rank": 16, "lora.alpha": 32}]


def test_no_edit_where_no_size_holds_the_adapter() -> None:
    assert [edit.value for edit in room_for(48, accepted(None)).edits] == [64]
    assert room_for(1024, accepted(None)).edits == ()
