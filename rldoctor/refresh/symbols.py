"""Makes the tables of symbols: which module of which release defines which names, with which parameters.

Files are parsed without the bodies of their functions; a file that did not change between two releases is parsed once.
Of the libraries below the frameworks only what some release lacks, or has with other parameters, is kept; so each
release is read again: what all had until then is not in the table."""

from __future__ import annotations

import ast
import datetime
import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from rldoctor.frameworks import frameworks
from rldoctor.knowledge.packages import top_module
from rldoctor.records import dataclass
from rldoctor.refresh.modules import OLDEST, grouping, module_name, modules, order
from rldoctor.refresh.releases import Publications, news
from rldoctor.tables.options.outline import outline
from rldoctor.tables.sources.trees import SourceTree
from rldoctor.tables.symbols import Table
from rldoctor.tables.symbols.columns import columns

SINCE = {
    **OLDEST,
    **{package.name: package.since for one in frameworks() for package in one.packages if package.symbols},
}


@dataclass(frozen=True)
class Library:
    """What frameworks import beside the rollout engine: the oldest release read, and an expression for the
    modules that nobody imports from outside."""

    since: str
    inner: str | None = None


LIBRARIES = {
    "torch": Library(
        "2.0.0",
        inner=r"^torch/(?:_inductor|_dynamo|_functorch|_refs|_decomp|_prims|_numpy|_export|_vendor|_lazy|onnx|ao|export"
        r"|jit|package|sparse|quantization|fx|utils/(?:hipify|viz|tensorboard|data/datapipes)|distributed/(?:pipelining"
        r"|_shard|rpc|_tools))/|^torch/(?!_C/(?:__init__|_VariableFunctions)\.pyi$).*\.pyi$",
    ),
    "ray": Library(
        "2.9.0",
        inner=r"^ray/(?:rllib|data|serve|tune|train|dashboard|autoscaler|workflow|air|llm|cloudpickle|jars|core/generated|"
        r"_private/(?:runtime_env|accelerators|telemetry))/|\.pyi$",
    ),
    "deepspeed": Library("0.14.0", inner=r"^deepspeed/(?:inference|model_implementations|ops|autotuning)/"),
    "huggingface-hub": Library("0.20.0", inner=r"/(?:cli|commands|inference|_webhooks\w*)(?:/|\.)"),
    "datasets": Library("2.14.0", inner=r"/(?:commands|packaged_modules|io)/"),
    "sglang": Library(
        "0.4.1",
        inner=r"^sglang/(?:lang|eval|bench\w*|profiler|multimodal_gen|jit_kernel|cli|test|kernels)(?:/|\.)"
        r"|^sglang/srt/(?:models|layers|multimodal|configs|function_call|compilation|speculative|hardware_backend|dllm)/",
    ),
    "megatron-core": Library("0.8.0", inner=r"/(?:inference|datasets|export|tokenizers)/"),
    "triton": Library("2.1.0", inner=r"/(?:backends|tools|profiler|experimental|_utils|_C|language/extra)(?:/|\.)"),
    "tensordict": Library("0.3.0"),
    "pydantic": Library("1.10.0", inner=r"/(?:_internal|deprecated|v1|experimental|plugin)/"),
    "tokenizers": Library("0.15.0"),
    "liger-kernel": Library("0.4.0"),
    "torchdata": Library("0.7.0", inner=r"/(?:datapipes|dataloader2)/"),
    "torchao": Library("0.5.0", inner=r"/(?:kernel|prototype|_models|experimental)/"),
    "compressed-tensors": Library("0.6.0"),
    "xgrammar": Library("0.1.5", inner=r"/(?:kernels|tvm_ffi)/"),
    "bitsandbytes": Library("0.41.0"),
    "mistral-common": Library("1.4.0"),
    "flash-attn": Library("2.3.0", inner=r"^flash_attn/(?:models|cute|flash_attn_triton_amd)/"),
}
COVERED = (*SINCE, *LIBRARIES)

# One module for each architecture: that it is there, and its classes, is what matters.
_MODELS = re.compile(r"^(?:vllm/(?:model_executor/)?models|transformers/models)/")

Symbols = dict[str, str]


def refresh(package: str, published: Publications, say: Callable[[str], None]) -> list[str]:
    """Reads the releases that the table lacks and writes it. Returns what changed, a line each.

    Raises ``OSError`` where the index does not answer."""
    table = Table.load(package) if package in Table.packages() else Table(package, {"releases": [], **columns({})})
    library = LIBRARIES.get(package)
    since = SINCE[package] if library is None else library.since
    chosen = published.releases(package, since, grouping(package), beside=False)
    before = table.releases
    read = [(v, table.at(v)) for v in table.releases] if library is None else []
    known = {version for version, _ in read}
    kept: dict[bytes, Symbols] = {}
    fresh = []
    for release in chosen:
        if release.version in known:
            continue
        tree = release.open()
        found: dict[str, Symbols] = {}
        for path, text in _modules(tree, package, library):
            digest = hashlib.sha256(f"{path}\0{text}".encode()).digest()
            if digest not in kept:
                kept[digest] = dict(symbols(text, classes_only=bool(_MODELS.match(path))))
            found[module_name(path)] = kept[digest]
        say(f"{package} {release.version}: {len(found)} modules")
        fresh.append((release.version, found))
    # A newer patch of a minor release takes the place of the one that was read before.
    newest = {release.version for release in chosen}
    rows = sorted((row for row in (*read, *fresh) if row[0] in newest), key=lambda row: order(row[0]))
    content = encoded(rows, datetime.date.today().isoformat())
    if library is not None:
        content = changes(content)
    Table.write(package, {**content, **columns(content["modules"])})
    return news([version for version, _ in fresh if version not in before])


def _modules(tree: SourceTree, package: str, library: Library | None) -> Iterator[tuple[str, str]]:
    if library is None:
        return modules(tree, package)
    inner = re.compile(library.inner) if library.inner is not None else None
    return modules(tree, top_module(package), stubs=True, but=inner)


def symbols(text: str, *, classes_only: bool = False) -> Iterator[tuple[str, str]]:
    """The names that a module binds, and members of its classes as ``Class.member``, each with its parameters as
    ``a,b=,*,c=,**`` (empty where it takes none or is not called); whose names it binds all as ``*`` and ``*module``."""
    short = outline(text)
    try:
        tree = ast.parse(short if short is not None else text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in _executed(tree.body):
        if isinstance(node, ast.ClassDef):
            yield node.name, ""
            if not classes_only:
                yield from ((f"{node.name}.{name}", said) for name, said in _members(node))
        elif classes_only:
            continue
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, _parameters(node)
        elif isinstance(node, ast.Import):
            yield from ((alias.asname, "") for alias in node.names if alias.asname)
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, "") for alias in node.names)
            if not node.level and any(alias.name == "*" for alias in node.names):
                yield f"*{node.module}", ""
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, "") for target in targets if isinstance(target, ast.Name))


def encoded(rows: list[tuple[str, dict[str, Symbols]]], day: str) -> dict[str, Any]:
    """The table's content: per module and name the spans of releases, by position, in which it stood with the same
    parameters."""
    modules: dict[str, dict[str, list[list[object]]]] = {}
    for position, (_, found) in enumerate(rows):
        for module, names in found.items():
            held = modules.setdefault(module, {})
            for name, said in {"": "", **names}.items():
                spans = held.setdefault(name, [])
                if spans and spans[-1][1] == position - 1 and spans[-1][2:] == ([said] if said else []):
                    spans[-1][1] = position
                else:
                    spans.append([position, position, *([said] if said else [])])
    return {"date": day, "releases": [version for version, _ in rows], "modules": modules}


def changes(content: dict[str, Any]) -> dict[str, Any]:
    """What is left of a table where only what some release lacks or has otherwise is kept: with each module, what makes
    it give more than it binds, and the class of a member that is kept; ``steady`` are those kept names that another
    module has throughout."""
    last = len(content["releases"]) - 1
    kept: dict[str, dict[str, Any]] = {}
    steady: set[str] = set()
    for module, names in content["modules"].items():
        whole = (names[""][0][0], names[""][-1][1])
        moved = {name for name, spans in names.items() if len(spans) > 1 or (spans[0][0], spans[0][1]) != whole}
        moved |= {name.rpartition(".")[0] for name in moved if name[:1] != "*"} | {"", "__getattr__"}
        moved |= {name for name in names if name[:1] == "*"}
        if whole != (0, last):
            moved |= {name for name in names if "." not in name}
        kept[module] = {name: spans for name, spans in names.items() if name in moved}
        steady |= names.keys() - moved
    steady &= {name for names in kept.values() for name in names}
    return {**content, "modules": kept, "changes": True, "steady": sorted(steady)}


def _members(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if not statement.name.startswith("_") or statement.name == "__init__":
                yield statement.name, _parameters(statement)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, ""
        elif isinstance(statement, ast.Assign):
            yield from ((target.id, "") for target in statement.targets if isinstance(target, ast.Name))


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    first = len(plain) - len(given.defaults)
    parts = [a.arg + ("=" if i >= first else "") for i, a in enumerate(plain) if a.arg not in ("self", "cls")]
    parts += ["*"] if given.vararg or given.kwonlyargs else []
    parts += [a.arg + ("=" if d is not None else "") for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return ",".join([*parts, *(["**"] if given.kwarg else [])])


def _executed(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _executed(node.body)
            yield from _executed(getattr(node, "orelse", []))
            for handler in getattr(node, "handlers", []):
                yield from _executed(handler.body)
