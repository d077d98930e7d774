"""Words of a launch that its parser refuses: what a blank has torn out of one of Hydra's overrides, values that its
grammar does not have, a sweep that nobody asked for, what refers to a key that is not there, and a truth value behind
an option that takes none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rldoctor.formats.hydra.grammar import SWEEP
from rldoctor.formats.hydra.interpolation import ABSENT
from rldoctor.formats.native import Native
from rldoctor.formats.values import Refused, Unresolved
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.refusals import SWITCH
from rldoctor.plan.model import Form, RefusedValue

if TYPE_CHECKING:
    from rldoctor.formats.shell.reader import Word
    from rldoctor.tables.options.optionset import OptionSet

_REFERS = re.compile(rf"([a-z_][\w.]*) {ABSENT}$")
_TILDE = re.compile(r"""=["']?~""")
_OPEN, _CLOSED = "[{(", "]})"


def strays(launch: Launch) -> list[RefusedValue]:
    """Hydra takes ``KEY=VALUE``, each as one word, and refuses every other (`missing EQUAL`): one for each run of such
    words, with the override that they make together."""
    torn = {id(word) for word in launch.arguments(overrides=True).positionals if _stray(word)}
    found: list[RefusedValue] = []
    before: Word | None = None
    for is_torn, run in groupby(launch.words, lambda word: id(word) in torn):
        pieces = list(run)
        if is_torn:
            found.append(_refused(before, pieces, launch))
        before = pieces[-1]
    return found


def ungrammatical(launch: Launch) -> list[RefusedValue]:
    """The overrides whose values Hydra's grammar refuses, as long as no blank has torn a piece off one of them."""
    arguments = launch.arguments(overrides=True)
    if any(_stray(word) for word in arguments.positionals):
        return []
    return [
        native.as_refused(
            owner="Hydra",
            value=native.value.raw,
            takes="a value of Hydra's grammar, in quotes within the shell's own where it has signs or blanks",
            why=native.value.why,
        )
        for native in arguments.natives
        # A tilde out of a variable may be one that the shell replaces, where its home folder is not known here.
        if isinstance(native.value, Refused) and ("~" not in native.value.raw or _TILDE.search(native.raw))
    ]


def sweeps(launch: Launch) -> list[RefusedValue]:
    """The overrides whose value has a comma outside of quotes and brackets: several values, of which one run takes
    none (`Ambiguous value for argument`)."""
    arguments = launch.arguments(overrides=True)
    asked = any(arguments.find(name) is not None for name in ("multirun", "m", "hydra.mode"))
    if asked or any(tree.has("hydra.mode") for tree in launch.trees):
        return []
    return [
        native.as_refused(
            owner="Hydra",
            value=native.value.raw,
            takes="one value, or several within brackets",
            why="the comma makes it a sweep over several values, which Hydra refuses without --multirun "
            "(`Ambiguous value for argument`)",
        )
        for native in arguments.natives
        if native.form is Form.OVERRIDE and isinstance(native.value, Unresolved) and native.value.why == SWEEP
    ]


def dangling(launch: Launch, natives: Iterable[Native], options: OptionSet | None) -> Iterator[RefusedValue]:
    """Values that refer to a key which neither the launch nor the configuration of the release has, where the whole of
    the launch was read. A configuration by itself is composed with nothing of its defaults list."""
    if options is None or options.gap is not None or launch.missed is not None or launch.own_config:
        return
    if launch.tree is not None and launch.tree.has("defaults"):
        return
    for native in natives:
        found = _REFERS.match(native.value.why) if isinstance(native.value, Unresolved) else None
        within_hydra = native.key.startswith("hydra.")  # its own configuration, composed apart
        if found is None or within_hydra or options.known(found[1]) is not False:
            continue
        yield native.as_refused(
            owner="OmegaConf",
            value=native.value.raw,
            takes="the name of a key that is there",
            why=f"there is no key {found[1]}, and OmegaConf refuses what refers to it (`Interpolation key not found`)",
        )


def switched(launch: Launch, flags: frozenset[str]) -> list[RefusedValue]:
    """The truth values behind options of argparse that take none (`unrecognized arguments`)."""
    loose = {id(word) for word in launch.arguments(flags=flags).positionals}
    found = []
    for before, word in zip(launch.words, launch.words[1:], strict=False):
        name = before.text.removeprefix("--").replace("-", "_")
        if id(word) in loose and name in flags and before.text.startswith("--") and word.text.lower() in SWITCH:
            found.append(
                RefusedValue(
                    key=before.text,
                    value=word.text,
                    file=word.file or launch.file,
                    line=word.line,
                    form=Form.OPTION,
                    owner="its parser",
                    takes="no value: the name alone switches it on",
                )
            )
    return found


def _stray(word: Word) -> bool:
    return isinstance(word.value, str) and bool(word.value.strip()) and not word.value.startswith(("-", "~"))


def _refused(before: Word | None, torn: Sequence[Word], launch: Launch) -> RefusedValue:
    """The first word that does not belong, with the whole where the pieces make one, by themselves or with the override
    before them."""
    texts = [str(word.value) for word in torn]
    whole = _whole(texts)
    if whole is None and before is not None and isinstance(before.value, str):
        whole = _whole([before.value, *texts])
    takes = "each override as one word, KEY=VALUE" + (f": '{whole}'" if whole is not None else "")
    return RefusedValue(
        key=texts[0],
        value="",
        file=torn[0].file or launch.file,
        line=torn[0].line,
        form=Form.OVERRIDE,
        owner="Hydra",
        takes=takes,
    )


def _whole(texts: Sequence[str]) -> str | None:
    """The override that the pieces are of: around a ``=`` without blanks, within brackets and behind a value with."""
    text = texts[0]
    for piece in texts[1:]:
        bare = text.endswith("=") or piece.startswith("=")
        text = text + piece if bare else f"{text} {piece}"
    name, sign, value = text.partition("=")
    opened = sum(map(value.count, _OPEN)) == sum(map(value.count, _CLOSED))
    return text if sign and value and opened and " " not in name and "'" not in text else None
