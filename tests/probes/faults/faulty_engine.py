"""The engine child with a fault: what the checks that judge it must find.

The variable RLDOCTOR_FAULT names one as ``module:function``, the module being a file beside this one, or several with
commas between them. The function gets the engine right after its boot; one with the attribute ``before_boot`` is called
without arguments before it, and what it patches then also holds in the processes that the engine forks.

Where semicolons end the faults, each is played in a fork of this process, one after another: one boot for all of them,
and no fault sees what another has done. An empty name is the healthy engine. What a fork reports becomes the
record of this process that has the fault's name (``records``, ``end``, ``exit_code``, ``seconds`` since this process
began); what it prints follows a line ``fork NAME``.

With the argument ``jobs`` (``arguments`` and ``environ`` of engine children, by their names) each of these is played in
such a fork as well, one that has imported vLLM and booted nothing: to import it takes longer than all the rest."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# In this folder's place, which Python puts first: its modules have names of scenarios, which find each other by name.
sys.path[0] = str(HERE.parents[2] / "rldoctor" / "probes" / "children")
sys.path.append(str(HERE.parent))

import engine  # noqa: E402
import report  # noqa: E402
import running_engine  # noqa: E402

# A request of every kind that compiles kernels, so that no fork has to do it again.
WARMING = (
    {"temperature": 1.0, "max_tokens": 2, "logprobs": 1},
    {"temperature": 0.0, "max_tokens": 2, "logprobs": 2},
    {"temperature": 1.0, "max_tokens": 1, "prompt_logprobs": 1},
)


class PlayedError(Exception):
    """Every fork has reported; there is nothing left to do in the process that booted."""


def main(arguments: dict[str, Any]) -> None:
    if jobs := arguments.get("jobs"):
        with contextlib.suppress(PlayedError):
            play_one_of(jobs)
        return
    boot = running_engine.boot
    *alternatives, single = os.environ.get("RLDOCTOR_FAULT", "").split(";")

    def boot_faulty(*given: Any) -> Any:
        if not alternatives:
            return broken(lambda: boot(*given), single)
        booted = boot(*given)
        for parameters in WARMING:
            booted.generate({"warming": (booted.prompt(24), parameters)})
        fault = fork_for(alternatives)
        return broken(lambda: booted, fault)

    vars(running_engine)["boot"] = boot_faulty
    with contextlib.suppress(PlayedError):
        engine.main(arguments)


def play_one_of(jobs: dict[str, dict[str, Any]]) -> None:
    """Plays each in a fork of its own, in a folder of its own."""
    from vllm import LLM, SamplingParams  # noqa: F401 - what every boot imports

    name = fork_for(list(jobs))
    folder = Path(f"job{list(jobs).index(name)}")
    folder.mkdir()
    os.chdir(folder)
    os.environ.update(jobs[name]["environ"])
    main(jobs[name]["arguments"])


def broken(boot: Any, named: str) -> Any:
    """An engine with the faults of this name."""
    faults = []
    for one in filter(None, named.split(",")):
        module, _, name = one.partition(":")
        faults.append(getattr(importlib.import_module(f"{HERE.name}.{module}"), name))
    early = [fault for fault in faults if getattr(fault, "before_boot", False)]
    for fault in early:
        fault()
    booted = boot()
    for fault in faults:
        if fault not in early:
            fault(booted.engine)
    return booted


def fork_for(alternatives: list[str]) -> str:
    """Returns one of them in each fork, and never in the process that booted."""
    for name in alternatives:
        read, write = os.pipe()
        report.lift_deadline()
        child = os.fork()
        if child == 0:
            os.close(read)
            vars(report)["_channel"] = write
            print(f"\nfork {name}", flush=True)  # the one before may have died in the middle of a line
            return name
        os.close(write)
        records: dict[str, Any] = {}
        end = None
        with os.fdopen(read) as lines:
            # What a record replaces goes at once: this process counts as the fork's own where memory is measured.
            for one in map(json.loads, (line for line in lines if line.endswith("\n"))):
                if "name" in one:
                    records[one["name"]] = one["value"]
                else:
                    end = end or one
        _, status = os.waitpid(child, 0)
        exit_code = os.waitstatus_to_exitcode(status)
        report.emit(name, {"records": records, "end": end, "exit_code": exit_code, "seconds": report.elapsed()})
    raise PlayedError


if __name__ == "__main__":
    report.run(main)
