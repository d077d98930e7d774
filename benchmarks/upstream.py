"""All example launches of the frameworks' own repositories, judged as their users would run them.

The releases stand in ``upstream.csv``. Each is taken from a clone (``git clone --bare https://github.com/OWNER/NAME
CLONES/OWNER+NAME``), laid out under ``--trees`` and read file by file, with the packages that its release is meant for,
on a machine of eight GPUs. ``--launches`` gets a row of JSON for each launch: what was found, and what it cost.

Targets: 99% of the files read that start a launch with rollouts, no error that is none, a median of 0.45 CPU seconds.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from rldoctor.errors import InputError, OutOfScopeError
from rldoctor.flow.run import examine, of_target
from rldoctor.flow.session import Options, Session, open_session
from rldoctor.plan.model import RolloutPlan

RELEASES = Path(__file__).with_suffix(".csv")
GPUS = [{"name": "NVIDIA H100 80GB HBM3", "memory_gib": 80, "compute_capability": "9.0", "count": 8}]
# Scripts are launches wherever they lie; the others where a repository keeps its examples.
SCRIPTS = {".sh", ".sbatch", ".slurm"}
OTHERS = {".yaml", ".yml", ".toml", ".py", ".ipynb"}
EXAMPLES = {"examples", "example", "recipe", "recipes", "research", "configs", "scripts", "nb"}
# Of a clone: larger ones are data or pictures, and some clones lack them.
LARGEST = 1 << 20


@dataclass(frozen=True)
class Release:
    """A repository at a tag, with the packages that it runs with."""

    repository: str
    tag: str
    packages: dict[str, str]

    @property
    def name(self) -> str:
        return f"{self.repository.partition('/')[2]}@{self.tag}"


@dataclass
class Tally:
    """What the files of one release came to: launches read, files apart that start nothing with rollouts, refusals."""

    files: int = 0
    apart: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)


def releases(only: list[str]) -> Iterator[Release]:
    with RELEASES.open(newline="") as rows:
        for row in csv.DictReader(rows):
            packages = dict(package.split("==", 1) for package in row["packages"].split())
            release = Release(row["repository"], row["tag"], packages)
            if not only or any(part in release.name for part in only):
                yield release


def lay_out(release: Release, clones: Path, trees: Path) -> Path:
    """The release's files under ``trees``, from its clone; as they are where they lie there already."""
    tree = trees / release.name
    if tree.is_dir():
        return tree
    clone = clones / release.repository.replace("/", "+")
    head = next(
        found
        for found in (clone / "HEAD", clone / ".git/HEAD", *clone.glob("*/HEAD"), *clone.glob("*/.git/HEAD"))
        if found.is_file()
    )
    git = ["git", f"--git-dir={head.parent}"]
    listed = subprocess.run([*git, "ls-tree", "-rlz", release.tag], capture_output=True, text=True, check=True).stdout
    for row in listed.split("\0")[:-1]:
        meta, _, name = row.partition("\t")
        mode, kind, blob, size = meta.split()
        if kind == "blob" and size.isdigit() and int(size) <= LARGEST:
            file = tree / name
            file.parent.mkdir(parents=True, exist_ok=True)
            data = subprocess.run([*git, "cat-file", "blob", blob], capture_output=True, check=True).stdout
            if mode == "120000":
                file.symlink_to(data.decode())
            else:
                file.write_bytes(data)
    return tree


def launch_files(tree: Path) -> list[Path]:
    """The files of a tree that may be launches."""

    def may(file: Path) -> bool:
        folders = {part.lower() for part in PurePath(file.relative_to(tree)).parts[:-1]}
        named = any(folder in EXAMPLES or folder.endswith("_scripts") for folder in folders)
        return file.suffix in SCRIPTS or (file.suffix in OTHERS and named)

    return sorted(file for file in tree.rglob("*") if may(file) and file.is_file() and ".github" not in file.parts)


_session: Session


def _open(assume: tuple[str, ...]) -> None:
    global _session
    _session = open_session(Options(assume=assume, level="static"))


def judge(file: Path) -> tuple[str, str | list[dict[str, Any]]]:
    """The rows of a file's launches; why it is apart; why it is refused."""
    start = time.process_time()
    try:
        examined = examine(of_target(_session, file), lambda _: None)
    except OutOfScopeError as error:
        return "apart", str(error)
    except InputError as error:
        return ("apart" if "starts nothing that" in str(error) else "refused"), str(error)
    except Exception as error:  # a crash is what a benchmark is to find, not to end with
        return "refused", f"{file}: crashed: {error!r}"
    cost = (time.process_time() - start) / len(examined)
    rows = []
    for one in examined:
        plan = one.case.plan
        assert plan is not None
        rows.append(
            {
                "file": str(file),
                "line": plan.line,
                "framework": plan.framework,
                "entry": plan.entry,
                **_settings(plan),
                "cpu": round(cost, 4),
                "notes": [note.text for note in plan.notes],
                "missing": [str(missing) for missing in one.report.missing],
                "crashed": [f"{r.code}: {r.reason}" for r in one.report.results if r.traceback],
                "findings": [
                    {
                        "code": found.code,
                        "severity": found.severity.value,
                        "message": found.message,
                        "evidence": [f"{e.source}:{e.line} {e.text}" for e in found.evidence],
                    }
                    for found in one.report.findings
                ],
            }
        )
    return "launches", rows


def _settings(plan: RolloutPlan) -> dict[str, Any]:
    parts = [part for part in (plan, plan.server) if part is not None]
    return {
        "given": sum(len(part.given) for part in parts),
        "beside": sum(part.beside for part in parts),
        "unread": [f"{given.form.value} {given.key}" for part in parts for given in part.unread],
    }


def scan(release: Release, tree: Path, jobs: int) -> Tally:
    machine = tree.with_name(f"{tree.name}.json")
    machine.write_text(json.dumps({"python": "3.12.11", "packages": release.packages, "env": {}, "gpus": GPUS}))
    files = launch_files(tree)
    tally = Tally(files=len(files))
    with ProcessPoolExecutor(jobs, initializer=_open, initargs=((str(machine),),)) as pool:
        for outcome, what in pool.map(judge, files, chunksize=4):
            getattr(tally, outcome).extend([what] if isinstance(what, str) else what)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    parser.add_argument("--trees", type=Path, required=True, help="where the releases are laid out")
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="of NAME@TAG; repeatable")
    parser.add_argument("--launches", type=Path, help="gets a row for each launch")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print("release                     files  apart refused launches unread%  CPU s  errors and warnings")
    with (options.launches or Path("/dev/null")).open("w") as out:
        for release in releases(options.only):
            tally = scan(release, lay_out(release, options.clones, options.trees), options.jobs)
            report(release, tally)
            for outcome in ("launches", "refused", "apart"):
                for what in getattr(tally, outcome):
                    row = {"what": what} if isinstance(what, str) else what
                    out.write(json.dumps({"release": release.name, "outcome": outcome, **row}) + "\n")
            out.flush()


def report(release: Release, tally: Tally) -> None:
    """One line for a release."""
    given = sum(row["given"] - row["beside"] for row in tally.launches)
    unread = sum(len(row["unread"]) for row in tally.launches)
    cost = statistics.median(row["cpu"] for row in tally.launches) if tally.launches else 0.0
    said: Counter[str] = Counter()
    for row in tally.launches:
        said.update({f"{f['code']} {f['severity']}" for f in row["findings"] if f["severity"] in ("error", "warning")})
    kinds = ", ".join(f"{kind} {count}" for kind, count in said.most_common())
    print(
        f"{release.name:27} {tally.files:5} {len(tally.apart):6} {len(tally.refused):7} {len(tally.launches):8} "
        f"{100 * unread / max(given, 1):7.2f} {cost:6.3f}  {kinds}",
        flush=True,
    )


if __name__ == "__main__":
    main()
