"""Releases: which are published, which accept which others, what is known of them and since when they have a name."""

from __future__ import annotations

from rldoctor.knowledge.known_issues import KnownIssue, known_here, known_issues
from rldoctor.knowledge.layers import elsewhere, mended, replaced
from rldoctor.knowledge.releases import acceptable as acceptable_releases
from rldoctor.knowledge.releases import accepting as accepting_releases
from rldoctor.knowledge.releases import as_specifier as release_specifier
from rldoctor.knowledge.releases import combined as combined_specifier
from rldoctor.knowledge.releases import published_name, python_admitted
from rldoctor.knowledge.scope import Scope
from rldoctor.tables.symbols.fitting import Request as SymbolRequest
from rldoctor.tables.symbols.fitting import accepting, exports, refused_by_all, taken_by_all
from rldoctor.tables.symbols.fitting import packages as symbol_packages
from rldoctor.tables.symbols.history import History as SymbolHistory
from rldoctor.tables.symbols.history import history_of as symbol_history

__all__ = [
    "KnownIssue",
    "Scope",
    "SymbolHistory",
    "SymbolRequest",
    "acceptable_releases",
    "accepting",
    "accepting_releases",
    "combined_specifier",
    "elsewhere",
    "exports",
    "known_here",
    "known_issues",
    "mended",
    "published_name",
    "python_admitted",
    "refused_by_all",
    "release_specifier",
    "replaced",
    "symbol_history",
    "symbol_packages",
    "taken_by_all",
]
