"""What a launch names and that is not there: a module to start that no release of the framework has, a file of its own,
a variable that nothing sets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from rldoctor.formats.native import Native
from rldoctor.formats.source import is_below
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.slips import slip
from rldoctor.plan.model import Form, RefusedValue

_UNSET = re.compile(r"([A-Za-z_]\w*) is not set in this file$")
_GOES = re.compile(r"\b(?:cd|pushd)[ \t]")
_EVALUATES = re.compile(r"\beval[ \t]")
_SOURCED = re.compile(r"(?:^|[\s;&|])(?:source|\.)[ \t]+([^\s;&|]+)")
_SETS = re.compile(r"^[ \t]*(?:export |readonly |local |declare )?([A-Za-z_]\w*)=", re.MULTILINE)


def misnamed(launch: Launch, package: str) -> RefusedValue | None:
    """The module that ``python -m`` is to start, where no release read has it and one part of its name is a slip of the
    pen in one that the launch's own release has. Any other may come from elsewhere, as one does that lies beside the
    launch."""
    own = f"{launch.entry.replace('.', '/')}.py"
    if not launch.entry.startswith(f"{package}.") or launch.place is None or launch.files.find(own) is not None:
        return None
    from rldoctor.tables.frames import Table

    try:
        table = Table.load(package)
    except KeyError:
        return None
    at = table.around(launch.version_of(package) or "")
    if not at or table.covers(launch.entry):
        return None
    meant = next((name for name in table.modules(at) if _slipped(launch.entry, name)), None)
    if meant is None:
        return None
    return RefusedValue(
        key="python -m",
        value=launch.entry,
        file=launch.file,
        line=launch.line,
        form=launch.place.form,
        owner="Python",
        takes=meant,
        why=f"{package} has no module of that name (`No module named`), and {meant}",
    )


def misnamed_file(launch: Launch, native: Native) -> RefusedValue | None:
    """A Python file of the launch's own that is not there, where one with nearly its name is. A function may stand
    behind it (``reward.py:score``)."""
    name = native.value.partition(":")[0] if isinstance(native.value, str) else ""
    stem, _, end = name.rpartition("/")[2].rpartition(".")
    if end != "py" or "$" in name or launch.files.find(name) is not None:
        return None
    there = [other.removesuffix(".py") for other in launch.files.near(name) if other.endswith(".py")]
    meant = slip(stem, there) or next((other for other in there if f"{other}s" == stem or other == f"{stem}s"), None)
    if meant is None:
        return absent_file(launch, native)
    takes = f"{name.rpartition('/')[0]}/{meant}.py".removeprefix("/")
    return native.as_refused(owner="Python", value=name, takes=takes, why=f"there is no such file, and {takes}")


def absent_script(launch: Launch) -> RefusedValue | None:
    """The Python file that a command starts, where it is not there."""
    if launch.place is None or launch.place.form is not Form.OPTION or not launch.entry.endswith(".py"):
        return None
    script = Native(key="script", value=launch.entry, file=launch.file, line=launch.line, form=Form.OPTION)
    return absent_file(launch, script)


def absent_file(launch: Launch, native: Native, owner: str = "Python") -> RefusedValue | None:
    """A file that ``owner`` is to open and that is not there, where its first folder is, and another one is that the
    launch names as it names this: by a path from the folder in which it is started. What its script speaks of once
    more, or whose folder, may be made or fetched by it; of a script that goes to another folder, nobody can say."""
    name = native.value.partition(":")[0] if isinstance(native.value, str) else ""
    path = PurePosixPath(name)
    if not is_below(name) or not set(name).isdisjoint("$~*{"):
        return None
    beside = next((one for one in launch.files.below if one != name), None)
    if beside is None or name in launch.files.written or launch.files.find(name) is not None:
        return None
    text, folder = launch.files.source(Path(launch.file)).text, re.escape(str(path.parent))
    named = text.count(path.name) - (native.file == launch.file)
    if named > 0 or re.search(rf"{folder}/?(?![\w/.-])", text) is not None or _GOES.search(text) is not None:
        return None
    if not launch.files.has_folder(path.parts[0]):  # a clone, or what is unpacked
        return None
    why = f"there is no such file in the folder where {beside} lies"
    return native.as_refused(owner=owner, value=name, takes="the path of a file that is there", why=why)


def unset(launch: Launch, natives: Iterable[Native]) -> Iterator[RefusedValue]:
    """Values that are a variable which nothing sets, where its name is a slip of the pen in one that the script sets
    and never uses: the shell puts nothing in its place. One that the script speaks of otherwise (``# NNODES=2 bash
    run.sh``) is its caller's, and what the shell evaluates, or a file of variables that is not at hand, may set any. So
    where blanks around the sign make no assignment of what was meant for one."""
    for native in natives:
        found = _UNSET.match(native.value.why) if isinstance(native.value, Unresolved) else None
        if found is None or "$" not in native.value.raw:
            continue
        text = launch.files.source(Path(native.file)).text
        sourced = (launch.files.find(name.strip("'\"")) for name in _SOURCED.findall(text))
        if None in sourced or _EVALUATES.search(text) is not None:
            continue
        if (apart := re.search(rf"(?m)^[ \t]*{found[1]}([ \t]+=|=[ \t]+(?=[\"'\w/$]))", text)) is not None:
            why = f"an assignment has no blanks around its =, and the shell sets no {found[1]} in {apart[0].strip()!r}"
            yield native.as_refused(owner="the shell", value=native.value.raw, takes=f"{found[1]}=VALUE", why=why)
            continue
        if re.search(rf"(?<![\w${{]){found[1]}\b|\{{{found[1]}:?[-+=?]", text) is not None:
            continue
        meant = slip(found[1], [name for name in _SETS.findall(text) if re.search(rf"\$\{{?{name}\b", text) is None])
        if meant is not None:
            why = f"nothing sets {found[1]}, and the shell puts nothing in its place; the script sets {meant}"
            yield native.as_refused(owner="the shell", value=native.value.raw, takes=f"${meant}", why=why)


def _slipped(given: str, real: str) -> bool:
    """Whether one part of a dotted name is a slip of the other's, a folder's also where it is the plural, and the rest
    is the same."""
    pairs = list(zip(given.split("."), real.split("."), strict=False))
    other = [(one, known) for one, known in pairs if one != known]
    if given.count(".") != real.count(".") or len(other) != 1:
        return False
    ((one, known),) = other
    return slip(one, [known]) is not None or (other[0] != pairs[-1] and one == f"{known}s")
