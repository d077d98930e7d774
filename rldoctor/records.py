"""Dataclasses whose ``__init__`` is written when many of them are made, and whose other methods are shared.

:func:`dataclasses.dataclass` writes and compiles six functions for each class, which was a sixth of a start-up: it
imports more than two hundred of them, makes one of half, and many of few. They stay dataclasses, and no other kind of
record, because plugins and reports use the standard library's ``fields``, ``replace`` and ``asdict`` on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from collections.abc import Callable, Iterator
    from functools import partial
    from operator import attrgetter
    from typing import Any

    _FACTORY = object()
    # To write and compile an ``__init__`` takes as long as to make some forty without one.
    _FEW = 30

    def dataclass(cls: type | None = None, *, frozen: bool = False, kw_only: bool = False) -> Any:
        """What :func:`dataclasses.dataclass` makes with the same options."""
        if cls is None:
            return partial(dataclass, frozen=frozen, kw_only=kw_only)
        own = frozenset(vars(cls))
        # What derives from another must be as frozen as that says it is; else two more functions would be compiled.
        checked = frozen and any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
        dataclasses.dataclass(init=False, repr=False, eq=False, frozen=checked, kw_only=kw_only)(cls)
        cls.__dataclass_params__.frozen = frozen
        for name, method in _methods(cls, frozen):
            if name not in own:
                setattr(cls, name, method)
        return cls

    def _methods(cls: type, frozen: bool) -> Iterator[tuple[str, Any]]:
        fields = dataclasses.fields(cls)
        yield "__init__", _first(cls)
        yield "__repr__", _shown
        compared = _values(field.name for field in fields if field.compare)
        yield "__eq__", _equal(compared)
        if frozen:
            kept = [field for field in fields if field.hash is not False]
            hashed = compared if len(kept) == len(fields) else _values(field.name for field in kept if field.compare)
            yield "__hash__", lambda self: hash(hashed(self))
            yield "__setattr__", _refused
            yield "__delattr__", _refused
        else:
            yield "__hash__", None

    def _first(cls: type) -> Callable[..., None]:
        """The ``__init__`` of a class of which few are made. What does not fit is refused by the one that is written
        then; two threads that write it at once write the same."""
        left = _FEW
        shape: Any = None

        def first(self: Any, /, *args: Any, **named: Any) -> None:
            nonlocal left, shape
            left -= 1
            shape = shape or _shape(cls)
            in_order, defaults, factories = shape
            given = dict(zip(in_order, args, strict=False))
            fits = left >= 0 and len(args) <= len(in_order) and given.keys().isdisjoint(named)
            given = {**defaults, **given, **named}
            for name, make in factories:
                if name not in given:
                    given[name] = make()
            if fits and given.keys() == cls.__dataclass_fields__.keys():
                self.__dict__.update(given)
                if hasattr(cls, "__post_init__"):
                    self.__post_init__()
            else:
                cls.__init__ = _written(cls)
                cls.__init__(self, *args, **named)

        return first

    def _shape(cls: type) -> tuple[list[str], dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
        """The fields that are given in their order, the defaults, and what makes others."""
        fields = dataclasses.fields(cls)
        return (
            [field.name for field in fields if not field.kw_only],
            {field.name: field.default for field in fields if field.default is not dataclasses.MISSING},
            [(f.name, f.default_factory) for f in fields if f.default_factory is not dataclasses.MISSING],
        )

    def _written(cls: type) -> Callable[..., None]:
        """The ``__init__`` of a class, in words that are compiled."""
        names: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
        taken: dict[bool, list[str]] = {False: [], True: []}
        lines = []
        for field in dataclasses.fields(cls):
            name, value = field.name, field.name
            if field.default_factory is not dataclasses.MISSING:
                names[f"_make_{name}"] = field.default_factory
                value = f"_make_{name}() if {name} is _factory else {name}"
                default = "=_factory"
            elif field.default is not dataclasses.MISSING:
                names[f"_default_{name}"] = field.default
                default = f"=_default_{name}"
            else:
                default = ""
            taken[field.kw_only].append(name + default)
            lines.append(f" _set(_self, {name!r}, {value})")
        if hasattr(cls, "__post_init__"):
            lines.append(" _self.__post_init__()")
        given = ", ".join(["_self", *taken[False], *(["*", *taken[True]] if taken[True] else [])])
        exec("\n".join([f"def __init__({given}):", *(lines or [" pass"])]), names)
        written = names["__init__"]
        written.__qualname__ = f"{cls.__qualname__}.__init__"
        return written

    def _values(names: Iterator[str]) -> Callable[[Any], Any]:
        named = tuple(names)
        return attrgetter(*named) if named else lambda _: ()

    def _equal(compared: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        def equal(self: Any, other: Any) -> Any:
            return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

        return equal

    def _shown(self: Any) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _refused(self: Any, name: str, *_: Any) -> None:
        raise dataclasses.FrozenInstanceError(f"a {type(self).__name__} does not change: {name!r}")
