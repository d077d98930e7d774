"""Makes the tables of messages from the sources of published releases."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Mapping

from rldoctor.frameworks import frameworks
from rldoctor.refresh.message_sites import Message, messages
from rldoctor.refresh.modules import OLDEST, grouping, module_name, modules, order, top
from rldoctor.refresh.releases import Publications, news, with_releases
from rldoctor.tables.messages import Table

SINCE = {
    **OLDEST,
    "deepspeed": "0.14.0",
    "ray": "2.30.0",
    "sglang": "0.4.1",
    "megatron-core": "0.8.0",
    # Of a repository's, what its framework refuses is asked for. A fork's modules have its parent's names.
    **{
        package.name: package.since
        for framework in frameworks()
        for package in framework.packages
        if package.since and not package.distribution and (package.published or framework.validations)
    },
}
COVERED = tuple(SINCE)
# One module for each architecture: they say the same of their inputs, and are most of the package. Ray's libraries for
# other work, what SGLang has beside its server, and what a protocol's compiler wrote.
_LEFT_OUT = re.compile(
    r"^transformers/models/(?!auto/)|^ray/(?:rllib|serve|tune|data|train|air|workflow|dashboard|cloudpickle)/"
    r"|^ray/.*(?:thirdparty_files|generated)/|_pb2(?:_grpc)?\.py$"
    r"|^sglang/(?:lang|eval|bench\w*|profiler|multimodal_gen|jit_kernel|cli|test|kernels)(?:/|\.)"
    r"|^sglang/srt/(?:models|multimodal|configs|function_call|hardware_backend|dllm|layers)/"
)
# Of kernels and architectures, an assertion without words says less than the line that a traceback shows.
_KERNELS = re.compile(r"^vllm/(?:model_executor/(?:models|layers)|attention|v1/attention|kernels)/")

Row = tuple[str, str, str, str, tuple[str, ...]]


def refresh(package: str, published: Publications, say: Callable[[str], None]) -> list[str]:
    """Reads the releases that the table lacks and writes it. Returns what changed, a line each.

    Raises ``OSError`` where the index does not answer."""
    chosen = published.releases(package, SINCE[package], grouping(package), beside=False)
    table = Table.load(package) if package in Table.packages() else None
    known = table.releases if table is not None else []
    rows: dict[Row, set[str]] = defaultdict(set, with_releases(known, table.rows()) if table is not None else {})
    kept: dict[bytes, list[Message]] = {}
    fresh = [release for release in chosen if release.version not in known]
    for release in fresh:
        count = 0
        for path, text in modules(release.open(), top(package)):
            if _LEFT_OUT.search(path):
                continue
            digest = hashlib.sha256(f"{path}\0{text}".encode()).digest()
            if digest not in kept:
                kept[digest] = list(messages(text))
            for found in kept[digest]:
                if found.type == "AssertionError" and not found.template and _KERNELS.match(path):
                    continue
                count += 1
                rows[module_name(path), found.function, found.type, found.template, found.conditions].add(
                    release.version
                )
        say(f"{package} {release.version}: {count} messages")
    # A newer patch of a minor release takes the place of the one that was read before.
    releases = sorted((release.version for release in chosen), key=order)
    Table.write(package, encoded(rows, releases))
    return news([release.version for release in fresh])


def encoded(rows: Mapping[Row, set[str]], releases: list[str]) -> dict[str, object]:
    """The table's content: by module and function ``[type, template, numbers of conditions, first, last, ...]``, the
    releases by position."""
    numbers: dict[str, int] = {}
    found: dict[str, dict[str, list[list[object]]]] = {}
    for (module, function, type_, template, conditions), versions in sorted(rows.items()):
        there = [position for position, release in enumerate(releases) if release in versions]
        if there:
            spans = [p for p in there for edge in (p - 1, p + 1) if edge not in there]
            said = [numbers.setdefault(condition, len(numbers)) for condition in conditions]
            found.setdefault(module, {}).setdefault(function, []).append([type_, template, said, *spans])
    return {"releases": releases, "conditions": list(numbers), "modules": found}
