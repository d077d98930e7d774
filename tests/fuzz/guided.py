"""Fuzzes one target by what its inputs reach in the code: `python -m tests.fuzz.guided door -max_total_time=3600`.

Needs `pip install atheris` (https://github.com/google/atheris), which wraps LLVM's libFuzzer; what follows the target
is libFuzzer's. A failing input is made small and kept as tests.fuzz.run does."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

KEEP = Path("fuzz-failures")


def main() -> None:
    atheris = importlib.import_module("atheris")
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["rldoctor", "rldoctor_checks"]):
        from tests.fuzz.run import Failure, corpus, smaller
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]

    def one(data: bytes) -> None:
        try:
            target.run(data)
        except Exception as error:
            small = smaller(target, Failure(name, data, f"{type(error).__name__}: {error}"))
            KEEP.mkdir(exist_ok=True)
            (KEEP / f"{name}-guided").write_bytes(small.data)
            raise

    with TemporaryDirectory() as seeds:
        for number, seed in enumerate(
            [*corpus(name), *(piece.encode("utf-8", "replace") for piece in target.pieces())]
        ):
            (Path(seeds) / str(number)).write_bytes(seed)
        atheris.Setup([sys.argv[0], "-timeout=20", "-rss_limit_mb=4096", *options, seeds], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
