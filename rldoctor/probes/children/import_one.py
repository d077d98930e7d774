"""Imports one package the way a rollout would and records what came of it, and what it brought along.

Arguments: ``plan`` and ``others``, each plan being ``name`` (the distribution), ``module``, ``attributes`` to take
from it (packages that import lazily load nothing before) and ``modules`` to import after it."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from native_loading import watch
from report import elapsed, emit, run


def main(arguments: dict[str, Any]) -> None:
    failures = watch()
    try:
        load(arguments["plan"])
        emit("imported", {"version": version(arguments["plan"]["module"]), "seconds": elapsed()})
    finally:
        if failures:
            emit("native_failures", failures)
    if "torch" in sys.modules:
        emit("torch", torch_facts())
    # What this package has loaded is half proven already; the other half costs next to nothing here.
    also = {}
    for plan in arguments["others"]:
        if plan["module"] in sys.modules:
            try:
                load(plan)
            except Exception:
                continue  # it gets a process of its own, which will tell why
            also[plan["name"]] = version(plan["module"])
            emit("also", also)


def load(plan: dict[str, Any]) -> None:
    module = importlib.import_module(plan["module"])
    for attribute in plan["attributes"]:
        getattr(module, attribute)
    for name in plan["modules"]:
        importlib.import_module(name)


def version(module: str) -> str | None:
    value = getattr(sys.modules[module], "__version__", None)
    return None if value is None else str(value)


def torch_facts() -> dict[str, Any]:
    """What the torch that was loaded is built for and sees: versions of CUDA or ROCm, compute architectures of its
    kernels (``sm_90``; none in a build for the CPU), devices. What this torch does not tell is None."""
    import torch

    def ask(question: Any) -> Any:
        try:
            return question()
        except Exception:
            return None

    device = ask(lambda: torch.version.cuda or torch.version.hip)
    return {
        "version": ask(lambda: str(torch.__version__)),
        "file": ask(lambda: torch.__file__),
        "cuda": ask(lambda: torch.version.cuda),
        "hip": ask(lambda: torch.version.hip),
        "cuda_available": ask(lambda: torch.cuda.is_available()),
        "device_count": ask(lambda: torch.cuda.device_count()),
        # get_arch_list() is empty where no device is seen; the flags say what the build holds anywhere.
        "architectures": ask(lambda: torch._C._cuda_getArchFlags().split()) if device else [],
        "cxx11_abi": ask(lambda: torch.compiled_with_cxx11_abi()),
    }


if __name__ == "__main__":
    run(main)
