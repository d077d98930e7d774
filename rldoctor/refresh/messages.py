"""Makes the tables of messages from the sources of published releases."""

from __future__ import annotations

import ast
import hashlib
import platform
import re
from collections import defaultdict
from collections.abc import Callable, Mapping

from rldoctor.frameworks import frameworks
from rldoctor.knowledge.packages import top_module
from rldoctor.records import dataclass
from rldoctor.refresh.declarations import SourceError
from rldoctor.refresh.message_sites import Message, messages
from rldoctor.refresh.modules import OLDEST, grouping, module_name, modules, order
from rldoctor.refresh.releases import Publications, Release, news, with_releases
from rldoctor.refresh.spelled import Enumeration, declared, members, spelled_out
from rldoctor.tables.messages import CUT, MARKS, MOST_CONDITIONS, Table

# To be raised where what is read of a source changes: the next refresh then makes each table anew. A test holds it
# against the text of the code that reads.
EXTRACTOR = 1


@dataclass(frozen=True)
class Library:
    """What engines and trainers are made of: nobody's launch is held against what it refuses. ``since`` is the oldest
    release that is read; ``but`` finds the modules that do other work, are compiled, or are one for each architecture:
    they say the same of their inputs, and are most of a package."""

    since: str
    but: str = r"(?!)"


LIBRARIES = {
    **{package: Library(since) for package, since in OLDEST.items()},
    "transformers": Library(OLDEST["transformers"], r"^transformers/models/(?!auto/)"),
    "deepspeed": Library("0.14.0"),
    "ray": Library(
        "2.30.0",
        r"^ray/(?:rllib|serve|tune|data|train|air|workflow|dashboard|cloudpickle)/"
        r"|^ray/.*(?:thirdparty_files|generated)/",
    ),
    "sglang": Library(
        "0.4.1",
        r"^sglang/(?:lang|eval|bench\w*|profiler|multimodal_gen|jit_kernel|cli|test|kernels)(?:/|\.)"
        r"|^sglang/srt/(?:models|multimodal|configs|function_call|hardware_backend|dllm|layers)/",
    ),
    "megatron-core": Library("0.8.0"),
    "torch": Library(
        "2.4.0",
        r"^torch/(?:_(?:refs|decomp|prims\w*|numpy|vendor|lazy|export|strobelight|awaits|inductor|higher_order_ops|dynamo"
        r"|functorch|subclasses|meta_registrations|custom_op\w*|tensor_str|C\w*)|onnx|ao|export|jit|package|quantization"
        r"|testing|distributions|special|signal|masked|mtia|xpu|mps|fx|nested|sparse|func|futures|profiler"
        r"|autograd/(?:gradcheck|functional|forward_ad|profiler\w*)|backends/(?:xnnpack|_coreml|_nnapi)"
        r"|utils/(?:hipify|viz|tensorboard|benchmark|bottleneck|model_dump|_sympy|_cxx_pytree|_pytree|data/datapipes)"
        r"|distributed/(?:rpc|_tools|pipelining|nn|_shard|algorithms|_local_tensor|_spmd|optim|benchmarks)"
        r"|nn/(?:quant\w*|qat|intrinsic))(?:/|\.)",
    ),
    "datasets": Library("2.18.0", r"/(?:commands|io|formatting/(?:jax|tf)\w*)/"),
    "huggingface-hub": Library("0.23.0", r"^huggingface_hub/(?:cli|commands|inference|_jobs\w*|_space\w*)(?:/|\.)"),
    "tensordict": Library("0.5.0", r"/(?:nn|prototype|store|tabular|_ucxx|_datasets|_arrow|persistent)(?:/|\.)"),
    "omegaconf": Library("2.1.0"),
    "hydra-core": Library("1.2.0"),
    "wandb": Library(
        "0.17.0",
        r"^wandb/(?!__init__|errors/|sdk/(?:wandb_(?:init|run|login|settings|setup)|lib/|mailbox|backend/|artifacts/artifact\.))",
    ),
    "triton": Library("3.0.0", r"/(?:backends/amd|tools|profiler|experimental|_utils|_C|language/extra)/"),
    "bitsandbytes": Library("0.43.0"),
    "flash-attn": Library("2.5.0", r"^flash_attn/(?:cute|flash_attn_triton_amd)/"),
    "torchdata": Library("0.8.0", r"^torchdata/(?!stateful_dataloader)"),
    "safetensors": Library("0.4.0"),
    "tokenizers": Library("0.19.0"),
}
SINCE = {
    **{package: library.since for package, library in LIBRARIES.items()},
    # Of a repository's, what its framework refuses is asked for. A fork's modules have its parent's names.
    **{
        package.name: package.since
        for framework in frameworks()
        for package in framework.packages
        if package.since and not package.distribution and (package.published or framework.validations)
    },
}
COVERED = tuple(SINCE)
_GENERATED = r"_pb2(?:_grpc)?\.py$"  # what a protocol's compiler wrote
# What a launch sets is held against the conditions of these before it starts.
_READS_VALUES = re.compile(r"conf|arg|param|plugin|dataclass|valid")
# An assertion without words says less than the line that a traceback shows, but in an engine's own loop, which changes
# from release to release.
_LOOP = re.compile(r"^vllm\.(?:v1\.)?(?:core|engine|worker|executor|sample|spec_decode)\b|^ray\.")

Row = tuple[str, str, str, str, tuple[str, ...]]


@dataclass(frozen=True)
class _Read:
    """What a module can print, and the classes of it that may be enumerations; ``why`` it could not be read."""

    messages: tuple[Message, ...] = ()
    classes: tuple[tuple[str, Enumeration], ...] = ()
    why: str = ""


def refresh(package: str, published: Publications, say: Callable[[str], None]) -> list[str]:
    """Reads the releases that the table lacks, or all where another extractor made it, and writes it. Returns what
    changed, a line each.

    Raises ``OSError`` where the index does not answer, and :class:`SourceError` where what the table has would be lost
    because this Python does not read it."""
    chosen = published.releases(package, SINCE[package], grouping(package), beside=False)
    table = Table.load(package) if package in Table.packages() else None
    stale = table is not None and table.made_by != made_by(package)
    held = with_releases(table.releases, table.rows()) if table is not None else {}
    known = table.releases if table is not None and not stale else []
    rows: dict[Row, set[str]] = defaultdict(set, held if not stale else {})
    kept: dict[bytes, _Read] = {}
    fresh = [release for release in chosen if release.version not in known]
    for release in fresh:
        found = _of_release(package, release, kept)
        for path, one in ((path, one) for path, one in found if one.why):
            say(f"{package} {release.version}: {path} is not for Python {platform.python_version()} ({one.why})")
            if any(row[0] == module_name(path) and release.version in versions for row, versions in held.items()):
                raise SourceError("the table has messages of what was not read: it stays as it is")
        texts = members(one for _, read in found for one in read.classes)
        several = [_row(package, module_name(path), one, texts) for path, read in found for one in read.messages]
        for row in filter(None, several):
            rows[row].add(release.version)
        say(f"{package} {release.version}: {len(several) - several.count(None)} messages")
    # A newer patch of a minor release takes the place of the one that was read before.
    releases = sorted((release.version for release in chosen), key=order)
    Table.write(package, encoded(rows, releases, made_by(package)))
    changed = news([release.version for release in fresh if table is None or release.version not in table.releases])
    return [*changed, *([f"all {len(fresh)} releases were read anew"] if stale else [])]


def made_by(package: str) -> str:
    """By what the table of a package is made: the extractor, and what is left out of this package."""
    decides = (EXTRACTOR, MARKS, MOST_CONDITIONS, _left_out(package).pattern)
    return hashlib.sha256(repr(decides).encode()).hexdigest()[:12]


def _left_out(package: str) -> re.Pattern[str]:
    return re.compile(f"{_GENERATED}|{LIBRARIES[package].but}" if package in LIBRARIES else _GENERATED)


def _of_release(package: str, release: Release, kept: dict[bytes, _Read]) -> list[tuple[str, _Read]]:
    """Path and content of every module of a release; ``kept`` are those that were read before."""
    found: list[tuple[str, _Read]] = []
    for path, text in modules(release.open(), top_module(package), but=_left_out(package)):
        digest = hashlib.sha256(f"{path}\0{text}".encode()).digest()
        if digest not in kept:
            kept[digest] = _read(text)
        found.append((path, kept[digest]))
    return found


def _read(text: str) -> _Read:
    try:
        return _Read(tuple(messages(text)), tuple(declared(text)))
    except SyntaxError as error:
        return _Read(why=f"line {error.lineno}: {error.msg}" if error.lineno else error.msg)


def _row(package: str, module: str, found: Message, texts: Mapping[str, ast.expr]) -> Row | None:
    """What the table keeps of a message: of a library beside what reads a launch's values the innermost condition
    alone, and nothing of what says no more than the line that a traceback shows. ``texts`` are those of the members of
    the release's enumerations; an assertion without words is told by its line, as it stands."""
    conditions = found.conditions
    if found.template or found.type != "AssertionError":
        conditions = tuple(spelled_out(condition, texts) for condition in conditions)
    if package in LIBRARIES and not _READS_VALUES.search(module):
        if not found.template and not (found.type == "AssertionError" and _LOOP.search(module)):
            return None
        told = [condition for condition in conditions if condition not in MARKS]
        if len(told) > 1:
            conditions = (CUT, told[-1])
    return module, found.function, found.type, found.template, conditions


def encoded(rows: Mapping[Row, set[str]], releases: list[str], made: str = "") -> dict[str, object]:
    """The table's content: by module and function ``[type, template, conditions, first, last, ...]``, the releases by
    position."""
    found: dict[str, dict[str, list[list[object]]]] = {}
    for (module, function, type_, template, conditions), versions in sorted(rows.items()):
        there = [position for position, release in enumerate(releases) if release in versions]
        if there:
            spans = [p for p in there for edge in (p - 1, p + 1) if edge not in there]
            found.setdefault(module, {}).setdefault(function, []).append([type_, template, list(conditions), *spans])
    return {"made_by": made, "releases": releases, "modules": found}
