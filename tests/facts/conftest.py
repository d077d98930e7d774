"""Site directories as installers leave them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

MakeDist = Callable[..., Path]


@pytest.fixture
def dist_info() -> MakeDist:
    """Writes a ``*.dist-info`` with METADATA, and the module with a RECORD where its source is given."""

    def make(
        site: Path,
        name: str,
        version: str,
        requires: Sequence[str] = (),
        module: dict[str, str] | None = None,
        extra: str = "",
    ) -> Path:
        path = site / f"{name}-{version}.dist-info"
        path.mkdir(parents=True)
        lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", "Requires-Python: >=3.9"]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        (path / "METADATA").write_text("\n".join(lines) + f"\n{extra}\nRequires-Dist: only-prose\n")
        record = ""
        for file, text in (module or {}).items():
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            (site / file).write_text(text)
            record += f"{file},sha256=x,{len(text)}\n"
        (path / "RECORD").write_text(record)
        return path

    return make
