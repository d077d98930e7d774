"""How far the link check agrees with what the packages' makers say goes together, and how long it takes.

    python -m benchmarks.link FOLDER

The folder holds unpacked wheels as ``NAME-VERSION`` (``trl-0.19.1/trl/...``). Every pair of a framework and a vLLM in
it is linked, beside the newest of every other package there. A pair is healthy where the framework's published metadata
admits that vLLM; a healthy pair with a finding is looked at by a person."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rldoctor.case import Case, Distribution, Packages
from rldoctor.case.lookup import Absent
from rldoctor.frameworks import frameworks
from rldoctor.knowledge.requirements import needs_of
from rldoctor.link.observe import observe
from rldoctor.tables import declarations


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    named = [path.name.rpartition("-")[::2] for path in found]
    trainers = {p.name for record in frameworks() if record.imports and record.trains for p in record.packages}
    beside = {name: version for name, version in named if name not in (*trainers, "vllm")}
    times: list[float] = []
    warm: list[float] = []
    rows = []
    for name, version in named:
        for engine, release in named:
            if name not in trainers or engine != "vllm":
                continue
            case = _case(folder, {**beside, name: version, engine: release})
            with tempfile.TemporaryDirectory() as cache:
                os.environ["XDG_CACHE_HOME"] = cache
                start = time.perf_counter()
                links = observe(case)
                times.append(time.perf_counter() - start)
                start = time.perf_counter()
                observe(case)
                warm.append(time.perf_counter() - start)
            if isinstance(links, Absent) or not isinstance(links, dict):
                continue
            missing = [
                f"{p['file']}:{p['line']} {p['name']}"
                for framework in links["frameworks"]
                for p in framework["problems"]
                if p["when"] == "import" and p["of"] == "vllm"
            ]
            rows.append((f"{name} {version}", release, _declared(case), missing))
            said = {True: "declared", False: "outside", None: "silent"}[rows[-1][2]]
            print(
                f"{name:8} {version:8} vllm {release:8} {said:9} {len(missing)} {missing[0] if missing else ''}",
                flush=True,
            )
    healthy = [row for row in rows if row[2]]
    alarms = sum(bool(row[3]) for row in healthy)
    outside = [row for row in rows if row[2] is False]
    print(f"{len(rows)} pairs: {len(healthy)} declared, {alarms} of them with a finding; ", end="")
    print(f"{len(outside)} outside, {sum(bool(row[3]) for row in outside)} of them with a finding")
    print(
        f"cold {statistics.median(times):.2f} s (at most {max(times):.2f}), warm {statistics.median(warm) * 1e3:.0f} ms"
    )
    return 0


def _case(folder: Path, versions: dict[str, str]) -> Case:
    distributions = []
    for name, version in versions.items():
        published = declarations.release(name, version)
        location = str(folder / f"{name}-{version}")
        requires = published.requires if published is not None else ()
        distributions.append(Distribution(name=name, version=version, location=location, requires=requires))
    return Case(packages=Packages(python="3.12.1", distributions=tuple(distributions)))


def _declared(case: Case) -> bool | None:
    """Whether the framework's own metadata admits the vLLM; None where it says nothing."""
    assert case.packages is not None
    engine = next(d for d in case.packages.distributions if d.name == "vllm")
    demands = [d for d in needs_of(case).on("vllm") if d.reason is None]
    return (
        all(demand.admits(engine.version) or demand.tolerates(engine.version) for demand in demands)
        if demands
        else None
    )


if __name__ == "__main__":
    sys.exit(main())
