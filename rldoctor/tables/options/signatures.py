"""Options declared as the parameters of a function."""

from __future__ import annotations

import ast

from rldoctor.tables.options.annotations import meaning
from rldoctor.tables.options.fields import Classes
from rldoctor.tables.options.model import MISSING, Option, Options
from rldoctor.tables.options.source import Definition, Module

_RECEIVERS = frozenset({"self", "cls"})


def signature_options(classes: Classes, module: Module, name: str) -> Options:
    """The parameters of the function or method ``name`` (``LLM.__init__``); ``*args`` and ``**kwargs`` are left out."""
    found = classes.sources.resolve(module, name)
    if not isinstance(found, Definition) or not isinstance(found.node, ast.FunctionDef):
        return {}
    spec = found.node.args
    positional = [*spec.posonlyargs, *spec.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults)) + list(spec.defaults)
    pairs = [*zip(positional, defaults, strict=True), *zip(spec.kwonlyargs, spec.kw_defaults, strict=True)]
    options: Options = {}
    for parameter, default in pairs:
        if parameter.arg in _RECEIVERS:
            continue
        read = meaning(classes.sources, found.module, parameter.annotation) if parameter.annotation else None
        options[parameter.arg] = Option(
            parameter.arg,
            default=MISSING if default is None else classes.evaluator.value(found.module, default),
            type=read.label if read else "",
            choices=read.closed if read else None,
            required=default is None,
        )
    return options
