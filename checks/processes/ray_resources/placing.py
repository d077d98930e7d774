"""Where Ray would put placement groups: its own policies, played on the nodes of a cluster.

Ray does not search. It takes the bundles of a group in one order and gives each the node with most left, so that a
group for which there is room may stay pending. Nodes that are alike are counted, not listed, so that the size of a
cluster does not matter. Where two nodes come out even, which one is taken depends on their names: both ways are
followed. A part of a device must be free on one device, which is seen only where the bundles are handed out: Ray
chooses a node by the sum, is refused, and chooses the same again.

``src/ray/raylet/scheduling/policy/bundle_scheduling_policy.cc`` and ``scorer.cc``; ``src/ray/common/scheduling``:
``fixed_point.h``, ``resource_instance_set.cc``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, permutations

from rldoctor.api import dataclass

Resources = Mapping[str, float]
# Amounts in ten-thousandths, as Ray counts them, by name; hashable.
_Amounts = frozenset[tuple[str, int]]
# How many nodes there are of each kind.
_Nodes = frozenset[tuple[_Amounts, int]]

_UNITS = 10_000
_SAME = 1e-9
# A node's devices one by one, most first, where bundles ask for parts; and a node that was chosen and cannot.
_DEVICE, _REFUSED = "GPU:{}", "refused"
# Ways that are followed; a group that has more is left open.
_MOST = 200
# What Ray knows by itself comes after what a cluster adds, in this order, behind the GPUs.
_LAST = ("object_store_memory", "memory", "CPU")


@dataclass(frozen=True)
class Group:
    """A placement group, ``count`` times; one of strategy ``ACTOR`` is an actor or task by itself."""

    strategy: str
    bundles: tuple[Resources, ...]
    count: int = 1


@dataclass(frozen=True)
class Placement:
    """What came of groups that were asked for one after another: whether all found a place (None where that depends on
    the nodes' names, or would take long to know), and where not, the first without one, how many of it have one, and
    those before it."""

    complete: bool | None
    group: Group | None = None
    placed: int = 0
    before: tuple[Group, ...] = ()


def place(groups: Sequence[Group], nodes: Sequence[Resources]) -> Placement:
    """Asks for groups as a launch does."""
    asked = {name for group in groups for bundle in group.bundles for name in bundle}
    parts = any(bundle.get("GPU", 0.0) % 1 for group in groups for bundle in group.bundles)
    states = {_counted(_seen({name: node.get(name, 0.0) for name in asked}, parts) for node in nodes)}
    sure = True
    for position, group in enumerate(groups):
        bundles = [_amounts(bundle) for bundle in group.bundles]
        for number in range(group.count):
            ways = [_placed(bundles, group.strategy, state) for state in states]
            after = {left for way in ways if way is not None for left in way if left is not None}
            if None in ways or len(after) > _MOST:
                return Placement(None)
            if not after:
                return Placement(False, group, number, tuple(groups[:position]))
            sure = sure and not any(None in way for way in ways if way is not None)
            states = after
    return Placement(True if sure else None)


def holds(node: Resources, asked: Resources) -> bool:
    """Whether a node has what is asked for."""
    return _available(dict(_amounts(node)), _amounts(asked))


def together(bundles: Sequence[Resources]) -> dict[str, float]:
    """The sum of bundles."""
    total: dict[str, float] = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _amounts(resources: Resources) -> _Amounts:
    return _amounts_of({name: round(amount * _UNITS) for name, amount in resources.items()})


def _seen(node: Resources, parts: bool) -> _Amounts:
    """A node, with its devices one by one where ``parts`` of them are asked for."""
    amounts = dict(_amounts(node))
    left = amounts.get("GPU", 0) if parts else 0
    devices = [min(_UNITS, left - start) for start in range(0, left, _UNITS)]
    return _amounts_of({**amounts, **{_DEVICE.format(number): units for number, units in enumerate(devices)}})


def _counted(nodes: Iterable[_Amounts]) -> _Nodes:
    counts: dict[_Amounts, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
    return frozenset(counts.items())


def _placed(bundles: Sequence[_Amounts], strategy: str, nodes: _Nodes) -> set[_Nodes | None] | None:
    """What may be left of the nodes; None among them where the group may find no place. None where the ways are too
    many."""
    found: set[_Nodes | None] = set()
    own = sorted({name for bundle in bundles for name, _ in bundle} - {"GPU", *_LAST})
    # Which of a cluster's own resources goes first depends on which was heard of first.
    for order in permutations(own) if len(own) < 4 else (own,):
        ways = _followed(_Way(_runs(bundles, order), dict(nodes), {}), _STEPS.get(strategy, _pack))
        if ways is None:
            return None
        found |= ways
    return found


@dataclass(frozen=True)
class _Way:
    """A group that is being placed: bundles that wait, with how many there are of each in a row, nodes without one of
    its bundles, and nodes with one."""

    waiting: tuple[tuple[_Amounts, int], ...]
    fresh: Mapping[_Amounts, int]
    used: Mapping[_Amounts, int]

    @property
    def key(self) -> tuple[object, ...]:
        return self.waiting, frozenset(self.fresh.items()), frozenset(self.used.items())

    def without_first(self) -> tuple[tuple[_Amounts, int], ...]:
        (bundle, count), *others = self.waiting
        return ((bundle, count - 1), *others) if count > 1 else tuple(others)


def _followed(start: _Way, step: Callable[[_Way], list[_Way]]) -> set[_Nodes | None] | None:
    found: set[_Nodes | None] = set()
    open_ways, seen = [start], {start.key}
    while open_ways:
        way = open_ways.pop()
        if not way.waiting:
            kinds = way.fresh.keys() | way.used.keys()
            nodes = frozenset((kind, way.fresh.get(kind, 0) + way.used.get(kind, 0)) for kind in kinds)
            found.add(None if any((_REFUSED, 1) in kind for kind in kinds) else nodes)
            continue
        after = step(way)
        if not after:
            found.add(None)
        for one in after:
            if len(after) == 1 or one.key not in seen:
                seen.add(one.key)
                open_ways.append(one)
        if len(open_ways) > _MOST or len(found) > _MOST:
            return None
    return found


def _pack(way: _Way) -> list[_Way]:
    """The first bundle chooses a node, which takes of the others what it can."""
    after = []
    for node in _best(way.waiting[0][0], way.fresh):
        left, rest = node, []
        for bundle, count in way.waiting:
            free = dict(left)
            taken = min(count, *(free.get(name, 0) // units for name, units in bundle))
            left = _less(left, bundle, taken) if taken else left
            if taken < count:
                rest.append((bundle, count - taken))
        after.append(_Way(tuple(rest), _moved(way.fresh, node, None), _moved(way.used, None, left)))
    return after


def _strict_pack(way: _Way) -> list[_Way]:
    """All bundles go to the node that is best for their sum."""
    amounts: dict[str, int] = {}
    for bundle, count in way.waiting:
        for name, units in bundle:
            amounts[name] = amounts.get(name, 0) + count * units
    after = []
    for node in _best(frozenset(amounts.items()), way.fresh):
        left = node
        for bundle, count in way.waiting:
            left = _less(left, bundle, count)
        after.append(_Way((), _moved(way.fresh, node, None), _moved(way.used, None, left)))
    return after


def _spread(way: _Way) -> list[_Way]:
    """Each bundle chooses a node that has none yet, and one of those that have where no other can."""
    bundle = way.waiting[0][0]
    return _strict_spread(way) or [
        _Way(way.without_first(), way.fresh, _moved(way.used, node, _less(node, bundle)))
        for node in _best(bundle, way.used)
    ]


def _strict_spread(way: _Way) -> list[_Way]:
    """Each bundle chooses a node that has none yet."""
    bundle = way.waiting[0][0]
    return [
        _Way(way.without_first(), _moved(way.fresh, node, None), _moved(way.used, None, _less(node, bundle)))
        for node in _best(bundle, way.fresh)
    ]


def _actor(way: _Way) -> list[_Way]:
    """What is in no group goes to any node, to one without devices first (``scheduler_avoid_gpu_nodes``)."""
    (bundle, _), nodes = way.waiting[0], way.fresh
    able = [node for node in nodes if _available(dict(node), bundle)]
    without = [node for node in able if not dict(node).get("GPU")]
    return [
        _Way(way.without_first(), _moved(nodes, node, None), _moved(way.used, None, _less(node, bundle)))
        for node in without or able
    ]


_STEPS = {
    "PACK": _pack,
    "STRICT_PACK": _strict_pack,
    "SPREAD": _spread,
    "STRICT_SPREAD": _strict_spread,
    "ACTOR": _actor,
}


def _runs(bundles: Sequence[_Amounts], own: Sequence[str]) -> tuple[tuple[_Amounts, int], ...]:
    """The bundles in the order in which Ray takes them, those that are alike together."""

    def rank(bundle: _Amounts) -> tuple[int, ...]:
        amounts = dict(bundle)
        return tuple(amounts.get(name, 0) for name in ("GPU", *own, *_LAST))

    alike = groupby(sorted(bundles, key=rank, reverse=True))
    return tuple((bundle, sum(1 for _ in run)) for bundle, run in alike)


def _best(bundle: _Amounts, nodes: Mapping[_Amounts, int]) -> list[_Amounts]:
    """The nodes with the largest share left of what is asked for; several where they come out even."""
    scores = {node: score for node in nodes if (score := _score(dict(node), bundle)) is not None}
    most = max(scores.values(), default=0.0)
    return [node for node, score in scores.items() if score > most - _SAME]


def _score(free: Mapping[str, int], bundle: _Amounts) -> float | None:
    if not _available(free, bundle):
        return None
    return math.fsum((free[name] - units) / free[name] for name, units in bundle)


def _available(free: Mapping[str, int], bundle: _Amounts) -> bool:
    return all(free.get(name, 0) >= units for name, units in bundle)


def _less(node: _Amounts, bundle: _Amounts, count: int = 1) -> _Amounts:
    free = dict(node)
    for name, units in bundle:
        free[name] -= count * units
    if _DEVICE.format(0) in free:
        for _ in range(count):
            _hand_out(free, dict(bundle).get("GPU", 0))
    return _amounts_of(free)


def _hand_out(free: dict[str, int], asked: int) -> None:
    """Takes whole devices, or a part of the one that has least and enough."""
    devices = sorted((units for name, units in free.items() if name.startswith("GPU:")), reverse=True)
    whole, part = divmod(asked, _UNITS)
    if devices[:whole] != [_UNITS] * whole:
        free[_REFUSED] = 1
    devices = devices[whole:]
    if part:
        able = [units for units in devices if units >= part]
        if not able:
            free[_REFUSED] = 1
            return
        devices.remove(able[-1])
        devices.append(able[-1] - part)
    for name in [name for name in free if name.startswith("GPU:")]:
        del free[name]
    devices.sort(reverse=True)
    free.update((_DEVICE.format(number), units) for number, units in enumerate(devices) if units)


def _amounts_of(free: Mapping[str, int]) -> _Amounts:
    return frozenset((name, units) for name, units in free.items() if units > 0)


def _moved(nodes: Mapping[_Amounts, int], taken: _Amounts | None, given: _Amounts | None) -> dict[_Amounts, int]:
    """The nodes with one fewer of a kind, and one more of another."""
    moved = dict(nodes)
    for node, change in ((taken, -1), (given, 1)):
        if node is not None:
            moved[node] = moved.get(node, 0) + change
            if not moved[node]:
                del moved[node]
    return moved
