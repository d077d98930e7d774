"""Imports each heavy package in a process of its own, so that one that crashes natively or hangs costs only itself.

Arguments: ``waves`` of plans (see ``import_one.py``), of which a later one holds what the earlier may bring along, and
``parallel`` and ``seconds`` for each. What another package's process has imported is not imported again. Records
``packages``, by distribution: ``ended`` (``done``, ``raised``, ``died``, ``timed-out``), ``version``, ``seconds``,
``through`` (the package that had imported it), ``exceptions``, ``exit_code``, ``loading`` (the native library begun
last), ``native_failures``, ``tail``; and ``torch``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from report import MOST_PROLONGED, emit, run, waited_for_processors

ONE = Path(__file__).with_name("import_one.py")
SHOWN = 1 << 20
TAIL_LINES = 120
TAIL_WIDTH = 500


def main(arguments: dict[str, Any]) -> None:
    packages: dict[str, Any] = {}
    torch: dict[str, Any] = {}
    waves = arguments["waves"]
    for number, wave in enumerate(waves):
        waiting = [plan for plan in wave if plan["name"] not in packages]
        others = [plan for later in waves[number + 1 :] for plan in later]
        running: list[Import] = []
        while waiting or running:
            while waiting and len(running) < arguments["parallel"]:
                running.append(Import(waiting.pop(0), others, arguments["seconds"]))
            for job in [job for job in running if job.ended()]:
                running.remove(job)
                records = job.finish()
                name = job.plan["name"]
                packages[name] = job.outcome(records)
                for also, version in records.get("also", {}).items():
                    packages.setdefault(also, {"ended": "done", "version": version, "through": name})
                torch = torch or records.get("torch", {})
                emit("packages", packages)
                emit("torch", torch or None)
            time.sleep(0.02)


class Import:
    """One package's process, with its results and its output in files beside this one's."""

    def __init__(self, plan: dict[str, Any], others: list[dict[str, Any]], seconds: float) -> None:
        self.plan = plan
        self.results, self.log, reported = (Path(f"{plan['name']}.{kind}") for kind in ("results", "log", "arguments"))
        reported.write_text(json.dumps({"arguments": {"plan": plan, "others": others}, "time_limit": seconds}))
        self.started = time.monotonic()
        self.seconds = seconds
        self.timed_out = False
        with self.results.open("wb") as results, self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-u", str(ONE), str(results.fileno()), str(reported)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(results.fileno(),),
                start_new_session=True,
            )

    def ended(self) -> bool:
        if self.process.poll() is None and self._over():
            self.timed_out = True
            os.killpg(self.process.pid, 9)
            self.process.wait()
        return self.process.poll() is not None

    def _over(self) -> bool:
        """Whether its time is over, not counting what it waits for a processor that others keep busy."""
        over = time.monotonic() - self.started - self.seconds
        return over > 0 and over > min(waited_for_processors(self.process.pid), MOST_PROLONGED * self.seconds)

    def finish(self) -> dict[str, Any]:
        """Its records; its output goes into this child's own log."""
        print(f"=== import {self.plan['name']}: exit code {self.process.returncode}", flush=True)
        with self.log.open("rb") as log:
            self.output = log.read(SHOWN).decode("utf-8", "replace")
        print(self.output, flush=True)
        records = {}
        for line in self.results.read_text(errors="replace").splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict) and "end" in said:
                records["end"] = said["end"]
            elif isinstance(said, dict) and "value" in said:
                records[said["name"]] = said["value"]
        return records

    def outcome(self, records: dict[str, Any]) -> dict[str, Any]:
        imported = records.get("imported")
        reported: dict[str, Any] = {
            "ended": "done" if imported else records.get("end", "timed-out" if self.timed_out else "died"),
            "version": None,
            "through": None,
            "seconds": round(time.monotonic() - self.started, 3),
            **(imported or {}),
        }
        if not imported:
            reported["exit_code"] = self.process.returncode
            reported["exceptions"] = records.get("exceptions", [])
            reported["loading"] = records.get("loading")
            reported["tail"] = [line[:TAIL_WIDTH] for line in self.output.splitlines()[-TAIL_LINES:]]
        if "native_failures" in records:
            reported["native_failures"] = records["native_failures"]
        return reported


if __name__ == "__main__":
    run(main)
