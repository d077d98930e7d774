"""Which release brought an architecture (vLLM) or a model type (transformers), from the registries in their wheels.

``python -m rldoctor.knowledge.registries`` reads every release over the network, the registry files alone, and writes
``registries.json``. What the oldest release read has is entered as ``0``: it may have come before."""

from __future__ import annotations

import ast
import datetime
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rldoctor.knowledge import table
from rldoctor.versions import parsed, version_within

BEFORE = "0"
VLLM = ("vllm/model_executor/models/registry.py",)
TRANSFORMERS = ("transformers/models/auto/configuration_auto.py", "transformers/models/auto/auto_mappings.py")
OLDEST = {"vllm": "0.6.3", "transformers": "4.37.0"}


@dataclass(frozen=True)
class First:
    """The first release that is known to have a name. With ``oldest`` it is the first one of the table, and those
    before it may have had the name too."""

    release: str
    oldest: bool = False

    def __str__(self) -> str:
        return f"{self.release} or earlier" if self.oldest else self.release

    def known_to(self, version: str) -> bool | None:
        """Whether a release has the name; None where that cannot be told."""
        later = version_within(version, f">={self.release}")
        return None if self.oldest and not later else later


def architecture_since(architecture: str) -> First | None:
    """The first vLLM release with an implementation of its own; None where no release of the table has one."""
    return _first("vllm", architecture)


def model_type_since(model_type: str) -> First | None:
    """The first transformers release that knows a ``model_type``; None where no release of the table does."""
    return _first("transformers", model_type)


def _first(package: str, name: str) -> First | None:
    since = _firsts()[package].get(name)
    if since is None:
        return None
    return First(OLDEST[package], oldest=True) if since == BEFORE else First(since)


@lru_cache(maxsize=1)
def _firsts() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = table("registries")["first"]
    return found


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


def read(package: str, members: tuple[str, ...], parse: Callable[[str], set[str]]) -> dict[str, set[str]]:
    """What each final release from :data:`OLDEST` on has, read by range requests from its wheel."""
    import zipfile

    from rldoctor.knowledge.package_index import archives, default_index
    from rldoctor.tables.options.archives import RangedFile

    found = {}
    oldest: Any = parsed(OLDEST[package])
    for version, files in archives(default_index(), package).items():
        release = parsed(version)
        wheels = [file for file in files if file.filename.endswith(".whl") and "aarch64" not in file.filename]
        if release is None or release.is_prerelease or release < oldest or not wheels:
            continue
        with zipfile.ZipFile(RangedFile(wheels[0].url)) as wheel:
            there = [member for member in members if member in wheel.namelist()]
            found[version] = set().union(*(parse(wheel.read(member).decode()) for member in there))
        print(f"{package} {version}: {len(found[version])}", file=sys.stderr)
    return found


def main() -> None:
    """Reads the registries anew."""
    first = {
        "vllm": firsts(read("vllm", VLLM, architectures)),
        "transformers": firsts(read("transformers", TRANSFORMERS, model_types)),
    }
    document = {"date": datetime.date.today().isoformat(), "oldest": OLDEST, "first": first}
    file = Path(__file__).with_name("registries.json")
    file.write_text(json.dumps(document, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
