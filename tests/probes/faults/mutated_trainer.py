"""``probes/children/ask_trainer.py`` beside a trainer with a fault: ``mutated_trainer.py TRAINER MODULE OLD NEW`` runs
it with a text of this module's source replaced by another."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

CHILDREN = Path(__file__).resolve().parents[3] / "rldoctor" / "probes" / "children"


class Mutation(MetaPathFinder):
    def __init__(self, module: str, old: str, new: str) -> None:
        self.module, self.old, self.new = module, old, new

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == self.module else None
        if spec is None or spec.origin is None:
            return None
        return importlib.util.spec_from_file_location(name, spec.origin, loader=Mutated(name, spec.origin, self))


class Mutated(SourceFileLoader):
    def __init__(self, name: str, path: str, mutation: Mutation) -> None:
        super().__init__(name, path)
        self.mutation = mutation

    def get_code(self, fullname: str) -> Any:
        source = Path(self.path).read_text(encoding="utf-8")
        if self.mutation.old not in source:
            raise SystemExit(f"{self.path} has no {self.mutation.old!r}")
        return compile(source.replace(self.mutation.old, self.mutation.new), self.path, "exec")


if __name__ == "__main__":
    trainer, *mutation = sys.argv[1:]
    if mutation:
        sys.meta_path.insert(0, Mutation(*mutation))
    sys.path.insert(0, str(CHILDREN))
    sys.argv = [str(CHILDREN / "ask_trainer.py"), trainer]
    runpy.run_path(sys.argv[0], run_name="__main__")
