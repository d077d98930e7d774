"""The placement groups of a plan, against those that the benchmark has from the frameworks' sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.placement import SHAPES, Shape
from rldoctor.plan.model import RolloutPlan

Launches = Callable[..., list[RolloutPlan]]


def counted(groups: list[tuple[str, list[dict[str, float]]]]) -> Counter[Any]:
    return Counter(
        (strategy, str([dict(sorted(bundle.items())) for bundle in bundles])) for strategy, bundles in groups
    )


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_groups_of_a_launch(shape: Shape, launches: Launches) -> None:
    package, _, version = shape.package.partition("==")
    (plan,) = launches({"run.sh": shape.launch + "\n"}, **{package: version})
    derived = [
        (group["strategy"], [{name: float(amount) for name, amount in group["each"].items()}] * group["bundles"])
        for group in plan.value("ray.groups")
        for _ in range(group["count"])
    ]
    made = [
        (strategy, [{name: float(amount) for name, amount in one.items()} for one in bundles])
        for strategy, bundles in shape.groups
    ]
    assert counted(derived) == counted(made)
