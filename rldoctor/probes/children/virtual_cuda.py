"""Lets ``torch.cuda`` answer as on a machine with so many devices, for code that asks before it places its tensors.

What a device would do is left out (streams, events, random states are the CPU's); where tensors lie is
``virtual_devices``'s."""

from __future__ import annotations

import contextlib
import types
from typing import Any

import torch
from torch.utils._pytree import tree_map_only
from virtual_devices import CAPABILITY, _Current, current, moved, resolve

MEMORY = 80 << 30
NAME = "a pretended device"


def install(devices: int) -> None:
    """Call once, after ``virtual_devices.install``."""
    cuda: Any = torch.cuda
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "device_count": devices,
        "is_bf16_supported": True,
        "get_device_name": NAME,
        "get_device_properties": types.SimpleNamespace(
            name=NAME, major=CAPABILITY[0], minor=CAPABILITY[1], total_memory=MEMORY, multi_processor_count=108
        ),
        "mem_get_info": (MEMORY, MEMORY),
        **dict.fromkeys(("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"), 0),
        **dict.fromkeys(("init", "_lazy_init", "synchronize", "empty_cache", "ipc_collect"), None),
        **dict.fromkeys(("reset_peak_memory_stats", "manual_seed", "manual_seed_all", "set_rng_state"), None),
        **dict.fromkeys(("current_stream", "default_stream"), _Idle()),
        "stream": contextlib.nullcontext(),
    }
    for name, answer in answers.items():
        setattr(cuda, name, _answer(answer))
    cuda.get_rng_state = lambda *_, **__: torch.get_rng_state()
    cuda.set_device = set_device
    cuda.device = _Device
    cuda.Stream = cuda.Event = _Idle
    if hasattr(torch, "accelerator"):
        accelerator: Any = torch.accelerator
        accelerator.is_available = _answer(True)
        accelerator.device_count = _answer(devices)
        accelerator.current_accelerator = _answer(torch.device("cuda"))
        accelerator.current_device_index = lambda: _Current.index
        accelerator.set_device_index = set_device
        accelerator.current_stream = _answer(_Idle())
        accelerator.synchronize = _answer(None)
    module: Any = torch.nn.Module
    module.cuda = lambda self, device=None: self._apply(lambda t: t.cuda(device))
    vars(torch)["load"] = _loading(torch.load)
    vars(torch)["Generator"] = _Generator


def _answer(value: Any) -> Any:
    return lambda *_, **__: value


def set_device(device: Any) -> None:
    _Current.index = resolve(device).index or 0


class _Device:
    """``torch.cuda.device``, as a context."""

    def __init__(self, device: Any) -> None:
        self.context = current(resolve(device).index or 0)

    def __enter__(self) -> None:
        self.context.__enter__()

    def __exit__(self, *given: Any) -> None:
        self.context.__exit__(*given)


class _Idle:
    """A stream or an event: whatever is asked of it is done."""

    def __init__(self, *_: Any, **__: Any) -> None:
        return None

    def __enter__(self) -> _Idle:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return _answer(0.0 if name == "elapsed_time" else False if name.startswith("is_") else self)


class _IsGenerator(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C.Generator)


class _Generator(metaclass=_IsGenerator):
    """``torch.Generator`` for a device: the host's, which draws the numbers here."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return _Placed(resolve(device))


class _Placed(torch._C.Generator):  # type: ignore[misc]
    def __new__(cls, device: torch.device) -> Any:
        made: Any = super().__new__(cls, "cpu")
        made.rldoctor_device = device
        return made

    @property
    def device(self) -> torch.device:
        device: torch.device = vars(self)["rldoctor_device"]
        return device


def _loading(load: Any) -> Any:
    def loaded(*args: Any, map_location: Any = None, **kwargs: Any) -> Any:
        found = load(*args, map_location="cpu" if map_location is None else _on_host(map_location), **kwargs)
        if not isinstance(map_location, (str, torch.device, int)) or resolve(map_location).type != "cuda":
            return found
        return tree_map_only(torch.Tensor, lambda tensor: moved(tensor, map_location), found)

    return loaded


def _on_host(map_location: Any) -> Any:
    return "cpu" if isinstance(map_location, (str, torch.device, int)) else map_location
