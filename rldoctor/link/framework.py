"""Links one framework: the modules that a launch imports, and all that these import, in the installed sources."""

from __future__ import annotations

import re
from typing import Any

from rldoctor.case import Case
from rldoctor.frameworks import frameworks
from rldoctor.frameworks.record import Framework
from rldoctor.link.follow import Follower
from rldoctor.link.functions import follow_functions
from rldoctor.link.locate import Kind
from rldoctor.link.problems import Problem
from rldoctor.link.sources import Sources
from rldoctor.link.validations import refused_by, refused_by_engine, unlinked, validates

# The packages in which names are looked up. What else a trainer imports has never kept one from starting.
OTHERS = frozenset(
    [
        "vllm",
        "transformers",
        "peft",
        "accelerate",
        "ray",
        "torch",
        "deepspeed",
        "datasets",
        "huggingface_hub",
        "tensordict",
        "megatron",
        "sglang",
        "liger_kernel",
        *(layer.package for record in frameworks() for layer in record.over),
    ]
)

# They stand between the trainers and what they look into, and fall with it: what they import is followed as well.
_BETWEEN = frozenset({"peft"})


def link(
    record: Framework, distribution: str, wanted: list[str], case: Case, sources: Sources, versions: dict[str, str]
) -> dict[str, Any]:
    """What the ``wanted`` modules of one framework, and all that they import, look for and do not find."""
    below = {layer.package for layer in record.over}
    built_on = {m for other in frameworks() if other.name in below and other.trains for m in other.modules}
    own = frozenset({*record.modules, *built_on, *_BETWEEN})
    follower = Follower(sources, own, OTHERS - own, versions, case.environment, _BETWEEN)
    entries = [e for e in wanted if sources.search.find(e).kind is Kind.SOURCE]
    for entry in wanted:
        if entry in entries:
            follower.enter(entry)
        else:
            sources.whole(entry)  # notes one that is there without source
    follow_functions(follower)
    problems = [p for p in follower.problems if not _replaced(p, record, follower)]
    return {
        "name": distribution,
        "version": versions.get(record.modules[0], ""),
        "entries": entries,
        "modules": len(follower.modules),
        "problems": [problem.plain() for problem in problems],
        "validated": validates(record, case),
        "refusal": refused_by(record, case, sources),
    }


def engine(
    record: Framework, distribution: str, case: Case, sources: Sources, versions: dict[str, str]
) -> dict[str, Any]:
    """What the engine's own configuration makes of the launch; nothing is linked for it."""
    return unlinked(distribution, versions.get(record.modules[0], ""), refused_by_engine(record, case, sources))


def _replaced(problem: Problem, record: Framework, follower: Follower) -> bool:
    """Whether the framework itself may put the name there: it does so for packages of which it replaces parts."""
    if problem.of not in {layer.package for layer in record.over} or problem.kind not in ("name", "attribute"):
        return False
    sets = re.compile(rf"\.{problem.name}\s*=[^=]|setattr\([^)\n]*\b{problem.name}\b|[\"']{problem.name}[\"']")
    loaded = (name for name in follower.modules if name.partition(".")[0] in record.modules)
    return any((source := follower.sources.declarations(name)) and sets.search(source.text) for name in loaded)
