"""Makes the tables of frames: the layout of functions in every module of every release."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping

from rldoctor.frameworks import packages
from rldoctor.knowledge.packages import top_module
from rldoctor.refresh.modules import OLDEST, module_name, modules, order
from rldoctor.refresh.releases import Publications, news, with_releases
from rldoctor.tables.frames import Layout, Table

SINCE = {
    **OLDEST,
    "deepspeed": "0.15.0",
    "ray": "2.40.0",
    **{one.name: one.since for one in packages() if one.published and one.since and not one.monthly},
}
COVERED = tuple(SINCE)
# Architectures, kernels and what is compiled: a traceback through them also goes through the rest.
_LEFT_OUT = re.compile(
    r"^transformers/(?:models|pipelines|integrations|quantizers|data)/"
    r"|^vllm/(?:model_executor/(?:models|layers|kernels)|models|transformers_utils|tool_parsers|reasoning|benchmarks"
    r"|compilation|distributed/kv_transfer|kernels|third_party|vllm_flash_attn|entrypoints/openai|parser)/"
    r"|^ray/(?!_private/[^/]+\.py|_common/|util/[^/]+\.py|experimental/channel/|dag/|actor\.py|remote_function\.py)"
    r"|^deepspeed/(?:inference|model_implementations|ops|autotuning)/"
    r"|^\w+/(?:(?:llm/)?model|template|dataset|monkeypatch|prompt_strategies|integrations)/"
)
_DEFINED = re.compile(r"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)")


def refresh(package: str, published: Publications, say: Callable[[str], None]) -> list[str]:
    """Reads the releases that the table lacks and writes it. Returns what changed, a line each.

    Raises ``OSError`` where the index does not answer."""
    chosen = published.releases(package, SINCE[package], beside=False)
    table = Table.load(package) if package in Table.packages() else None
    known = table.releases if table is not None else []
    rows: dict[tuple[str, Layout], set[str]] = defaultdict(
        set, with_releases(known, table.rows()) if table is not None else {}
    )
    fresh = [release for release in chosen if release.version not in known]
    for release in fresh:
        count = 0
        for path, text in modules(release.open(), top_module(package), but=_LEFT_OUT):
            found = layout(text)
            if any(found):
                count += 1
                rows[module_name(path), found].add(release.version)
        say(f"{package} {release.version}: {count} modules")
    content = encoded(rows, sorted((release.version for release in chosen), key=order))
    Table.write(package, content)
    return news([release.version for release in fresh])


def layout(text: str) -> Layout:
    """The functions of a module."""
    functions, lines = [], []
    before = 0
    for number, line in enumerate(text.split("\n"), 1):
        match = _DEFINED.match(line)
        if match is not None:
            functions.append(f"{match[2]} {len(match[1].expandtabs(4)) // 4}")
            lines.append(f"{number - before}")
            before = number
    return ";".join(functions), " ".join(lines)


def encoded(rows: Mapping[tuple[str, Layout], set[str]], releases: list[str]) -> dict[str, list[str]]:
    """The table's content: of each module its layouts a line each, the oldest first, in columns; ``spans`` are the
    releases as ``first last first last``, by position."""
    found: dict[str, list[tuple[list[int], Layout]]] = defaultdict(list)
    for (module, said), versions in rows.items():
        there = [position for position, release in enumerate(releases) if release in versions]
        if there:
            found[module].append(([p for p in there for edge in (p - 1, p + 1) if edge not in there], said))
    ordered = {module: sorted(layouts) for module, layouts in sorted(found.items())}
    return {
        "releases": releases,
        "modules": list(ordered),
        "functions": ["\n".join(functions for _, (functions, _) in layouts) for layouts in ordered.values()],
        "lines": ["\n".join(lines for _, (_, lines) in layouts) for layouts in ordered.values()],
        "spans": ["\n".join(" ".join(map(str, spans)) for spans, _ in layouts) for layouts in ordered.values()],
    }
