"""Modules along a search path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rldoctor.link.locate import Kind, SearchPath


def test_modules_of_every_kind(site: Callable[[dict[str, str]], Path]) -> None:
    root = site({"pack/sub/mod.py": "", "pack/fast.abi3.so": ""})
    (root / "space" / "inner").mkdir(parents=True)
    (root / "space" / "inner" / "thing.py").write_text("")
    search = SearchPath([root])
    assert search.find("pack.sub.mod").path == f"{root}/pack/sub/mod.py"
    assert search.find("pack.sub").package
    assert search.find("pack.fast").kind is Kind.COMPILED
    assert search.find("space.inner").kind is Kind.NAMESPACE
    assert search.find("space.inner.thing").kind is Kind.SOURCE
    assert search.find("pack.other").kind is search.find("none").kind is Kind.ABSENT
    assert search.relative(f"{root}/pack/sub/mod.py") == "pack/sub/mod.py"


def test_of_two_installs_the_first_on_the_path_counts(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name / "vllm").mkdir(parents=True)
        (tmp_path / name / "vllm" / "__init__.py").write_text("")
    search = SearchPath([tmp_path / "archive.zip", tmp_path / "first", tmp_path / "second"])
    assert search.find("vllm").path == f"{tmp_path}/first/vllm/__init__.py"
