"""Spells a canonical edit in a framework's own words: the text to show, and the write that puts it into a file."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from rldoctor.formats.texts import shell_quoted, shell_word, shown, value_text
from rldoctor.formats.write import Write
from rldoctor.frameworks.launchers import LAUNCHERS
from rldoctor.frameworks.option_table import OptionTable
from rldoctor.frameworks.rule import Boolean, Rule
from rldoctor.frameworks.spelled import Spelling
from rldoctor.model import Edit
from rldoctor.plan.model import Form, Place, RolloutPlan, Setting
from rldoctor.plan.vocabulary import plain, term

if TYPE_CHECKING:
    from rldoctor.frameworks.dialect import Dialect


def spell(dialect: Dialect, edit: Edit, plan: RolloutPlan) -> Spelling:
    """The common way: rewrite the setting where it stands, or add it where the launch's options stand."""
    if edit.option.startswith("env."):
        return variable(edit.option[4:], edit.value, plan)
    if edit.option.startswith("native."):
        from rldoctor.frameworks.renaming import rename

        return rename(edit.option[7:], str(edit.value), plan)
    if term(edit.option) is None:
        return unspelled(edit, f"{edit.option} is no name of the vocabulary")
    if plan.server is not None and _belongs_to_server(edit.option, plan):
        from rldoctor.frameworks import by_name

        server = by_name(plan.server.dialect)
        if server is not None:
            return server.spell(edit, plan.server)
    setting = plan.get(edit.option)
    if setting is not None and setting.form is Form.VARIABLE and setting.key is not None:
        found = dialect.rule(f"env:{setting.key}")
        value = edit.value if found is None else found[1].native(edit.value)
        return variable(setting.key, value, plan)
    if setting is not None and setting.form is not None and setting.key is not None and setting.file is not None:
        return _in_place(dialect, edit, setting, plan)
    return of_launcher(edit, plan) or _added(dialect, edit, plan)


def of_launcher(edit: Edit, plan: RolloutPlan) -> Spelling | None:
    """An option of the program that the launch starts its ranks with, which stands before the script: shown, since what
    is added to a command goes behind it. None of any other setting, and where a framework's own program starts them."""
    launcher = plan.get("process.launcher")
    if launcher is None or launcher.line is None or edit.value is None or edit.value is False:
        return None
    program, options = LAUNCHERS.get(str(launcher.value), ("", {}))
    name = next((name for name, option in options.items() if option == edit.option), None)
    if name is None or not edit.option.startswith("process."):
        return None
    value = "" if edit.value is True else f" {shell_quoted(shown(edit.value))}"
    return Spelling(text=f"{program} --{name}{value} ...", reason=f"{program} takes it before the script")


def unspelled(edit: Edit, reason: str) -> Spelling:
    """The plain words of an edit that no framework spells: a variable as the shell sets it, an option of vLLM by its
    own name, and for the rest what the setting is."""
    group, _, name = edit.option.partition(".")
    if group == "env":
        text = f"unset {name}" if edit.value is None else f"export {name}={shell_quoted(shown(edit.value))}"
    elif group == "engine":
        text = f"{name}={shown(edit.value)}"
    elif group == "native":
        text = f"{edit.value} instead of {name}"
    else:
        said = ("off", "on")[edit.value] if isinstance(edit.value, bool) else shown(edit.value)
        text = f"{plain(edit.option)}: {said}"
    return Spelling(text=text, reason=reason, plain=True)


def variable(name: str, value: Any, plan: RolloutPlan) -> Spelling:
    """An environment variable: rewritten where the file sets it, else exported before the launch; None unsets it."""
    setting = plan.get(f"env.{name}")
    bare = None if value is None else shown(value)
    text = f"unset {name}" if bare is None else f"export {name}={shell_quoted(bare)}"
    if plan.file.endswith(".py") and bare is not None:
        text = f"os.environ[{json.dumps(name)}] = {json.dumps(bare)}"
    if setting is not None and setting.path and bare is not None:  # inside JSON, as that of a runtime environment
        text = f"{json.dumps(name)}: {json.dumps(bare)}"
    # Where branches set it differently, the last word is spoken just before the launch.
    varies = setting is not None and (setting.unknown or "").startswith(f"{name} depends on")
    if setting is not None and not varies and setting.file is not None and setting.line is not None:
        form, key = setting.form or Form.VARIABLE, setting.key or name
        write = Write(
            form=form,
            file=setting.file,
            line=setting.line,
            key=key,
            path=setting.path,
            value=json.dumps(bare) if setting.path and bare is not None else bare,
            remove=value is None,
        )
        return Spelling(text=text, file=setting.file, line=setting.line, write=write)
    if value is None:
        return Spelling(text=text, reason=f"{name} is set outside {plan.file}")
    if plan.place is None or plan.place.form is Form.YAML:
        return Spelling(text=text, reason=f"{plan.file} sets no variables; set it in the shell that starts the run")
    write = Write(form=Form.VARIABLE, file=plan.file, line=plan.line, key=name, value=bare, group=plan.entry)
    return Spelling(text=text, file=plan.file, line=plan.line, write=write)


def _in_place(dialect: Dialect, edit: Edit, setting: Setting, plan: RolloutPlan) -> Spelling:
    assert setting.form is not None and setting.key is not None and setting.file is not None
    key = setting.key
    native = ".".join((_key(setting), *setting.path)) if setting.form is not Form.YAML else _key(setting)
    found = dialect.rule(native)
    rule = found[1] if found is not None and found[0] == edit.option else Rule(edit.option)
    if edit.value is None and setting.form is Form.OPTION and not setting.path:
        return Spelling(text=f"without {key}", reason=f"{key} is taken out by hand")
    if rule.read is not None and rule.write is None:
        return Spelling(text=f"{key}: {edit.value}", reason=f"{key} has no exact counterpart of {plain(edit.option)}")
    value = rule.native(edit.value)
    write = _write(
        dialect, rule, key, value, Place(form=setting.form, file=setting.file, line=setting.line or 1), setting.path
    )
    if setting.line is None and setting.form in (Form.OPTION, Form.OVERRIDE):
        return Spelling(text=_text(write, value, plan), reason=f"{key} is given to {plan.file} from outside")
    return Spelling(text=_text(write, value, plan), file=write.file, line=write.line, write=write)


def _added(dialect: Dialect, edit: Edit, plan: RolloutPlan) -> Spelling:
    candidates = [found for found in dialect.native_keys(edit.option) if not _refused(dialect, found[0], plan)]
    if not candidates:
        return unspelled(edit, f"{dialect.name} has no option for {plain(edit.option)}")
    key, rule = candidates[0]
    place = plan.place
    form = place.form if place is not None else dialect.style
    value = rule.native(edit.value)
    path: tuple[str, ...] = ()
    below = rule.option.endswith(".*")
    if form is Form.KEYWORD:
        key, place = _call(dialect, key, plan)
    if below and form in (Form.OPTION, Form.KEYWORD):
        key, _, leaf = key.rpartition(".")
        path = (leaf,)
    spelled = dialect.spelled_key(key) if form is Form.OPTION else key
    at = place or Place(form=form, file=plan.file, line=plan.line)
    write = _write(dialect, rule, spelled, value, at, path, append=dialect.append if below else "")
    if place is None:
        what = (
            f"{plan.file} makes no call that takes {key}"
            if form is Form.KEYWORD
            else f"{plan.file} has no place for it"
        )
        return Spelling(text=_text(write, value, plan), reason=what)
    return Spelling(text=_text(write, value, plan), file=write.file, line=write.line, write=write)


def _refused(dialect: Dialect, key: str, plan: RolloutPlan) -> bool:
    """Whether the launch's command line certainly refuses an option: its parser takes no others than its own, and the
    release at hand does not have it."""
    form = plan.place.form if plan.place is not None else dialect.style
    group = dialect.group_of(plan.entry)
    if form is not Form.OPTION or form not in dialect.strict or group is None:
        return False
    owner, _, section = group.partition(":")
    try:
        return OptionTable.load(owner).known(key, plan.version, section or None) is False
    except KeyError:
        return False


def _call(dialect: Dialect, key: str, plan: RolloutPlan) -> tuple[str, Place | None]:
    """The keyword that a native key is, and the call of the script that takes it: the one whose prefix the key has."""
    prefixes = {place.group: dialect.calls[place.group] for place in plan.places if place.group in dialect.calls}
    every = sorted({prefix for prefix in dialect.calls.values() if key.startswith(prefix)}, key=len, reverse=True)
    prefix = every[0] if every else ""
    place = next((place for place in plan.places if prefixes.get(place.group) == prefix), None)
    return key.removeprefix(prefix), place or (plan.place if not plan.places else None)


def _write(
    dialect: Dialect, rule: Rule, key: str, value: Any, place: Place, path: tuple[str, ...], append: str = ""
) -> Write:
    remove = False
    text: str | None = value_text(value, place.form, bool(path))
    if place.form is Form.OPTION and not path and isinstance(value, bool):
        style = rule.boolean or dialect.booleans
        bare, no = re.sub(r"^--no[-_]", "--", key), "--no-" if dialect.dashes else "--no_"
        if style is Boolean.FLAG:
            remove, text = not value, None
        elif style is Boolean.PAIRED:
            key, text = (bare if value else no + bare[2:]), None
    return Write(
        form=place.form,
        file=place.file,
        line=place.line,
        key=key,
        value=text,
        path=path,
        group=place.group,
        remove=remove,
        append=append,
    )


def _text(write: Write, value: Any, plan: RolloutPlan) -> str:
    if write.remove:
        return f"without {write.key}"
    if write.path:
        siblings = _siblings(write, plan)
        whole = {**siblings, write.path[-1]: value} if len(write.path) == 1 else _nested(write.path, value)
        if write.form is Form.KEYWORD:
            return f"{write.key}={whole!r}"
        return f"{write.key} {shell_quoted(json.dumps(whole))}"
    if write.form is Form.OPTION:
        return write.key if write.value is None else f"{write.key} {shell_quoted(write.value)}"
    if write.form is Form.OVERRIDE:
        return shell_word(f"{write.append}{write.key}={write.value}")
    if write.form is Form.YAML and write.file.endswith(".toml"):
        from rldoctor.formats.toml.edit import literal

        return f"{write.key} = {literal(write.value)}"
    if write.form is Form.YAML:
        return f"{write.key}: {write.value}"
    return f"{write.key}={write.value}"


def _siblings(write: Write, plan: RolloutPlan) -> dict[str, Any]:
    start = write.key.lstrip("-").replace("-", "_") + "."
    return {
        given.key[len(start) :]: given.value
        for given in plan.given
        if given.form is write.form
        and given.key.startswith(start)
        and given.unknown is None
        and "." not in given.key[len(start) :]
    }


def _nested(path: tuple[str, ...], value: Any) -> Any:
    return {path[0]: _nested(path[1:], value)} if path else value


def _key(setting: Setting) -> str:
    key = setting.key or ""
    return key.lstrip("-").replace("-", "_") if setting.form is Form.OPTION else key


def _belongs_to_server(option: str, plan: RolloutPlan) -> bool:
    if not option.startswith(("engine.", "placement.listen_")):
        return False
    setting, theirs = plan.get(option), plan.server.get(option) if plan.server is not None else None
    return setting is None or theirs is None or (setting.file, setting.line) == (theirs.file, theirs.line)
