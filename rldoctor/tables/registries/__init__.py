"""Which release brought an architecture (vLLM) or a model type (transformers), from a dated table that ``make`` writes.

What the oldest release read has is entered as ``0``: it may have come before."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from rldoctor.records import dataclass
from rldoctor.versions import version_within

BEFORE = "0"
TABLE = Path(__file__).with_name("registries.json")
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
        """Whether a release has the name; None where that is not known."""
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
    found: dict[str, dict[str, str]] = msgspec.json.decode(TABLE.read_bytes())["first"]
    return found
