"""What a finding is known by from run to run: the same where lines moved and measured numbers drifted."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rldoctor.model import Evidence, Finding

_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_INSTALLED = re.compile(r"^.*/(?:site|dist)-packages/")


def repository() -> Path:
    """The repository that this folder is in, else this folder."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def of(findings: Iterable[Finding], root: Path) -> tuple[str, ...]:
    """The fingerprints of the findings of one report, each different: of several that are alike, the second gets
    another than the first. Files below ``root`` count with their path, others with their name."""
    seen: Counter[str] = Counter()
    reported = []
    for finding in findings:
        raw = _raw(finding, root)
        seen[raw] += 1
        reported.append(hashlib.sha256(f"{raw}:{seen[raw]}".encode()).hexdigest()[:32])
    return tuple(reported)


def _raw(finding: Finding, root: Path) -> str:
    """The code, the files and what stands there; the message where no file says it."""
    places = [(_name(place, root), _masked(place.text)) for place in finding.evidence if place.source and place.line]
    return json.dumps([finding.code, places or _masked(finding.message)])


def _name(place: Evidence, root: Path) -> str:
    """A file as every checkout and every machine names it."""
    path = Path(place.source or "").absolute()
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    installed = _INSTALLED.sub("", path.as_posix())
    return installed if installed != path.as_posix() else path.name


def _masked(text: str) -> str:
    """Text of one line without its numbers: free memory, process ids and times differ each time."""
    return _NUMBER.sub("#", " ".join(text.split()))
