"""vLLM's own validators: ``EngineArgs(...).create_engine_config()``, as on the GPUs that the launch is for.

The configuration of an engine depends on the device's name, memory and compute capability, and on nothing else of it:
the platform is vLLM's own for CUDA with these given, its compiled kernels are not needed. Arguments: ``options`` (of
EngineArgs, by name), ``config`` (of the model, or None), ``devices`` (each ``name``, ``memory`` in bytes,
``capability``), ``serves`` (whether a server starts the engine, None where not known), ``words`` (what stands behind
``vllm serve``, for its own parser, in the place of the options; None where that is not known)."""

from __future__ import annotations

import dataclasses
import importlib.machinery
import re
import sys
import types
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from engine_facts import OPTIONS, exists, first, plain
from report import emit
from stand_ins import STAND_INS, written
from usage import UsageError, refused

# Compiled modules that are imported when the platform for CUDA is, and that no configuration calls.
KERNELS = re.compile(r"vllm\.(?:_C|_C_stable_libtorch|_moe_C|_qutlass_C|cumem_allocator)")
# Options that change the model's own config.
OF_THE_MODEL = frozenset({"hf_overrides", "rope_scaling", "rope_theta"})
# What such a refusal speaks of is the build or the machine at hand.
_MACHINE = re.compile(
    r"(?i)platform|driver|not (?:installed|compiled|built|available)|is required|(?:on|for) (?:the )?CPU|No module"
    r"|failed to be inspected"
)
ANSWERS = (
    "max_model_len", "max_num_batched_tokens", "max_num_seqs", "enable_chunked_prefill", "enable_prefix_caching",
    "block_size", "async_scheduling", "tensor_parallel_size", "pipeline_parallel_size",
)  # fmt: skip
MANY = 1 << 10  # devices of a machine: how many there are is asked elsewhere


def ways(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """One for each model, device and caller that the launch may have."""
    import vllm
    from vllm import platforms
    from vllm.engine.arg_utils import EngineArgs

    emit("package", {"name": "vllm", "version": getattr(vllm, "__version__", None)})
    fields = {field.name for field in dataclasses.fields(EngineArgs)}
    options = {name: value for name, value in arguments["options"].items() if name in fields}
    words = arguments["words"]
    emit("taken", sorted({*options, *(word[2:].replace("-", "_") for word in words or () if word.startswith("--"))}))
    left_out = sorted(set(arguments["options"]) - fields)
    emit("left_out", left_out)
    if OF_THE_MODEL.intersection(left_out):
        raise RuntimeError(
            f"this release takes no {', '.join(left_out)}: what it makes of the rest is not the launch's"
        )
    given_model = arguments["config"]
    models = {"the model": given_model} if given_model else STAND_INS
    for config in models.values():
        _inspect(config.get("architectures") or ())
    sys.meta_path.insert(0, _Kernels())
    contexts = [True, False] if arguments["serves"] is None else [arguments["serves"]]
    found: list[tuple[str, Any]] = []
    for model, config in models.items():
        folder = written(Path(f"model_{len(found)}"), config)
        given = {"model": str(folder), "skip_tokenizer_init": True, **options}
        make = partial(EngineArgs, **given) if words is None else partial(_served, given["model"], words)
        for device in arguments["devices"]:
            for serves in contexts:
                way = f"{model}, {device['name']}, {'a server' if serves else 'generate()'}"
                found.append((way, _Engine(platforms, make, device, serves)))
    return found


def _served(model: str, words: list[str]) -> Any:
    """What ``vllm serve`` asks of the engine, once it has looked at its own options."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.cli import serve

    class Parser(serve.FlexibleArgumentParser):  # type: ignore[misc]
        exit = refused

    command = serve.cmd_init()[0]
    parser = Parser()
    command.subparser_init(parser.add_subparsers(dest="subparser"))
    arguments = parser.parse_args(["serve", model, *words])
    arguments.model, arguments.skip_tokenizer_init = model, True
    command.validate(arguments)
    return AsyncEngineArgs.from_cli_args(arguments)


def _inspect(architectures: Iterable[str]) -> None:
    """Has vLLM look at the model's class, which it does once and remembers, while its platform is this machine's own:
    for CUDA that imports attention kernels."""
    from vllm.model_executor.models import registry

    look = getattr(registry, "_try_inspect_model_cls", None)
    for architecture in architectures if look is not None else ():
        known = registry.ModelRegistry.models.get(architecture)
        if known is not None and look is not None and look(architecture, known) is None:
            raise RuntimeError(f"vLLM cannot look at the class of {architecture} here")


def of_the_machine(error: BaseException) -> bool:
    """Whether a refusal is about the build of vLLM or the machine, and not about the settings."""
    return not isinstance(error, UsageError) and _MACHINE.search(str(error)) is not None


class _Engine:
    """One call of the validators; what it returns are the settings that they come to."""

    def __init__(self, platforms: Any, make: Callable[[], Any], device: dict[str, Any], serves: bool) -> None:
        self.platforms, self.make, self.device, self.serves = platforms, make, device, serves

    def __call__(self) -> dict[str, Any]:
        from vllm.usage.usage_lib import UsageContext

        self.platforms._current_platform = platform = _platform(self.device)
        for module in [m for name, m in sys.modules.items() if name.startswith("vllm.") and m is not None]:
            if "current_platform" in vars(module):
                vars(module)["current_platform"] = platform
        engine = self.make()
        context = UsageContext.OPENAI_API_SERVER if self.serves else UsageContext.LLM_CLASS
        config = engine.create_engine_config(context)
        effective = {}
        for option in ANSWERS:
            found = next((place for place in OPTIONS[option] if exists(config, place)), None)
            if found is not None:
                effective[option] = plain(first(config, (found,)))
        return effective


def _platform(device: dict[str, Any]) -> Any:
    """vLLM's own platform for CUDA, with the device that the launch is for."""
    from vllm.platforms import cuda, interface

    capability = interface.DeviceCapability(*device["capability"])
    answers = {
        "get_device_capability": capability,
        "get_device_name": device["name"],
        "get_device_total_memory": device["memory"],
        "get_device_uuid": "GPU-0",
        "device_count": MANY,
        "is_fully_connected": True,
        "log_warnings": None,
    }
    replaced = {name: classmethod(lambda cls, *_, answer=answer, **__: answer) for name, answer in answers.items()}
    return type("LaunchPlatform", (cuda.CudaPlatformBase,), replaced)()


class _Kernels:
    """Finds empty modules in the place of vLLM's compiled ones: without a driver those cannot be loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self) if KERNELS.fullmatch(name) else None  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> Any:
        return types.ModuleType(spec.name)

    def exec_module(self, module: Any) -> None:
        return None
