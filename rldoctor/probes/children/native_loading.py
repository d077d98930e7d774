"""Watches which native libraries fail to load, also where the importing package swallows the error.

vLLM turns a failed ``import vllm._C`` into a warning
(https://github.com/vllm-project/vllm/blob/v0.9.1/vllm/_custom_ops.py) and torchvision goes on without its operators
until one is missed (https://github.com/pytorch/vision/blob/v0.22.1/torchvision/extension.py): what is printed in the
end hides the reason."""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
from typing import Any

from report import emit, package_of

MAX_FAILURES = 20


def watch() -> list[dict[str, Any]]:
    """Begins to watch; the list it returns grows by one entry (``path``, ``module``, ``package``, ``type``,
    ``message``) for every library that could not be loaded. The record ``loading`` names the last one begun, for the
    case that it crashes."""
    failures: list[dict[str, Any]] = []

    def note(path: object, module: object, error: BaseException) -> None:
        # A library that exports no Python module by its own name was loaded all the same: vLLM's variants for one CPU.
        if len(failures) < MAX_FAILURES and "dynamic module does not define module export function" not in str(error):
            failures.append(
                {
                    "path": str(path),
                    "module": module,
                    "package": package_of(str(path)),
                    "type": type(error).__name__,
                    "message": str(error),
                }
            )

    loader: Any = importlib.machinery.ExtensionFileLoader
    create_module = loader.create_module
    library: Any = ctypes.CDLL
    open_library = library.__init__

    @functools.wraps(create_module)
    def create(self: Any, spec: Any) -> Any:
        emit("loading", {"path": spec.origin, "module": spec.name, "package": package_of(str(spec.origin))})
        try:
            return create_module(self, spec)
        except ImportError as error:
            note(spec.origin, spec.name, error)
            raise

    @functools.wraps(open_library)
    def open_(self: Any, name: Any, *rest: Any, **more: Any) -> None:
        emit("loading", {"path": name, "module": None, "package": package_of(str(name))})
        try:
            open_library(self, name, *rest, **more)
        except OSError as error:
            note(name, None, error)
            raise

    loader.create_module = create
    library.__init__ = open_
    return failures
