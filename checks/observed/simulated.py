"""Which placements a launch gives the trainer's model, and what the placement probe saw of each on pretended
devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import Case, Evidence, NotChecked, cite

from ..declared.devices import visible
from ..declared.lone_process import Fate, fates

Row = Mapping[str, Any]
# Frames of a call path that are shown.
CALLS = 4

PROBE = "placement probe"
WORDS = {
    "one device": "with one device for each process",
    "second device": "in a launcher's second process",
    "data parallel": "as nn.DataParallel replicas on two devices",
    "device map": 'spread over two devices by device_map="auto"',
}
# Of the processes that these start each sees all devices; Ray's workers see theirs alone.
LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
# Placements that a trainer without a launcher brings about by itself.
_BY_FATE = {Fate.REPLICATED: "data parallel", Fate.SPREAD: "device map"}


def implied(case: Case) -> dict[str, tuple[Evidence, ...]]:
    """The placements that the launch brings about, each with the settings that say so. Every process has one device,
    unless plain python starts a trainer that sees several."""
    found: dict[str, tuple[Evidence, ...]] = {"one device": ()}
    plan = case.plan
    if plan is not None and plan.value("process.launcher") in LAUNCHERS and plan.value("process.total", 1) != 1:
        found["second device"] = cite(plan, "process.launcher", "process.total")
    if plan is None or plan.role == "server" or plan.framework not in ("TRL", "open-r1"):
        return found
    alone = plan.value("process.launcher") == "none" and plan.value("process.total") == 1
    seen = visible(case, plan)
    if not alone or seen is None or len(seen) < 2 or plan.value("trainer.deepspeed") is not None:
        return found
    decided = fates(case, plan)
    if len(decided) == 1 and decided[0] in _BY_FATE:
        found[_BY_FATE[decided[0]]] = (*seen.evidence, *cite(plan, "process.launcher"))
    return found


def rows(case: Case) -> dict[str, Row]:
    """What was seen of each placement. Raises :class:`NotChecked` where no forward pass was made."""
    (job,) = case.observations["placement"].values()
    records = job.get("records", {})
    if "placements" in records:
        return {row["placement"]: row for row in records["placements"]}
    note = records.get("miniature", {}).get("note")
    raise NotChecked(note or f"the placement probe {job.get('ended')} at stage {records.get('stage', 'start')}")


def what_stopped(row: Row | None) -> str:
    """Why a placement could not be tried."""
    if row is None:
        return "it was not tried"
    error = row.get("error")
    return f"{error['type']}: {error['message'].splitlines()[0]}" if error else str(row.get("reason"))


def where(row: Row) -> Iterator[Evidence]:
    """The source line of the first mixed operation and the calls that led to it, innermost first, then the tensors and
    the lines that put them where they are."""
    mixed = row["mixed"]
    frames = [frame for frame in mixed["frames"] if frame["package"] != "torch"] or mixed["frames"]
    for number, frame in enumerate(frames[: -1 - CALLS : -1]):
        how = "called from" if number else "in"
        yield Evidence(text=f"{how} {frame['function']}", source=frame["file"], line=frame["line"])
    operands = ", ".join(f"{device} {shape}" for device, shape in mixed["operands"])
    yield Evidence(text=f"{mixed['operator']} of {operands}", source=PROBE)
    origins = zip(mixed.get("origins", ()), mixed["operands"], strict=False)
    for origin, device in dict.fromkeys((origin, device) for origin, (device, _) in origins if origin):
        file, _, line = origin.rpartition(":")
        yield Evidence(text=f"puts one of them on {device}", source=file, line=int(line))


def module_of(row: Row) -> str:
    """The module in whose forward pass it happened, by its name in the model."""
    module = row["mixed"]["module"]
    return f"{module['name'] or 'the model'} ({module['class']})" if module else "the trainer's own step"


def devices_of(row: Row) -> str:
    return " and ".join(dict.fromkeys(device for device, _ in row["mixed"]["operands"]))
