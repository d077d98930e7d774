"""The peers child with ranks that seed themselves apart, whatever seed they are given. It stands in for the rank's own
program as well, which torchrun starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "rldoctor" / "probes" / "children"))

import engine  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402


def rank(arguments: dict[str, Any]) -> None:
    import peer_rank

    for module in engine.module(HERE / "seeds.py", "faults_seeds").seeding():
        seed = module.set_random_seed
        module.set_random_seed = lambda *_, seed=seed, **__: seed(int(os.environ["RANK"]))
    peer_rank.main(arguments)


def main(arguments: dict[str, Any]) -> None:
    peers.RANK = Path(__file__)
    peers.main(arguments)


if __name__ == "__main__":
    if "RANK" in os.environ:
        import collective_rank

        collective_rank.start(rank)
    report.run(main)
