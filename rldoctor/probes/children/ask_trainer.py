"""Log-probabilities of completions as a trainer's loss takes them: a program for the target's interpreter.

Its argument is a module of ``trainers``, standard input is JSON: the fields of ``asked.Asked``, and ``answer``, the
file to write (``what`` was asked, ``log_probabilities`` of each completion's tokens)."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from asked import Asked


def main(trainer: str) -> None:
    given = json.load(sys.stdin)
    target = Path(given.pop("answer"))
    asked = Asked(**given)
    told = importlib.import_module(f"trainers.{trainer}").own(asked)
    rows = [row[: len(one)] for row, one in zip(told.rows.float().tolist(), asked.completions)]  # noqa: B905 - Python 3.9
    target.write_text(json.dumps({"what": told.what, "log_probabilities": rows}))


if __name__ == "__main__":
    main(sys.argv[1])
