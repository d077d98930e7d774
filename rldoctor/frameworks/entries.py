"""Code that a launch names and that is not there: a module to start that no release of the framework has, a file of
its own beside which another has nearly its name."""

from __future__ import annotations

from rldoctor.formats.native import Native
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.slips import slip
from rldoctor.plan.model import RefusedValue


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
        return None
    takes = f"{name.rpartition('/')[0]}/{meant}.py".removeprefix("/")
    return native.as_refused(owner="Python", value=name, takes=takes, why=f"there is no such file, and {takes}")


def _slipped(given: str, real: str) -> bool:
    """Whether one part of a dotted name is a slip of the other's, a folder's also where it is the plural, and the rest
    is the same."""
    pairs = list(zip(given.split("."), real.split("."), strict=False))
    other = [(one, known) for one, known in pairs if one != known]
    if given.count(".") != real.count(".") or len(other) != 1:
        return False
    ((one, known),) = other
    return slip(one, [known]) is not None or (other[0] != pairs[-1] and one == f"{known}s")
