"""The engine child with a fault: what the checks that judge it must find.

The variable RLDOCTOR_FAULT names one as ``module:function``, the module being a file beside this one, or several with
commas between them. The function gets the engine right after its boot; one with the attribute ``before_boot`` is called
without arguments before it, and what it patches then also holds in the processes that the engine forks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "rldoctor" / "probes" / "children"))

import engine  # noqa: E402
import report  # noqa: E402
import running_engine  # noqa: E402


def main(arguments: dict[str, Any]) -> None:
    boot, faults = running_engine.boot, []
    for named in os.environ["RLDOCTOR_FAULT"].split(","):
        module, _, name = named.partition(":")
        faults.append(getattr(engine.module(HERE / f"{module}.py", f"faults_{module}"), name))

    def boot_faulty(*reported: Any) -> Any:
        early = [fault for fault in faults if getattr(fault, "before_boot", False)]
        for fault in early:
            fault()
        booted = boot(*reported)
        for fault in faults:
            if fault not in early:
                fault(booted.engine)
        return booted

    vars(running_engine)["boot"] = boot_faulty
    engine.main(arguments)


if __name__ == "__main__":
    report.run(main)
