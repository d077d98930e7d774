"""The ranks that vLLM accepts as its limit, by release, and how a launch gets to one of them."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Applicability, Edit, Fix, RolloutPlan

LIMIT = "engine.max_lora_rank"
RANK = "lora.rank"
ALPHA = "lora.alpha"

SIZES = (8, 16, 32, 64, 128, 256)
LARGER_SIZES = (320, 512)
LARGER_SINCE = (0, 8, 0)
ONE_SINCE = (0, 11, 1)


def accepted(version: tuple[int, ...] | None) -> tuple[int, ...]:
    """The values of ``max_lora_rank`` that a vLLM release takes; all that any release takes where it is not known."""
    larger = LARGER_SIZES if version is None or version >= LARGER_SINCE else ()
    one = (1,) if version is None or version >= ONE_SINCE else ()
    return (*one, *SIZES, *larger)


def instead_of(plan: RolloutPlan, limit: int, sizes: tuple[int, ...]) -> Iterator[Fix]:
    """Fixes for a limit that is none of the accepted ``sizes``: the next larger one, or another trained rank."""
    larger = [size for size in sizes if size > limit]
    rank, alpha = plan.value(RANK), plan.value(ALPHA)
    setting = plan.get(LIMIT)
    # Where the framework makes the engine's limit from the trained rank, only that one can be changed.
    handed_on = setting is not None and setting.source == "derived" and rank == limit
    if larger and not handed_on:
        yield Fix.safe(f"let the engine take rank {larger[0]}", {LIMIT: larger[0]})
        return
    for size in (*larger[:1], *[size for size in sizes if size < limit][-1:]):
        scaled = alpha * size / rank if isinstance(alpha, int | float) and rank else None
        companion = (Edit(option=ALPHA, value=int(scaled)),) if scaled is not None and scaled == int(scaled) else ()
        yield Fix(
            title=f"train an adapter of rank {size}" + (", with alpha in proportion" if companion else ""),
            applicability=Applicability.SAFE,
            edits=(Edit(option=RANK, value=size), *companion),
            side_effects="another number of trained parameters",
        )


def room_for(rank: int, sizes: tuple[int, ...]) -> Fix:
    """The least of ``sizes`` that holds an adapter of ``rank``, where one does."""
    return Fix(
        title="see that the trained rank is within the engine's limit",
        applicability=Applicability.UNSAFE,
        edits=tuple(Edit(option=LIMIT, value=size) for size in [size for size in sizes if size >= rank][:1]),
    )
