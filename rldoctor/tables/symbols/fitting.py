"""Which releases accept what was asked of a class or function: an argument, so many by position, an attribute."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.records import dataclass
from rldoctor.tables.symbols import Table
from rldoctor.tables.symbols.history import History, history_at, positions


@dataclass(frozen=True)
class Request:
    """What a caller asks of ``owner``: a class, ``Class.method`` or a function. ``kind`` is ``argument`` (it passes
    ``names``), ``missing`` (it leaves ``names`` out), ``positions`` (it passes ``most`` by position, the object itself
    not counted) or ``attribute`` (it reads ``names``). ``by_fields`` says that the class takes its fields and nothing
    else."""

    kind: str
    owner: str
    names: tuple[str, ...] = ()
    most: int = 0
    by_fields: bool = False


def accepting(package: str, asked: Request, release: str = "") -> tuple[History, ...]:
    """The histories of what was asked, one for each module whose ``owner`` accepts it in some releases and not in
    others; with a ``release``, of those that refuse it there. Modules of which one follows the other are one. Empty
    where no release tells the two apart."""
    try:
        table = Table.load(package)
    except KeyError:
        return ()
    at = table.read_for(release)
    found: list[tuple[str, set[int], set[int]]] = []
    for module in _homes(table, asked.owner):
        there = positions(table, module, asked.owner.removesuffix(".__init__"))
        fits = _fits(table, module, asked)
        if fits is None:
            continue
        before = next((one for one in found if not one[1] & there), None)
        if before is not None:
            found.remove(before)
            there, fits = there | before[1], fits | before[2]
            module = max(module, before[0], key=lambda name: max(positions(table, name, "")))
        found.append((module, there, fits & there))
    return tuple(
        history_at(table, package, f"{module}.{asked.owner}", fits)
        for module, there, fits in found
        if fits and there - fits and (at is None or at in there - fits)
    )


def refused_by_all(package: str, asked: Request) -> History | None:
    """The empty history of an argument that no release of a package takes, of a class of its own that all of them have
    in one place; None where some release takes it, or that is not known."""
    known = _arguments(package, asked)
    if known is None or any(known[2].values()):
        return None
    table, home, _ = known
    return history_at(table, package, f"{home}.{asked.owner.removesuffix('.__init__')}", set())


def taken_by_all(package: str, asked: Request) -> History | None:
    """The history of an argument that every release of a package takes, by its name, of a class of its own that all of
    them have in one place: only one before them refuses it. None where some release does not, or that is not known."""
    known = _arguments(package, asked)
    if known is None or not all(known[2].values()):
        return None
    table, home, taking = known
    return history_at(table, package, f"{home}.{asked.owner.removesuffix('.__init__')}", set(taking))


def _arguments(package: str, asked: Request) -> tuple[Table, str, dict[int, bool]] | None:
    """For an argument of a class that every release has in one module: the table, the module, and of each release, by
    its number, whether it takes the argument by name. None where that is not known."""
    try:
        table = Table.load(package)
    except KeyError:
        return None
    made = asked.owner.removesuffix(".__init__")
    homes = list(_homes(table, asked.owner))
    releases = range(len(table.releases))
    if asked.kind != "argument" or len(homes) != 1 or not made[:1].isupper() or table.changes:
        return None
    if positions(table, homes[0], made) != set(releases):
        return None
    fields = set.intersection(*(positions(table, homes[0], f"{made}.{name}") for name in asked.names))
    signatures = table.spans(homes[0], f"{made}.__init__")
    if not signatures and asked.by_fields:
        return table, homes[0], {p: p in fields for p in releases}
    if not signatures:  # the fields of a dataclass; those that it inherits are not known
        return (table, homes[0], dict.fromkeys(releases, True)) if fields == set(releases) else None
    said = [(span, span.parameters.split(",")) for span in signatures]
    if positions(table, homes[0], f"{made}.__init__") != set(releases) or any("**" in names for _, names in said):
        return None
    taking = {
        position
        for span, names in said
        if _accepts(names, asked)
        for position in range(table.releases.index(span.since), table.releases.index(span.until) + 1)
    }
    return table, homes[0], {p: p in taking for p in releases}


def packages() -> tuple[str, ...]:
    """The packages of which the parameters and members are known."""
    return Table.packages()


def exports(package: str, name: str, *, outside: bool = False) -> bool:
    """Whether some release of a package defines a class or function; with ``outside``, gives it to those who import
    the package itself."""
    try:
        table = Table.load(package)
    except KeyError:
        return False
    if outside:
        return bool(table.spans(package, name)) or (bool(table.spans(package, "*")) and bool(table.homes(name)))
    return any(table.defines(home, name) for home in table.homes(name))


def _homes(table: Table, owner: str) -> Iterator[str]:
    """The modules that define the class or function itself, in any release."""
    made = owner.removesuffix(".__init__")
    for home in table.homes(made):
        if table.defines(home, made):
            yield home


def _fits(table: Table, module: str, asked: Request) -> set[int] | None:
    """The releases that accept what is asked; None where the table does not tell."""
    if asked.kind == "attribute":
        return set.intersection(*(_having(table, module, asked.owner, name) for name in asked.names))
    fits = set()
    known = False
    for name in dict.fromkeys((asked.owner, f"{asked.owner}.__init__")):
        for span in table.spans(module, name):
            if not span.parameters:
                continue
            known = True
            if _accepts(span.parameters.split(","), asked):
                first, last = table.releases.index(span.since), table.releases.index(span.until)
                fits |= set(range(first, last + 1))
    if asked.kind == "argument":  # the parameters of a dataclass are its fields
        made = asked.owner.removesuffix(".__init__")
        fields = set.intersection(*(positions(table, module, f"{made}.{name}") for name in asked.names))
        return fits | fields if known or fields else None
    return fits if known else None


def _having(table: Table, module: str, owner: str, name: str) -> set[int]:
    """The releases in which a class has a member; where it never had one of its own, those in which another class of
    its module has, from which it may be derived."""
    own = positions(table, module, f"{owner}.{name}")
    others = {other for other in table.names(module) if other.rpartition(".")[2] == name and "." in other}
    return own or {p for other in others for p in positions(table, module, other)}


def _accepts(parameters: list[str], asked: Request) -> bool:
    """Whether parameters such as ``a``, ``b=``, ``*``, ``c=``, ``**`` take what is asked."""
    named = [parameter.removesuffix("=") for parameter in parameters]
    if asked.kind == "argument":
        return "**" in parameters or set(asked.names) <= set(named)
    if asked.kind == "missing":
        return not any(name in parameters for name in asked.names)
    before = parameters.index("*") if "*" in parameters else len(parameters)
    return len([name for name in named[:before] if name != "**"]) >= asked.most
