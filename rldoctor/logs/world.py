"""How many processes and nodes a run has, in the words of what started it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rldoctor.logs.reveals import Reveal, reveal
from rldoctor.logs.runs import Slice
from rldoctor.plan.model import Setting, Source

_NODES, _EACH, _ALL = "process.nnodes", "process.nproc", "process.total"
_SAID = "the launcher's own line says so"


# torch/distributed/launcher/api.py, of a launch that may not grow; deepspeed/launcher/launch.py; the state that
# accelerate prints; Lightning; prime-rl.
WORLD: tuple[Reveal, ...] = (
    reveal("max_nodes        ", r"^\s*max_nodes\s+: (\d{1,5})$", _NODES),
    reveal("nproc_per_node   ", r"^\s*nproc_per_node\s+: (\d{1,4})$", _EACH),
    reveal("num_local_procs=", r"\bnnodes=(\d{1,5}), num_local_procs=\d", _NODES),
    reveal("num_local_procs=", r"\bnnodes=\d{1,5}, num_local_procs=(\d{1,4})\b", _EACH),
    reveal("dist_world_size=", r"^dist_world_size=(\d{1,6})$", _ALL),
    reveal("Num processes: ", r"^Num processes: (\d{1,6})$", _ALL),
    reveal("Starting with ", r"^All distributed processes registered\. Starting with (\d{1,6}) processes$", _ALL),
    reveal("World(world_size=", r"\bWorld\(world_size=(\d{1,6}),", _ALL),
)
TERMS = frozenset(one.what for one in WORLD)


def world(pieces: Sequence[Slice]) -> Mapping[str, Setting]:
    """What the lines of one run agree on, with the first that tells it: processes in all and on each node, nodes."""
    found: dict[str, Setting] = {}
    disputed: set[str] = set()
    for piece in pieces:
        for number, what, value in piece.record.world:
            if number not in piece:
                continue
            said = Setting(value=value, source=Source.DERIVED, file=piece.record.name, line=number, how=_SAID)
            if found.setdefault(what, said).value != value:
                disputed.add(what)
    for what in disputed:
        del found[what]
    nodes, each = found.get(_NODES), found.get(_EACH)
    if nodes is not None and each is not None and _ALL not in found and _ALL not in disputed:
        found[_ALL] = Setting(
            value=nodes.value * each.value, source=Source.DERIVED, file=each.file, line=each.line, how=_SAID
        )
    return found
