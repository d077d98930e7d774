"""How many messages of published releases are traced to the place that prints them.

    python -m benchmarks.messages [--count 1000] [--seed 1] [--alone] [--rough] [--packages torch,datasets]

Places that raise are drawn at random from the tables, from releases drawn at random; their holes are filled with random
values and the text is written as Python would print it, with the frames of the package and without (there messages too
general to tell a place by themselves are left out, and counted). A message counts where the place that was drawn is
named: alone, or among all that print the same words. ``--rough`` takes values as runs have them, and puts a fourth of
the messages each into the log as they are, behind a launcher's prefix, wrapped at 80 columns, and cut."""

from __future__ import annotations

import argparse
import builtins
import random
import string
import sys
import textwrap
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rldoctor.catalogue.registry import load
from rldoctor.knowledge.packages import top_module
from rldoctor.logs.incident import log_run
from rldoctor.logs.raised import traced
from rldoctor.logs.reading import read
from rldoctor.logs.runs import slices
from rldoctor.logs.sources import TextSource
from rldoctor.logs.table import Table as Signatures
from rldoctor.tables.messages import HOLE, Place, Table
from rldoctor.tables.messages.match import Trace, tells

PREFIXES = ("(EngineCore_DP0 pid=41215) ", "(TaskRunner pid=4121, ip=10.0.0.7) ", "[rank3]: ", "0: ", "[default0]:")


@dataclass(frozen=True)
class Drawn:
    """A place with a message that it prints, and the way in which it stands in the log."""

    place: Place
    release: str
    message: str
    way: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="without frames only")
    parser.add_argument("--show", type=int, default=0, help="print so many that were not traced")
    parser.add_argument("--rough", action="store_true", help="values and logs as runs have them")
    parser.add_argument("--packages", default=",".join(Table.packages()), help="draw from their tables alone")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    drawn = [_drawn(chance, given.rough, given.packages.split(",")) for _ in range(given.count)]
    signatures = Signatures(list(load().checks.values()))
    for name, framed in (("with frames", True), ("message alone", False))[given.alone :]:
        telling = [d for d in drawn if framed or tells(d.place)]
        right = wrong = single = 0
        took = 0.0
        for item in telling:
            start = time.perf_counter()
            found = _traced(_log(item, framed), signatures)
            took += time.perf_counter() - start
            hit = found is not None and any(
                _same(place, item.place) for place in (*found.places, *found.others, *found.elsewhere)
            )
            right += hit
            single += found is not None and hit and len({*map(_home, (*found.places, *found.elsewhere))}) == 1
            wrong += found is not None and not hit
            if not hit and given.show > 0:
                given.show -= 1
                print(name, "|", item.place, "|", item.message, "|", found.place if found is not None else None)
        if not framed:
            print(f"too general by themselves: {len(drawn) - len(telling)} of {len(drawn)}")
        share, each = right / len(telling), took / len(telling) * 1e3
        said = f"{right} of {len(telling)} traced ({share:.1%}, {single} to one alone)"
        print(f"{name}: {said}, {wrong} to another place, {each:.1f} ms each")
    size = sum(file.stat().st_size for file in Path(sys.modules[Table.__module__].__file__ or "").parent.rglob("*.xz"))
    print(f"tables: {size / 1e6:.2f} MB")
    return 0


def _drawn(chance: random.Random, rough: bool, packages: list[str]) -> Drawn:
    while True:
        table = Table.load(chance.choice(packages))
        release = chance.choice(table.releases)
        (module, function, type_, template, conditions), positions = chance.choice(_rows(table))
        if table.releases.index(release) not in positions or not function:
            continue
        place = Place(table.package, module, function, type_, template, conditions, ((release, release),))
        parts = template.split(HOLE)
        value = _rough_value if rough else _value
        words = (value(chance) if position % 2 else part for position, part in enumerate(parts))
        way = chance.choice(["plain", "prefixed", "wrapped", "cut"]) if rough else "plain"
        return Drawn(place, release, "".join(words), way)


@cache
def _rows(table: Table) -> list[tuple[tuple[str, str, str, str, tuple[str, ...]], list[int]]]:
    return list(table.rows())


def _value(chance: random.Random) -> str:
    word = "".join(chance.choices(string.ascii_lowercase, k=chance.randint(3, 9)))
    return chance.choice(
        [str(chance.randint(0, 40960)), word, f"{chance.random():.3f}", f"['{word}', 'b']", f"/data/{word}/x", "None"]
    )


def _rough_value(chance: random.Random) -> str:
    word = "".join(chance.choices(string.ascii_lowercase, k=chance.randint(3, 9)))
    return chance.choice(
        [
            f"/mnt/My Drive/{word} runs/ckpt (3)/model-00001-of-00004.safetensors",
            str([chance.randint(0, 151_000) for _ in range(chance.randint(20, 60))]),
            str([word] * 12),
            "tensor([[0.1250, -1.0000],\n        [   nan,  3.5000]], device='cuda:0', grad_fn=<MulBackward0>)",
            "torch.Size([8, 4096, 152064])",
            "{'a': {'b': 1}, \"c\": [None, True]}",
            "{{no template}} {0} %s 100%",
            "数据集/模型-é ü ñ 🚀",
            f"one line\nand another of {word}\n\nand a third",
            f"<class 'transformers.models.qwen2.modeling_qwen2.{word.title()}'>",
            f"<{word}.Foo object at 0x7f3c2a1b9d90>",
            f"https://huggingface.co/{word}/model/resolve/main/config.json?download=true&x=%20",
            f'"it\'s {word}"',
            f"{chance.random():.3e}",
            "",
        ]
    )


def _log(item: Drawn, framed: bool) -> str:
    text = _traceback(item, framed)
    prefix = PREFIXES[len(item.message) % len(PREFIXES)] if item.way == "prefixed" else ""
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def _said(item: Drawn) -> str:
    # Python names the module of an exception that is none of its own.
    own = hasattr(builtins, item.place.type)
    type_ = item.place.type if own else f"{top_module(item.place.package)}.errors.{item.place.type}"
    said = f"{type_}: {item.message}".removesuffix(": ")
    if item.way == "wrapped":
        return "\n".join(part for line in said.split("\n") for part in textwrap.wrap(line, 80) or [""])
    kept = max(len(type_) + 20, len(said) * 2 // 3)
    return f"{said[:kept]}..." if item.way == "cut" and kept < len(said) else said


def _traceback(item: Drawn, framed: bool) -> str:
    place, said = item.place, _said(item)
    if not framed:
        return f"INFO 01-01 10:00:00 start\n{said}\n"
    code = f"raise {place.type}("
    if place.type == "AssertionError" and place.conditions:
        code = f"assert {place.conditions[-1].removeprefix('not (').removesuffix(')')}"
    return (
        "INFO 01-01 10:00:00 start\n"
        "Traceback (most recent call last):\n"
        '  File "/home/user/train.py", line 12, in <module>\n'
        "    main()\n"
        f'  File "/opt/env/lib/python3.12/site-packages/{place.module.replace(".", "/")}.py", line 57, '
        f"in {place.function.rpartition('.')[2]}\n"
        f"    {code}\n"
        f"{said}\n"
    )


def _traced(text: str, signatures: Signatures) -> Trace | None:
    run, _ = log_run(slices(read(TextSource("log", text.encode()), signatures)), signatures)
    return traced(run.root, run.versions) if run.root is not None else None


def _same(one: Place, other: Place) -> bool:
    return _home(one) == _home(other)


def _home(place: Place) -> tuple[str, str, str]:
    return place.package, place.module, place.function


if __name__ == "__main__":
    sys.exit(main())
