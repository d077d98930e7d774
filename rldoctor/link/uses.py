"""What the modules of a package import from others, by its own source alone: what every release of those must have."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from rldoctor.link.follow import Follower, Frame, Raised
from rldoctor.link.locate import SearchPath
from rldoctor.link.problems import When
from rldoctor.link.sources import Sources
from rldoctor.link.values import Value


def uses(root: Path, own: frozenset[str], other: frozenset[str], entries: Iterable[str]) -> frozenset[str]:
    """The modules and names of ``other`` packages, each as ``module:name`` (``module:`` for a module), that the import
    of the entry modules below ``root`` needs whatever the versions: what a condition or an ``except`` stands around is
    not among them. The others are taken to be there, with all that is asked of them."""
    recorder = _Recorder(Sources(SearchPath([root], other)), own, other, {})
    for entry in entries:
        recorder.enter(entry)
    return frozenset(recorder.asked)


class _Recorder(Follower):
    def __init__(self, sources: Sources, own: frozenset[str], other: frozenset[str], versions: dict[str, str]) -> None:
        super().__init__(sources, own, other, versions)
        self.asked: set[str] = set()

    def _reach(self, module: str, node: ast.stmt, frame: Frame) -> Raised | None:
        if "." in module:
            self._note(f"{module}:", frame)
        return super()._reach(module, node, frame)

    def _member(self, module: str, name: str, node: ast.AST, frame: Frame) -> tuple[Value, Raised | None]:
        self._note(f"{module}:{name}", frame)
        return super()._member(module, name, node, frame)

    def _note(self, asked: str, frame: Frame) -> None:
        here = not self.doubts and not frame.local and self.when is When.IMPORT
        guarded = any(self._caught(missing) for missing in ("ModuleNotFoundError", "ImportError"))
        if here and asked.partition(":")[0].partition(".")[0] in self.other and not guarded:
            self.asked.add(asked)
