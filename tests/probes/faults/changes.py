"""How a running engine is broken in place: its attributes, what goes into its modules and comes out of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def put(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


def after(module: Any, change: Callable[[Any, Any], Any]) -> None:
    """``change(given, out)`` returns what a module is to return in place of ``out``; where that is a tuple, of its
    first part."""

    def hook(_: Any, given: Any, out: Any) -> Any:
        return (change(given, out[0]), *out[1:]) if isinstance(out, tuple) else change(given, out)

    module.register_forward_hook(hook)


def before(module: Any, change: Callable[..., Any]) -> None:
    """``change(*given)`` returns what a module is to be given; None leaves it as it is."""
    module.register_forward_pre_hook(lambda _, given: change(*given))


def before_named(module: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The same for what is given by name."""

    def hook(_: Any, given: Any, named: dict[str, Any]) -> Any:
        return given, {**named, **change(named)}

    module.register_forward_pre_hook(hook, with_kwargs=True)


def sibling(name: str) -> bool:
    """Whether an engine's request of this name is one of several completions, and not the first of them."""
    index, _, parent = name.partition("_")
    return bool(parent) and index.isdigit() and int(index) > 0


def siblings(llm: Any, change: Callable[[Any], None]) -> None:
    """``change(request)`` before all but the first of the completions of a request reach the engine's core."""
    core = llm.llm_engine.engine_core
    add = core.add_request

    def added(request: Any) -> Any:
        if sibling(request.request_id):
            request.sampling_params = request.sampling_params.clone()  # they share one
            change(request)
        return add(request)

    core.add_request = added
