"""How much of published launch files is understood, and what the static checks say of them.

A corpus is a folder with a ``manifest.jsonl``: one row for each launch file with ``path``, ``framework``, ``version``
(null where it is not known), and optionally ``tag`` (``v0.8.5``, ``skyrl_train-v0.2.0``), ``sample``, ``fragment`` and
``parse_quirk``. Each file is read and judged with the row's version of its framework; all other packages are unknown,
except those that ``--with`` names.
What the same environment gets without a launch file is left out.

Targets: 99% of the files read that start a launch with rollouts, at most 3% unread of the settings that concern a plan,
and no error or warning on an example that is not really broken.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rldoctor.case import Case, Distribution, Packages
from rldoctor.catalogue import registry
from rldoctor.catalogue.check import Check
from rldoctor.errors import InputError, OutOfScopeError
from rldoctor.judge import judge
from rldoctor.launch.plans import plans
from rldoctor.model import CheckResult, Severity
from rldoctor.plan.model import RolloutPlan

_TAG = re.compile(r"(?:(?P<package>[A-Za-z][\w-]*?)-)?v(?P<version>\d+(?:\.\d+)+\S*)$")
# Judged for an interpreter that no check finds fault with by itself.
PYTHON = "3.12.11"
LOUD = (Severity.ERROR, Severity.WARNING)


@dataclass
class Tally:
    """What one framework's files came to. ``apart`` are those that start nothing with rollouts. ``given`` counts
    settings in the files, ``beside`` those of them that do not concern a plan, ``unread`` those that may and that
    nothing understood."""

    files: int = 0
    apart: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    launches: Counter[str] = field(default_factory=Counter)
    given: int = 0
    beside: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    slowest: float = 0.0

    @property
    def read(self) -> float:
        """The share, in percent, that was read of the files that start a launch with rollouts."""
        launching = self.files - len(self.apart)
        return 100 * (launching - len(self.errors)) / max(launching, 1)

    @property
    def missed(self) -> int:
        """How many given settings nothing understood."""
        return sum(self.unread.values())

    @property
    def share(self) -> float:
        """The unread share, in percent, of the settings that concern a plan."""
        return 100 * self.missed / max(self.given - self.beside, 1)


def rows(corpus: Path, sample: str | None, frameworks: list[str]) -> Iterator[dict[str, Any]]:
    """The launch files of a corpus; excerpts of documents that are no whole launch are left out."""
    for line in (corpus / "manifest.jsonl").read_text().splitlines():
        row = json.loads(line)
        wanted = (sample is None or row.get("sample") == sample) and (not frameworks or row["framework"] in frameworks)
        if wanted and not row.get("fragment"):
            yield row


def package(row: dict[str, Any]) -> tuple[str, str | None]:
    """The package whose version a row tells. A release's tag counts before what the package says of itself there,
    which is often still the version before."""
    tag = _TAG.match(row.get("tag") or "")
    if tag is None:
        return row["framework"], row.get("version")
    name = (tag["package"] or "").replace("_", "-")
    return (name if name.startswith(row["framework"]) else row["framework"]), tag["version"]


def examine(path: Path, row: dict[str, Any], beside: dict[str, str], checks: list[Check], tally: Tally) -> None:
    """Reads one file, judges its launches and adds both to the tally."""
    name, version = package(row)
    versions = {**beside, **({name: version} if version else {})}
    installed = tuple(Distribution(name=package, version=found) for package, found in versions.items())
    # Incomplete: a package that the row does not tell of is unknown, not absent.
    case = Case(packages=Packages(python=PYTHON, distributions=installed, complete=False))
    beforehand = {(result.code, reason) for result in judge(checks, case) for reason in _complaints(result)}
    start = time.perf_counter()
    found = plans(path, case)
    tally.slowest = max(tally.slowest, time.perf_counter() - start)
    if not found:
        tally.apart.append(f"{row['path']}: starts nothing that rldoctor knows")
    for plan in found:
        _count(plan, tally)
        for result in judge(checks, replace(case, plan=plan)):
            new = [said for said in _complaints(result) if (result.code, said) not in beforehand]
            if result.traceback:
                tally.errors.extend(f"{row['path']}: {result.code} crashed: {said}" for said in new)
                continue
            for said in new:
                where = f"{name} {version or '?'}  {row['path']}:{plan.line}"
                tally.findings.append(
                    f"{result.code} {said.partition(':')[0]}  {where}\n      {said.partition(': ')[2]}"
                )


def _complaints(result: CheckResult) -> list[str]:
    """What is wrong according to a check, with how wrong it is; why it crashed, if it did."""
    if result.traceback:
        return [f"crash: {result.reason}"]
    return [f"{found.severity.value}: {found.message}" for found in result.findings if found.severity in LOUD]


def _count(plan: RolloutPlan, tally: Tally) -> None:
    tally.launches[plan.framework] += 1
    for part in (plan, plan.server):
        if part is not None:
            tally.given += len(part.given)
            tally.beside += part.beside
            tally.unread.update(f"{given.form.value} {given.key}" for given in part.unread)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--sample", help="only rows with this 'sample'")
    parser.add_argument("--framework", action="append", default=[], help="only rows of this framework; repeatable")
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        dest="beside",
        metavar="NAME==VERSION",
        help="installed beside; repeatable",
    )
    parser.add_argument("--unread", action="store_true", help="list the keys that nothing understood")
    options = parser.parse_args()
    checks = registry.load().select()
    beside = dict(package.split("==", 1) for package in options.beside)
    tallies: dict[str, Tally] = defaultdict(Tally)
    for row in rows(options.corpus, options.sample, options.framework):
        tally = tallies[row["framework"]]
        tally.files += 1
        try:
            examine(options.corpus / row["path"], row, beside, checks, tally)
        except OutOfScopeError as error:
            tally.apart.append(f"{row['path']}: {error}")
        except InputError as error:
            quirk = f" (published so: {row['parse_quirk']})" if row.get("parse_quirk") else ""
            tally.errors.append(f"{row['path']}: {error}{quirk}")
    report(tallies, options.unread)


def report(tallies: dict[str, Tally], keys: bool) -> None:
    """One line per framework, then what was refused, unread and found."""
    print("framework    files apart errors read %  given understood beside unread     %  read as")
    for name, tally in sorted(tallies.items()):
        understood = tally.given - tally.beside - tally.missed
        read_as = ", ".join(f"{framework} {count}" for framework, count in tally.launches.most_common())
        print(
            f"{name:12} {tally.files:5} {len(tally.apart):5} {len(tally.errors):6} {tally.read:6.1f} "
            f"{tally.given:6} {understood:10} {tally.beside:6} "
            f"{tally.missed:6} {tally.share:5.1f}  {read_as}"
        )
    for name, tally in sorted(tallies.items()):
        for heading, lines in (("apart", tally.apart), ("errors", tally.errors), ("findings", tally.findings)):
            if lines:
                print(f"\n{name}: {heading}")
                print("\n".join(f"   {line}" for line in lines))
        if keys and tally.unread:
            print(f"\n{name}: unread")
            print("\n".join(f"   {count:4} {key}" for key, count in tally.unread.most_common()))


if __name__ == "__main__":
    main()
