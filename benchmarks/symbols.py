"""How many errors over names and calls that moved between two releases are answered from the tables of symbols.

    python -m benchmarks.symbols [--count 200] [--seed 1] [--show 20]

A name, an attribute or a signature that some releases have and others have not is drawn at random, with a release that
refuses it and somebody who asks for it (a trainer, or a script); the log is what Python prints then. An answer counts
where the first finding has the code of the package and says the releases that have it."""

from __future__ import annotations

import argparse
import collections
import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from rldoctor.logs.triage import triage_text
from rldoctor.tables.symbols import Table
from rldoctor.tables.symbols.fitting import Request, accepting
from rldoctor.tables.symbols.history import history

CODES = {"vllm": {"RLD101", "RLD110"}, "transformers": {"RLD103"}}
OTHERS = {"RLD104"}
SITE = "/opt/env/lib/python3.12/site-packages"
ASKING = {
    "trl": f"{SITE}/trl/trainer/grpo_trainer.py",
    "verl": f"{SITE}/verl/workers/rollout/vllm_rollout/vllm_rollout.py",
    "openrlhf": f"{SITE}/openrlhf/trainer/ray/vllm_engine.py",
    "ms-swift": f"{SITE}/swift/trainers/rlhf_trainer/grpo_trainer.py",
    "script": "/home/user/train.py",
}


@dataclass(frozen=True)
class Drawn:
    """One error: whose name it is, what Python prints, and the releases that an answer must name."""

    package: str
    kind: str
    said: str
    code: str
    releases: tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print so many that were not answered")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    right: collections.Counter[str] = collections.Counter()
    total: collections.Counter[str] = collections.Counter()
    wrong = 0
    took = 0.0
    for _ in range(given.count):
        drawn = _drawn(chance)
        by = chance.choice([name for name in ASKING if name != drawn.package])
        start = time.process_time()
        report = triage_text(_log(drawn, ASKING[by]))
        took += time.process_time() - start
        first = report.findings[0] if report.findings else None
        hit = first is not None and first.code in CODES.get(drawn.package, OTHERS)
        told = hit and first is not None and all(release in first.message for release in drawn.releases)
        total[drawn.kind] += 1
        right[drawn.kind] += told
        wrong += first is not None and not told and first.code not in ("RLD900", "RLD902")
        if not told and given.show > 0:
            given.show -= 1
            print(f"{drawn.kind}: {drawn.said} [{by}] -> {first.code + ' ' + first.message if first else None}")
    for kind, count in total.items():
        print(f"{kind}: {right[kind]} of {count}")
    share = sum(right.values()) / given.count
    print(f"{sum(right.values())} of {given.count} answered ({share:.1%}), {wrong} otherwise, ", end="")
    print(f"{took / given.count * 1e3:.0f} ms CPU each")
    return 0


def _drawn(chance: random.Random) -> Drawn:
    kind = chance.choice(list(_KINDS))
    while True:
        package = chance.choice(Table.packages())
        table = Table.load(package)
        module = chance.choice(table.modules())
        names = [name for name in table.names(module) if name and not name.startswith("_") and "._" not in name]
        found = _KINDS[kind](chance, package, module, chance.choice(names)) if names else None
        if found is not None:
            return found


def _of_name(chance: random.Random, package: str, module: str, name: str) -> Drawn | None:
    known = history(package, module, name) if "." not in name and name.isidentifier() else None
    at_module = history(package, module)
    if known is None or at_module is None or not known.spans or known.spans == at_module.spans:
        return None
    said = f"ImportError: cannot import name '{name}' from '{module}' ({SITE}/{module.replace('.', '/')}.py)"
    return Drawn(package, "name", said, f"from {module} import {name}", _ends(known.spans, known.following))


def _of_module(chance: random.Random, package: str, module: str, name: str) -> Drawn | None:
    known = history(package, module)
    if known is None or known.spans == ((known.first, known.newest),):
        return None
    said = f"ModuleNotFoundError: No module named '{module}'"
    return Drawn(package, "module", said, f"import {module}", _ends(known.spans, known.following))


def _asked(package: str, module: str, asked: Request, kind: str, said: str, code: str) -> Drawn | None:
    found = [one for one in accepting(package, asked) if one.said == f"{module}.{asked.owner}"]
    return Drawn(package, kind, said, code, _ends(found[0].spans, found[0].following)) if found else None


def _of_attribute(chance: random.Random, package: str, module: str, name: str) -> Drawn | None:
    owner, _, member = name.partition(".")
    called = any(span.parameters for span in Table.load(package).spans(module, name))
    if not member or not called:  # a field may be of a class above in other releases
        return None
    said = f"AttributeError: '{owner}' object has no attribute '{member}'"
    return _asked(package, module, Request("attribute", owner, (member,)), "attribute", said, f"made.{member}")


def _of_call(chance: random.Random, package: str, module: str, name: str) -> Drawn | None:
    spans = Table.load(package).spans(module, name)
    lists = [span.parameters.split(",") for span in spans if span.parameters]
    if len(lists) < 2 or (name[:1].isupper() and "." not in name):
        return None
    kind = chance.choice(("argument", "missing", "positions"))
    if kind == "argument":
        words = sorted({word.rstrip("=") for words in lists for word in words} - {"*", "**"})
        word = chance.choice(words) if words else ""
        said = f"TypeError: {name}() got an unexpected keyword argument '{word}'"
        asked = Request("argument", name, (word,))
    elif kind == "missing":
        words = sorted({word for words in lists for word in words if not word.endswith("=")} - {"*", "**"})
        word = chance.choice(words) if words else ""
        said = f"TypeError: {name}() missing 1 required positional argument: '{word}'"
        asked = Request("missing", name, (word,))
    else:
        most = max(len(list(itertools.takewhile(lambda word: word[:1] != "*", words))) for words in lists)
        own = int("." in name)
        said = f"TypeError: {name}() takes {most - 1 + own} positional arguments but {most + own} were given"
        asked = Request("positions", name, (), most)
    return _asked(package, module, asked, kind, said, f"{name.rpartition('.')[2]}(...)")


_KINDS: dict[str, Callable[[random.Random, str, str, str], Drawn | None]] = {
    "name": _of_name,
    "module": _of_module,
    "attribute": _of_attribute,
    "argument, missing, positions": _of_call,
}


def _ends(spans: tuple[tuple[str, str], ...], following: tuple[str, ...]) -> tuple[str, ...]:
    """The releases at the ends of the stretches that have it."""
    starts = [since for since, _ in spans]
    return (*starts, *(until for (_, until), after in zip(spans, following, strict=True) if after))


def _log(drawn: Drawn, file: str) -> str:
    return (
        "INFO 01-01 10:00:00 start\n"
        "Traceback (most recent call last):\n"
        '  File "/home/user/run.py", line 12, in <module>\n'
        "    main()\n"
        f'  File "{file}", line 57, in setup\n'
        f"    {drawn.code}\n"
        f"{drawn.said}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
