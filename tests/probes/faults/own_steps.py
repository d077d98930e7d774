"""Every function of a file as a step of the user's own, one after another in one process: what became of each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "rldoctor" / "probes" / "children"))

import own_step  # noqa: E402
import report  # noqa: E402


def main(arguments: dict[str, Any]) -> None:
    tried, rows = own_step.tried, {}

    def every(file: Path, _: str, rank: int) -> dict[str, Any]:
        import virtual_cuda

        for name in arguments["functions"]:
            virtual_cuda.set_device(0)
            rows[name] = tried(file, name, rank)
            report.emit("rows", rows)
        return {}

    vars(own_step)["tried"] = every
    own_step.main({**arguments, "function": ""})


if __name__ == "__main__":
    report.run(main)
