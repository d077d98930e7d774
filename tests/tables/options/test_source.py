"""Names followed through imports, and source trees wherever they lie."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

from rldoctor.tables.options.source import Definition, External, Sources
from rldoctor.tables.sources.trees import ChainTree, DirectoryTree, PrefixTree, import_roots

Write = Callable[[dict[str, str]], Path]


def test_a_name_is_found_where_it_was_defined(write: Write) -> None:
    root = write(
        {
            "pkg/__init__.py": """
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                from .deep import Thing
            else:
                import sys
            """,
            "pkg/deep/__init__.py": "from .a import *\nfrom .b import Other as Renamed\n",
            "pkg/deep/a.py": "class Thing:\n    pass\nAlias = Thing\n",
            "pkg/deep/b.py": "try:\n    from fast import Other\nexcept ImportError:\n    class Other: ...\n",
            "pkg/use.py": """
            import pkg.deep as deep
            import pkg
            from .deep import Renamed, Alias
            from numpy import array
            """,
            "pkg/cycle.py": "from pkg.cycle import Nothing\n",
        }
    )
    sources = Sources(DirectoryTree(root), ("pkg",))
    use = sources.at("pkg/use.py")
    assert use is not None

    def place(name: str) -> str | None:
        found = sources.resolve(use, name)
        if isinstance(found, Definition):
            assert isinstance(found.node, ast.ClassDef)
            return f"{found.module.name}.{found.node.name}"
        return found.name if isinstance(found, External) else None

    assert place("pkg.Thing") == "pkg.deep.a.Thing"
    assert place("deep.Thing") == "pkg.deep.a.Thing"
    assert place("Alias") == "pkg.deep.a.Thing"
    assert place("Renamed") == "pkg.deep.b.Other"  # of two sources the one that can be read
    assert place("array") == "numpy.array"
    assert place("nowhere") is None
    cycle = sources.at("pkg/cycle.py")
    assert cycle is not None
    assert sources.resolve(cycle, "Nothing") is None


def test_what_is_no_python_is_not_there(write: Write) -> None:
    root = write({"pkg/broken.py": "def (:\n", "pkg/null.py": "a = '\0'\n"})
    (root / "pkg/binary.py").write_bytes(bytes(range(256)) * 10)
    sources = Sources(DirectoryTree(root), ("pkg",))
    for name in ("broken", "null", "binary", "absent"):
        assert sources.at(f"pkg/{name}.py") is None


def test_trees_on_top_of_each_other_and_below_folders(write: Write) -> None:
    root = write({"one/a.txt": "1", "two/a.txt": "2", "two/src/b.txt": "b"})
    chain = ChainTree([DirectoryTree(root / "one"), DirectoryTree(root / "two")])
    assert chain.read("a.txt") == "1"
    assert PrefixTree(chain, ("", "src/")).read("b.txt") == "b"
    assert PrefixTree(chain, ("", "src/")).names("src") == ("src/b.txt",)
    assert chain.read("../one/missing") is None


def test_the_folders_that_an_environment_imports_from(write: Write) -> None:
    root = write(
        {
            "clone/verl/__init__.py": "",
            "other/src/open_r1/__init__.py": "",
            "site/harmless.pth": "import os; os.abort()\n\n# comment\n",
            "site/nested.pth": "../clone\n",
        }
    )
    mapping = {"open_r1": str(root / "other/src/open_r1")}
    (root / "site/__editable___open_r1_finder.py").write_text(f"MAPPING: dict[str, str] = {mapping!r}\n")
    found = [path.resolve() for path in import_roots(root / "site")]
    assert found == [root / "site", root / "other/src", root / "clone"]
    assert import_roots(root / "absent") == [root / "absent"]
