"""The modules of a package's releases: which are read, what they are called, from which release on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.tables.sources.trees import SourceTree

# The oldest release that is read of each package beside the frameworks; older ones trained without vLLM rollouts.
OLDEST = {"vllm": "0.6.3", "transformers": "4.46.0", "peft": "0.13.0", "accelerate": "1.0.0"}
# What nobody imports from outside.
_INNER = re.compile(r"(?:^|/)(?:tests?|test_utils|testing|benchmarks?|third_party|examples?|_vendor|migration)(?:/|$)")


def modules(tree: SourceTree, top: str) -> Iterator[tuple[str, str]]:
    """Path and text of every module below a top-level package that runs outside its own tests."""
    for path in tree.names(top):
        if path.endswith(".py") and not _INNER.search(path):
            yield path, tree.read(path) or ""


def module_name(path: str) -> str:
    """``vllm/config/__init__.py`` is ``vllm.config``."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def order(version: str) -> tuple[int, ...]:
    """Sorts releases; post releases come after the one that they mend."""
    return tuple(int(part) for part in re.findall(r"\d+", version))
