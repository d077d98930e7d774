"""The modules of a package's releases: which are read, what they are called, from which release on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from packaging.version import Version

from rldoctor.frameworks import packages
from rldoctor.refresh.releases import minor
from rldoctor.tables.sources.trees import SourceTree

# The oldest release that is read of each package beside the frameworks; older ones trained without vLLM rollouts.
OLDEST = {"vllm": "0.6.3", "transformers": "4.43.0", "peft": "0.13.0", "accelerate": "1.0.0"}
# These change from patch to patch, and what lies in a repository costs little; of the others the newest of every minor
# release is read.
EVERY = frozenset(
    {
        *("vllm", "peft", "accelerate", "deepspeed", "sglang", "liger-kernel", "tensordict", "xgrammar"),
        *(package.name for package in packages() if package.symbols or not package.published),
    }
)
# What nobody imports from outside.
_INNER = re.compile(r"(?:^|/)(?:tests?|test_utils|testing|benchmarks?|third_party|examples?|_vendor|migration)(?:/|$)")


def modules(
    tree: SourceTree, top: str, *, stubs: bool = False, but: re.Pattern[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Path and text of every module below a top-level package that runs outside its own tests, with ``stubs`` of what
    is compiled too, without those that ``but`` finds."""
    endings = (".py", ".pyi") if stubs else (".py",)
    for path in tree.names(top):
        if path.endswith(endings) and not _INNER.search(path) and not (but is not None and but.search(path)):
            yield path, tree.read(path) or ""


def module_name(path: str) -> str:
    """``vllm/config/__init__.py`` is ``vllm.config``."""
    return path.removesuffix("i").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def grouping(package: str) -> Callable[[Version], object]:
    """What the releases of a package have in common of which the newest is read."""
    return (lambda version: version) if package in EVERY else minor


def order(version: str) -> tuple[int, ...]:
    """Sorts releases; post releases come after the one that they mend."""
    return tuple(int(part) for part in re.findall(r"\d+", version))
