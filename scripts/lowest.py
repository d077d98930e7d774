"""Prints a constraint for each dependency of pyproject.toml that pins it to the lowest version that is allowed."""

from __future__ import annotations

import sys
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def main() -> None:
    with PROJECT.open("rb") as opened:
        project = tomllib.load(opened)["project"]
    for text in project["dependencies"]:
        requirement = Requirement(text)
        lowest = next(part.version for part in requirement.specifier if part.operator == ">=")
        marker = f"; {requirement.marker}" if requirement.marker else ""
        print(f"{requirement.name}=={lowest}{marker}")


if __name__ == "__main__":
    main()
