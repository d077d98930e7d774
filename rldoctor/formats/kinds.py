"""What kind of launch file a text is, by the file's name, else by how it begins."""

from __future__ import annotations

import re
from pathlib import Path

from rldoctor.formats.source import Source

_SHELL_LINE = re.compile(r"#!.*\b(ba|z|da|k)?sh\b|#SBATCH\b")
_NAMES = {"makefile": "make", "gnumakefile": "make", "justfile": "just", ".justfile": "just"}
_SUFFIXES = {
    ".ipynb": "notebook", ".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "yaml", ".toml": "toml",
    ".mk": "make", ".just": "just",
    **dict.fromkeys((".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".batch"), "shell"),
}  # fmt: skip


def kind_of(source: Source) -> str:
    """``notebook``, ``python``, ``yaml``, ``toml``, ``make``, ``just`` or ``shell``."""
    named = _named(Path(source.file))
    if named is not None:
        return named
    if _SHELL_LINE.search(source.text[:2000]):
        return "shell"
    first = source.text[:200].splitlines()[:1]
    if first and first[0].startswith("#!") and "python" in first[0]:
        return "python"
    return "yaml" if re.match(r"(\s*#.*\n|\s*\n|---\s*\n)*[\w.-]+:(\s|$)", source.text) else "shell"


def is_named(path: Path) -> bool:
    """Whether the name of a file says which kind it is."""
    return _named(path) is not None


def _named(path: Path) -> str | None:
    return _SUFFIXES.get(path.suffix.lower()) or _NAMES.get(path.name.lower())
