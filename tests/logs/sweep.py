"""Every log of the tests in every wrapping: the verdict, the code and the rank stay those of the plain log. Prints each
pair that gives another answer; exit status 1 where there is one."""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context

from .test_wrappings import LIGHT, SAID, pairs, plain, verdict
from .wrapping import WRAPPINGS, wrapped


def others(name: str) -> tuple[int, list[str]]:
    """How many logs were tried in a wrapping, and those that give another answer in it."""
    told = {said: text for said, text in SAID.items() if (name, said) not in LIGHT}
    answers = [(path.stem, plain(path), path.read_text("utf-8")) for path in pairs(name)]
    answers += [(said, verdict(text), text) for said, text in told.items()]
    found = [(stem, answer, verdict(wrapped(name, text))) for stem, answer, text in answers]
    return len(found), [f"{stem} in {name}: {got}, plain {answer}" for stem, answer, got in found if got != answer]


def main() -> int:
    with get_context("spawn").Pool(os.cpu_count()) as pool:
        tried, failed = 0, 0
        for count, lines in pool.imap_unordered(others, WRAPPINGS):
            tried, failed = tried + count, failed + len(lines)
            print(*lines, sep="\n", end="\n" if lines else "", flush=True)
    print(f"{tried - failed} of {tried} pairs give the answer of the plain log")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
