"""LSF: the tasks, hosts and devices that ``#BSUB`` lines ask for, in canonical names.

https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=options-gpu"""

from __future__ import annotations

import re
from dataclasses import replace

from rldoctor.formats.source import Source
from rldoctor.launch.schedulers import batch
from rldoctor.plan.model import Setting

_SPAN = re.compile(r"span\[\s*(ptile|hosts)\s*=\s*(\d{1,5})\s*\]")
_DEVICES = re.compile(r"(?:^|:)num=(\d{1,4})(/task)?(?:/host)?(?=:|$)")


def directives(source: Source) -> dict[str, Setting]:
    """What a batch script asks for."""
    found: dict[str, Setting] = {}
    first = None
    for line, words in batch.directives(source, "#BSUB"):
        first = first or line
        option, value = (words[0][:2], words[0][2:] or " ".join(words[1:])) if words else ("", "")
        if words and words[0] in ("-gpu", "-nnodes"):
            option, value = words[0], " ".join(words[1:])
        place = Setting(file=source.file, line=line, key=f"#BSUB {option}", raw=f"{option} {value}")
        if option == "-n" and value.isdecimal():
            found["scheduler.tasks"] = replace(place, value=int(value))
        elif option == "-nnodes" and value.isdecimal():
            found["scheduler.nodes"] = replace(place, value=int(value))
        elif option == "-R" and (span := _SPAN.search(value)) is not None:
            name = "tasks_per_node" if span[1] == "ptile" else "nodes"
            found[f"scheduler.{name}"] = replace(place, value=int(span[2]))
        elif option == "-gpu" and (devices := _DEVICES.search(value)) is not None:
            name = "gpus_per_task" if devices[2] else "gpus_per_node"
            found[f"scheduler.{name}"] = replace(place, value=int(devices[1]))
    if first is not None:
        found.update(batch.of_scheduler("lsf", source, first))
    return found
