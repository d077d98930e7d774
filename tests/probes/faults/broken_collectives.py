"""The collectives child with ranks that are broken on purpose: what the checks that judge them must find. It stands in
for the rank's own program as well, which torchrun starts."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "rldoctor" / "probes" / "children"))

import collective_rank  # noqa: E402
import collectives  # noqa: E402
import report  # noqa: E402

FAULT = "RLDOCTOR_FAULT"
announce = collective_rank.announce


def sleeper(what: str) -> None:
    """The last rank never comes to the second collective."""
    if what == "gloo all_gather" and os.environ["RANK"] == "1":
        time.sleep(600)
    announce(what)


def killed(what: str) -> None:
    """The last rank falls by a signal before the second collective."""
    if what == "gloo all_gather" and os.environ["RANK"] == "1":
        os.kill(os.getpid(), 9)
    announce(what)


def miscounted(what: str) -> None:
    """Numbers arrive that were never sent."""
    import torch.distributed as dist

    if what == "gloo broadcast":
        real = dist.broadcast

        def wrong(tensor: Any, **named: Any) -> None:
            real(tensor, **named)
            tensor[7] += 1

        dist.broadcast = wrong
    announce(what)


def slow(what: str) -> None:
    """The third rank does its work so often that no other one takes as long, however busy the machine is."""
    if what == "gloo all_gather" and os.environ["RANK"] == "2":
        work = collective_rank.work

        def longer(place: str) -> None:
            for _ in range(10):
                work(place)

        collective_rank.work = longer
    announce(what)


def far(what: str) -> None:
    """The third rank's exchanges are slow, whoever the other is, and slower than any that a busy machine holds up."""
    if what == "gloo all_gather":
        exchange, rank = collective_rank.exchange, int(os.environ["RANK"])

        def throttled(place: str, other: int) -> float:
            if 2 in (rank, other):
                return sum(exchange(place, other) for _ in range(50))
            return exchange(place, other)

        collective_rank.exchange = throttled
    announce(what)


def main(arguments: dict[str, Any]) -> None:
    os.environ[FAULT] = arguments.pop("fault")
    collectives.RANK = Path(__file__)
    collectives.main(arguments)


if __name__ == "__main__":
    if "RANK" in os.environ:
        collective_rank.announce = globals()[os.environ[FAULT]]
        collective_rank.start()
    report.run(main)
