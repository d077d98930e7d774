"""Makes ``registries.json`` from the registry files of the releases, which are read as source and never imported."""

from __future__ import annotations

import ast
import datetime
import json
from collections.abc import Callable, Iterator

from rldoctor.refresh.releases import Publications
from rldoctor.tables.registries import BEFORE, OLDEST, TABLE

COVERED = tuple(OLDEST)


def architectures(text: str) -> set[str]:
    """The classes of vLLM's ``registry.py``: the keys of its tables of models."""
    tables = [
        value for name, value in _assigned(text) if name.endswith(("_MODELS", "_BACKEND")) and "PREVIOUS" not in name
    ]
    return {
        key.value
        for table in tables
        if isinstance(table, ast.Dict)
        for key in table.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def model_types(text: str) -> set[str]:
    """The model types of transformers' ``CONFIG_MAPPING_NAMES``, a list of pairs."""
    found = set()
    for name, value in _assigned(text):
        pairs = (n for n in ast.walk(value) if isinstance(n, ast.Tuple) and len(n.elts) == 2)
        if name == "CONFIG_MAPPING_NAMES":
            found |= {str(pair.elts[0].value) for pair in pairs if isinstance(pair.elts[0], ast.Constant)}
    return found


def _assigned(text: str) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                yield target.id, node.value


def firsts(releases: dict[str, set[str]]) -> dict[str, str]:
    """For each name the first release that has it; those of the oldest are ``0``."""
    from packaging.version import Version

    ordered = sorted(releases, key=Version)
    first: dict[str, str] = {}
    for version in ordered:
        for name in sorted(releases[version]):
            first.setdefault(name, BEFORE if version == ordered[0] else version)
    return dict(sorted(first.items()))


_REGISTRIES: dict[str, tuple[tuple[str, ...], Callable[[str], set[str]]]] = {
    "vllm": (("vllm/model_executor/models/registry.py",), architectures),
    "transformers": (
        ("transformers/models/auto/configuration_auto.py", "transformers/models/auto/auto_mappings.py"),
        model_types,
    ),
}


def refresh(package: str, published: Publications, say: Callable[[str], None]) -> list[str]:
    """Reads the registry of every release of one package anew. Returns what changed, a line each.

    Raises ``OSError`` where the index does not answer."""
    files, parse = _REGISTRIES[package]
    read = {}
    for release in published.releases(package, OLDEST[package]):
        tree = release.open()
        read[release.version] = {name for file in files for name in parse(tree.read(file) or "")}
        say(f"{package} {release.version}: {len(read[release.version])} names")
    document = json.loads(TABLE.read_text("utf-8"))
    old = document["first"].get(package, {})
    document["first"][package] = firsts(read)
    document["date"] = datetime.date.today().isoformat()
    TABLE.write_text(json.dumps(document, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    fresh = [f"{name} since {since}" for name, since in document["first"][package].items() if name not in old]
    gone = [f"{name} is no longer found" for name in old if name not in document["first"][package]]
    return [*([f"{len(fresh)} new names: {', '.join(fresh)}"] if fresh else []), *gone]
