"""Options read from an installed framework's own source, which wins over any table."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rldoctor.case import Unknown
from rldoctor.frameworks.layouts import layout_of
from rldoctor.frameworks.option_table import OptionTable
from rldoctor.tables.options.combine import combined
from rldoctor.tables.options.optionset import OptionSet
from rldoctor.tables.sources.trees import ChainTree, DirectoryTree, PrefixTree, import_roots

if TYPE_CHECKING:
    from rldoctor.tables.options.extract import Extractor


class InstalledOptions:
    """The frameworks found below one folder, a ``site-packages`` or a repository's root. Files are parsed when a group
    is first asked for, and once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.roots = import_roots(directory)
        self._extractors: dict[str, Extractor | None] = {}

    def has(self, framework: str) -> bool:
        """Whether the framework's source lies here."""
        return self._extractor(framework) is not None

    def modules(self, framework: str) -> list[Path]:
        """The folders from which the framework's modules would be imported."""
        return [root / folder for root in self.roots for folder in layout_of(framework).roots]

    def at(self, framework: str, group: str | None = None, others: Mapping[str, str] | None = None) -> OptionSet | None:
        """The options of ``group`` as the installed source declares them, or None where the framework is not here.

        What the group inherits from a framework that is not here comes from that one's table, for the version that
        ``others`` gives. Raises ``KeyError`` for a group that the framework does not have at any time."""
        extractor = self._extractor(framework)
        if extractor is None:
            return None
        layout = layout_of(framework)
        name = group or layout.main

        def include(other: str | None, inner: str) -> OptionSet:
            here = self.at(other or framework, inner, others)
            if here is not None:
                return here
            assert other is not None  # this framework is here, or there would be no question
            return OptionTable.load(other).at((others or {}).get(other), inner, others)

        source = f"{framework} as installed in {self.directory}"
        own = extractor.group(name)
        unreadable = self.unreadable(framework)
        gap = Unknown(reason=unreadable) if unreadable else None
        return combined(layout, name, own, include, source=source, gap=gap, worded=extractor.worded)

    def unreadable(self, framework: str) -> str:
        """Which of the framework's files that were looked into is no Python for this interpreter; empty for none."""
        extractor = self._extractor(framework)
        found = sorted(extractor.sources.unreadable.items()) if extractor is not None else []
        release = platform.python_version()
        return "; ".join(f"{path} of {self.directory} is not for Python {release} ({why})" for path, why in found[:1])

    def _extractor(self, framework: str) -> Extractor | None:
        if framework not in self._extractors:
            layout = layout_of(framework)
            markers = [folder + marker for folder in layout.roots for marker in layout.markers]
            if not any((root / marker).is_file() for root in self.roots for marker in markers):
                self._extractors[framework] = None
                return None
            from rldoctor.tables.options.extract import Extractor  # costs more than a table, which most runs only need

            chain = ChainTree(DirectoryTree(root) for root in self.roots)
            self._extractors[framework] = Extractor(layout, PrefixTree(chain, layout.roots))
        return self._extractors[framework]
