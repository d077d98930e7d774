"""A trainer's own argument class, made of the launch's settings as its parser, or pydantic, makes it.

Arguments: ``classes`` (module and name in any case; the first whose module exists is asked), ``calls`` (how the
settings are given: ``keyword``, ``words`` of a command, or a ``parser``'s defaults), ``settings`` (by their dotted
names; a command's as texts), ``open`` (names of those whose values nobody can read), ``processes`` (how many the launch
starts, or those to try), ``model`` (the setting that names it, or None) with its ``config`` (or None), ``apart`` (names
of fields and methods that are left out). No device is used, nothing is loaded."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leaves import PLAIN, leaves
from report import emit
from stand_ins import STAND_INS, written
from usage import OF_THE_MACHINE, UsageError, refused

# Fields that speak of the device, of optional packages and of files: the launch's are left out, and the class is told
# that the CPU is meant.
LEFT_OUT = frozenset(
    {
        "tf32", "use_cpu", "no_cuda", "use_mps_device", "fp16", "fp16_full_eval", "bf16_full_eval", "deepspeed", "fsdp",
        "fsdp_config", "accelerator_config", "parallelism_config", "resume_from_checkpoint", "report_to", "push_to_hub",
        "hub_token", "optim", "torch_compile", "use_liger_kernel", "ddp_backend", "local_rank",
        "dataloader_prefetch_factor",
    }
)  # fmt: skip
_CPU = ("use_cpu", "no_cuda")  # by release
# What a class makes of these is this machine's.
_HERE = LEFT_OUT | {"bf16", "torch_dtype", "output_dir", "logging_dir", "run_name"}
_MACHINE = re.compile(f"(?i){OF_THE_MACHINE}|use_cpu|is required")
UNREAD = "unread"


class UnreadError(Exception):
    """A setting whose value decides, and that nobody can read."""


def ways(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """One for each number of processes, and each model where the launch's is not known."""
    module, name = next((m, n) for m, n in arguments["classes"] if _exists(m))
    holder = importlib.import_module(module)
    top = sys.modules[module.partition(".")[0]]
    emit("package", {"name": top.__name__, "version": getattr(top, "__version__", None)})
    kind = next(value for own, value in vars(holder).items() if own.lower() == name.lower() and isinstance(value, type))
    made = _validated if hasattr(kind, "model_validate") else _of_fields
    return made(kind, arguments)


def of_the_machine(error: BaseException) -> bool:
    """Whether a refusal is about the device, the packages or the model here, and not about the settings."""
    said = str(error)
    if isinstance(error, UsageError):
        return False
    return isinstance(error, UnreadError) or _MACHINE.search(said) is not None or str(Path.cwd()) in said


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def _of_fields(kind: type, arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """A dataclass, over which transformers' parser reads a command."""
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    left_out = LEFT_OUT.union(arguments["apart"])
    by_field = {key.rpartition(".")[2].replace("-", "_"): value for key, value in arguments["settings"].items()}
    taken = {name: value for name, value in by_field.items() if name in fields and name not in left_out}
    for key in arguments["open"]:
        name = key.rpartition(".")[2].replace("-", "_")
        if name in fields and name not in left_out:
            if "str" not in str(fields[name].type):
                raise UnreadError(f"the value of {name} cannot be read from the launch")
            taken[name] = UNREAD
    emit("taken", sorted(taken))
    emit("left_out", sorted(name for name in by_field if name not in taken))
    if "output_dir" in fields:
        taken.setdefault("output_dir", UNREAD)
    for cpu in _CPU:
        if cpu in fields:
            taken[cpu] = True
            break
    still = {name: lambda self, *_, **__: None for name in arguments["apart"] if callable(getattr(kind, name, None))}
    kind = type(kind.__name__, (kind,), still)
    make = {"keyword": _called, "words": _worded, "parser": _parsed}[arguments["calls"]]
    found = []
    for model, place in _models(arguments, taken):
        settings = {**taken, **place}
        for count in arguments["processes"]:
            way = ", ".join([f"{count} processes", *filter(None, [model])])
            found.append((way, lambda count=count, given=settings: _effective(make(_of_processes(kind, count), given))))
    return found


def _models(arguments: dict[str, Any], taken: Mapping[str, Any]) -> list[tuple[str, dict[str, str]]]:
    """Folders that stand for the model, of its name, with the setting that names them; one without, where no field
    does."""
    field = (arguments["model"] or "").rpartition(".")[2].replace("-", "_")
    if field not in taken:
        return [("", {})]
    configs = {"the model": arguments["config"]} if arguments["config"] else STAND_INS
    name = re.sub(r"[^\w.-]", "_", Path(str(taken[field])).name) or "model"
    folders = [(way, written(Path(f"model_{number}", name), one)) for number, (way, one) in enumerate(configs.items())]
    return [(way, {field: str(folder)}) for way, folder in folders]


def _of_processes(kind: type, count: int) -> type:
    """The class as it is among so many processes, and all that inherit as it does; else it asks torch.distributed."""
    for base in kind.__mro__:
        if "world_size" in vars(base):
            base.world_size = property(lambda self: count)  # type: ignore[attr-defined]
    return kind


def _called(kind: type, settings: dict[str, Any]) -> Any:
    return kind(**settings)


def _parser(kind: type) -> Any:
    from transformers import HfArgumentParser

    class Parser(HfArgumentParser):  # type: ignore[misc]
        exit = refused

    return Parser([kind])


def _worded(kind: type, settings: dict[str, Any]) -> Any:
    words: list[str] = []
    for name, value in settings.items():
        several = [str(one) for one in value] if isinstance(value, list) else [str(value)]
        words += [f"--{name}", *several] if len(several) > 1 else [f"--{name}={one}" for one in several]
    return _parser(kind).parse_args_into_dataclasses(words)[0]


def _parsed(kind: type, settings: dict[str, Any]) -> Any:
    parser = _parser(kind)
    for action in parser._actions:
        if action.dest in settings:
            action.required = False
    parser.set_defaults(**settings)  # argparse reads a text among them as it would on the command line
    return parser.parse_args_into_dataclasses(args=[])[0]


def _effective(made: Any) -> dict[str, Any]:
    values = {field.name: getattr(made, field.name, None) for field in dataclasses.fields(made)}
    return {name: value for name, value in values.items() if name not in _HERE and isinstance(value, PLAIN)}


def _validated(kind: Any, arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """A model of pydantic's, of the whole configuration."""
    if arguments["open"]:
        raise UnreadError(f"the value of {arguments['open'][0]} cannot be read from the launch")
    emit("taken", sorted(arguments["settings"]))
    emit("left_out", [])
    nested: dict[str, Any] = {}
    for key, value in arguments["settings"].items():
        *above, last = key.split(".")
        section = nested
        for name in above:
            below = section.setdefault(name, {})
            section = below if isinstance(below, dict) else {}
        section[last] = value
    return [("as given", lambda: _checked(kind, nested))]


def _checked(kind: Any, nested: dict[str, Any]) -> dict[str, Any]:
    from pydantic import ValidationError

    try:
        made = kind.model_validate(json.loads(json.dumps(nested)))
    except ValidationError as error:
        # What is missing may come from a file that is not at hand.
        if any(one["type"] == "missing" for one in error.errors()):
            raise UnreadError(str(error)) from error
        raise
    return dict(leaves(made.model_dump()))
