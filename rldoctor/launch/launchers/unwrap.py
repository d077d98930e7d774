"""Takes launchers off a command: what really runs under accelerate, torchrun, deepspeed, ray, srun, containers and
shells, and the processes, nodes and variables that the launcher gives it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from rldoctor.errors import InputError
from rldoctor.formats.json_text import parse
from rldoctor.formats.native import Located, Native
from rldoctor.formats.shell.arguments import arguments
from rldoctor.formats.shell.reader import Word
from rldoctor.formats.source import Files
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.launchers import ACCELERATE, DEEPSPEED, TORCHRUN
from rldoctor.frameworks.processes import launcher_setting
from rldoctor.launch.launchers import mpi
from rldoctor.launch.launchers.program import Program, module, opened, script, started, take, until_script, variable
from rldoctor.launch.launchers.strict_json import refused_json
from rldoctor.launch.launchers.tables import (
    ASSIGNMENT,
    CLUSTERS,
    CONTAINER_FLAGS,
    CONTAINERS,
    ENV_FILES,
    FLAGS,
    HOSTS_PORTS,
    PRIVATE_MEMORY,
    RAY_PORT,
    RAY_PORTS,
    RAY_START,
    RAY_SUBMIT,
    RAY_WORKERS,
    REMOTE,
    SCREEN_VALUED,
    SHARED_MEMORY,
    SHELLS,
    SKIPPED,
    SUBCOMMANDS,
    TEXTS,
    TMUX,
    TMUX_VALUED,
    WRAPPERS,
)
from rldoctor.launch.schedulers import images, slurm
from rldoctor.plan.model import Form, RefusedValue, Setting, Source

MAX_LAYERS = 20


def unwrap(words: Sequence[Word], file: str, files: Files) -> Program | None:
    """The program behind a command's launchers, or None where the command names none."""
    program = Program("", tuple(words))
    for _ in range(MAX_LAYERS):
        if not program.words:
            return None
        head = program.words[0]
        if isinstance(head.value, Unresolved):
            # An unknown launcher ($PYTHON, "${LAUNCH[@]}"): what it starts may still be told.
            program.process.setdefault("process.launcher", Setting(unknown=head.value.why, file=file, line=head.line))
            program.words = program.words[1:]
            if len(program.words) > 1 and program.words[0].value == "-m":
                module(program, program.words[1:])
                return program
            continue
        name = PurePosixPath(head.value).name
        if head.value and ASSIGNMENT.match(head.value):
            variable(program, program.words[0], file)
            program.words = program.words[1:]
            continue
        step = _step(name, program.words)
        if step is None:
            return _finish(name, program)
        if not step(program, file, files):
            return program if program.entry or program.text or program.shell or program.reads else None
    return None


def _step(name: str, words: tuple[Word, ...]) -> Callable[[Program, str, Files], bool] | None:
    second = words[1].value if len(words) > 1 else None
    if name == "env":
        return _env
    if name == "srun":
        return _srun
    if name in mpi.NAMES:
        return mpi.read
    if name in WRAPPERS and not (name == "uv" and second != "run") and not (name == "coverage" and second != "run"):
        return _wrapper
    if name in CONTAINERS or name == "docker-compose":
        return _container
    if name in CLUSTERS and any(word.value == "exec" for word in words[1:]):
        return _cluster
    if name in REMOTE:
        return _remote
    if name in TEXTS and (name != "flock" or any(word.text in TEXTS[name] for word in words)):
        return _handed_text
    if name == "flock":
        return _locked
    if name == "tmux" and second in TMUX:
        return _tmux
    if name == "screen":
        return _screen
    if name in SHELLS:
        return _shell
    if name == "sbatch":
        return _sbatch
    if name == "torchrun":
        return _torchrun
    if name == "accelerate" and second in ("launch", "accelerate-launch"):
        return _accelerate
    if name == "accelerate-launch":
        return _accelerate
    if name == "deepspeed":
        return _deepspeed
    if name == "ray" and second == "job":
        return _ray_job
    if re.fullmatch(r"python(\d(\.\d+)?)?|pypy3?|ipython", name):
        return _python
    return None


def _finish(name: str, program: Program) -> Program:
    words = program.words[1:]
    if name in SUBCOMMANDS and words and isinstance(words[0].value, str) and not words[0].value.startswith("-"):
        name, words = f"{name} {words[0].value}", words[1:]
    elif name.endswith((".py", ".sh")) and isinstance(program.words[0].value, str):
        program.script = name = program.words[0].value
        program.python, program.shell = name.endswith(".py"), name.endswith(".sh")
    if name == "ray start":
        _ray_start(program, words)
    program.entry, program.words = name, words
    return program


def _ray_start(program: Program, words: Sequence[Word]) -> None:
    """Ray on one node, and the port of its head where the words themselves give it: a variable's may be the
    caller's."""
    given = take(program, RAY_START, words, "")
    program.process["ray.started"] = Setting(value=True, how="ray start")
    program.process["ray.ports"] = Setting(value=[_ray_ports(given)], how="ray start")
    if "head" in given:
        port = given.get("port")
        if port is None:
            program.process["ray.head_port"] = Setting(value=RAY_PORT, how="Ray's default")
        elif re.fullmatch(r"(--port=)?[1-9]\d*", port.raw):
            program.process["ray.head_port"] = launcher_setting("ray.head_port", port)
    elif "address" in given and (found := re.search(r":(\d+)$", given["address"].raw.strip("\"'"))):
        joined = replace(given["address"], value=int(found[1]))
        program.process["ray.joined_port"] = launcher_setting("ray.joined_port", joined)


def _ray_ports(given: Mapping[str, Native]) -> dict[str, Any]:
    """The ports of one node of Ray: of each part of it the first and the last; what cannot be read is left out."""

    def number(option: str, default: int | None) -> int | None:
        native = given.get(option)
        if native is None:
            return default
        return int(native.value) if isinstance(native.value, str) and native.value.isdecimal() else None

    ports = {part: number(option, default) for option, (part, default) in RAY_PORTS.items()}
    ports["gcs"] = number("port", RAY_PORT) if "head" in given else None
    found = {part: [port, port] for part, port in ports.items() if port}
    first, last = (number(option, default) for option, default in RAY_WORKERS.items())
    if first and last and "worker_port_list" not in given:
        found["worker_ports"] = [first, last]
    return {"cores": number("num_cpus", None), "ports": found}


def _env(program: Program, file: str, files: Files) -> bool:
    words = list(program.words[1:])
    while words and words[0].text.startswith("-"):
        taken = 2 if words[0].text in ("-u", "--unset", "-C", "-S") else 1
        words = words[taken:]
    program.words = tuple(words)
    return bool(words)


def _wrapper(program: Program, file: str, files: Files) -> bool:
    name = PurePosixPath(program.words[0].text).name
    words = list(program.words[1:])
    skipped = SKIPPED.get(name, 0)
    while words:
        text = words[0].text
        if text == "--":
            words = words[1:]
            break
        if name == "uv" and text in ("-m", "--module") and len(words) > 1:
            return module(program, words[1:])
        if text.startswith("-"):
            _env_file(program, name, words, files)
            words = words[2:] if text in WRAPPERS[name] else words[1:]
        elif skipped:
            skipped -= 1
            words = words[1:]
        else:
            break
    program.words = tuple(words)
    return bool(words)


def _container(program: Program, file: str, files: Files) -> bool:
    name = PurePosixPath(program.words[0].text).name
    words = list(program.words[1:])
    if (composed := name == "docker-compose") or (words and words[0].text == "compose"):
        words = words[0 if composed else 1 :]
        while words and words[0].text.startswith("-"):
            words = words[1:] if "=" in words[0].text else words[2:]
    if not words or words[0].text not in ("run", "exec", "start"):
        return False
    runs = words[0].text == "run" and name in PRIVATE_MEMORY
    own, entered = runs, False
    program.own_ports = program.own_ports or name in PRIVATE_MEMORY
    line, words = words[0].line, words[1:]
    while words and words[0].text.startswith("-"):
        text = words[0].text
        if HOSTS_PORTS.search(" ".join(word.text for word in words[:2])):
            program.own_ports = False
        own = own and not SHARED_MEMORY.search(" ".join(word.text for word in words[: 1 if "=" in text else 2]))
        _env_file(program, name, words, files)
        entered = entered or text.startswith("--entrypoint")
        if text in ("-e", "--env") and len(words) > 1:
            variable(program, words[1], file)
        elif text.startswith(("--env=", "-e=")):
            variable(program, replace(words[0], value=text.partition("=")[2]), file)
        words = words[1:] if "=" in text or text in CONTAINER_FLAGS else words[2:]
    # A variable may hold options.
    if own and words and not isinstance(words[0].value, Unresolved):
        default = Setting(value=64, source=Source.DERIVED, how=f"{name}'s default", file=file, line=line)
        program.process["process.shared_memory"] = default
    handed = words[1:]  # behind the image, or the container's name
    if runs and not entered and handed:
        handed = [*(replace(words[0], value=word, raw=word) for word in images.program(words[0].value)), *handed]
    program.words = tuple(handed)
    return bool(program.words)


def _env_file(program: Program, name: str, words: Sequence[Word], files: Files) -> None:
    """The variables of a file that an option names, where the first of ``words`` is such an option."""
    option, sign, value = words[0].text.partition("=")
    if option not in ENV_FILES.get(name, ()) or not (sign or len(words) > 1):
        return
    absent = f"{words[0].raw}: its file was not found here"
    source = opened(program, value if sign else words[1].text, files, absent)
    if source is None:
        return
    for line, row in enumerate(source.text.splitlines(), 1):
        found = _ENV_ROW.match(row)
        if found is not None:
            text = found[2].strip()
            value = text[1:-1] if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1 else text
            program.variables[found[1]] = Native(
                key=found[1], spelled=found[1], value=value, file=source.file, line=line, form=Form.VARIABLE, raw=text
            )


_ENV_ROW = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=(.*)")


def _cluster(program: Program, file: str, files: Files) -> bool:
    """``kubectl exec POD -- COMMAND``"""
    start = next((index for index, word in enumerate(program.words) if word.text == "--"), None)
    program.where += (_target(program.words[1:start]),)
    program.words = () if start is None else tuple(program.words[start + 1 :])
    return bool(program.words)


def _remote(program: Program, file: str, files: Files) -> bool:
    """What another machine's shell gets to read: the words after the machine's name, or the input."""
    valued, operands = REMOTE[PurePosixPath(program.words[0].text).name]
    words = _after_options(program.words[1:], valued)[operands:]
    program.where += (_target(program.words[1 : len(program.words) - len(words)]),)
    if len(words) == 1:
        program.text, program.words = words[0], ()
        return False
    program.words = tuple(words)
    program.reads = not words
    return bool(words)


def _target(words: Sequence[Word]) -> str | None:
    """The machine that these words name, options and all; None where a variable does."""
    known = all(isinstance(word.value, str) for word in words)
    return " ".join(word.text for word in words) if known else None


def _handed_text(program: Program, file: str, files: Files) -> bool:
    options = TEXTS[PurePosixPath(program.words[0].text).name]
    for index, word in enumerate(program.words):
        option, sign, value = word.text.partition("=")
        if option in options:
            following = next(iter(program.words[index + 1 :]), None)
            program.text = replace(word, value=value) if sign else following
            program.words = ()
            break
    return False


def _locked(program: Program, file: str, files: Files) -> bool:
    program.words = tuple(_after_options(program.words[1:], frozenset({"-w", "-E", "--timeout"}))[1:])
    return bool(program.words)


def _tmux(program: Program, file: str, files: Files) -> bool:
    """The command of a new session or window; keys that are sent count where they end with the return key."""
    subcommand = program.words[1].text
    words = _after_options(program.words[2:], TMUX_VALUED)
    if subcommand.startswith("send"):
        words = words[:1] if len(words) == 2 and words[1].text in ("Enter", "C-m", "ENTER") else []
    if len(words) == 1:
        program.text, program.words = words[0], ()
        return False
    program.words = tuple(words)
    return bool(words)


def _screen(program: Program, file: str, files: Files) -> bool:
    program.words = tuple(_after_options(program.words[1:], SCREEN_VALUED))
    return bool(program.words)


def _after_options(words: Sequence[Word], valued: frozenset[str]) -> list[Word]:
    """The words after a program's own options; a cluster of short ones (``-dmS NAME``) takes what its last one does."""
    rest = list(words)
    while rest and rest[0].text.startswith("-") and rest[0].text != "--":
        text = rest[0].text
        short = text if text.startswith("--") or text in valued else f"-{text[-1]}"
        rest = rest[2:] if short in valued and "=" not in text else rest[1:]
    return rest[1:] if rest and rest[0].text == "--" else rest


def _shell(program: Program, file: str, files: Files) -> bool:
    words = program.words
    for index, word in enumerate(words[1:], 1):
        if word.text == "-s":
            rest = words[index + 1 :]
            program.reads, program.words = True, tuple(rest[1:] if rest and rest[0].text == "--" else rest)
            return False
        if re.fullmatch(r"-[a-z]*c[a-z]*", word.text) and index + 1 < len(words):
            program.text, program.words = words[index + 1], tuple(words[index + 2 :])
            return False
        if not word.text.startswith(("-", "+")):
            if isinstance(word.value, Unresolved):
                program.notes.append(f"{word.raw}: another script, not followed ({word.value.why})")
            else:
                program.script, program.shell, program.words = word.value, True, tuple(words[index + 1 :])
            return False
    program.reads, program.words = True, ()
    return False


def _srun(program: Program, file: str, files: Files) -> bool:
    own, rest = slurm.own_words(program.words[1:], "srun")
    line = program.words[0].line
    program.process["process.launcher"] = Setting(value="srun", file=file or None, line=line, key="srun")
    program.process.update(slurm.step(own, file))
    program.where += slurm.chosen(own)
    program.words = tuple(rest)
    return bool(rest)


def _sbatch(program: Program, file: str, files: Files) -> bool:
    own, words = slurm.own_words(program.words[1:], "sbatch")
    program.process.update(slurm.job(own, file))
    for index, word in enumerate(own):
        name, attached, text = word.text.partition("=")
        if name == "--wrap":
            program.text = replace(word, value=text) if attached else next(iter(own[index + 1 :]), None)
            program.words = ()
            return False
    if words and isinstance(words[0].value, str):
        program.script, program.shell, program.words = words[0].value, True, tuple(words[1:])
    return False


def _python(program: Program, file: str, files: Files) -> bool:
    words = list(program.words[1:])
    while words:
        text = words[0].text
        if text == "-m" and len(words) > 1:
            return module(program, words[1:])
        if text in ("-c", "-"):
            program.entry, program.words, program.python = "python", tuple(words[1:]), True
            return False
        if text.startswith("-"):
            words = words[2:] if text in ("-X", "-W") else words[1:]
            continue
        program.words = tuple(words)
        return script(program)
    program.entry, program.words, program.python = "python", (), True
    return False


def _torchrun(program: Program, file: str, files: Files) -> bool:
    return started(program, program.words[1:], TORCHRUN, file, "torchrun")


def _deepspeed(program: Program, file: str, files: Files) -> bool:
    _hostfile(program, file, files)
    program.process.setdefault(
        "trainer.strategy", Setting(value="deepspeed", how="started by deepspeed", source=Source.DERIVED)
    )
    return started(program, program.words[1:], DEEPSPEED, file, "deepspeed")


def _hostfile(program: Program, file: str, files: Files) -> None:
    """The hosts that deepspeed may use, and the devices of each."""
    given = arguments(until_script(program.words[1:])[0], file, flags=FLAGS).value("hostfile")
    source = opened(program, given, files)
    if source is None:
        return
    slots = mpi.hosts(source.text)
    place = Setting(file=source.file, line=1, key="--hostfile")
    program.process["scheduler.nodes"] = replace(place, value=len(slots))
    if len(set(slots)) == 1 and slots[0] is not None:
        program.process["scheduler.gpus_per_node"] = replace(place, value=slots[0])


def _accelerate(program: Program, file: str, files: Files) -> bool:
    start = 1 if PurePosixPath(program.words[0].text).name == "accelerate-launch" else 2
    from rldoctor.frameworks.accelerate import settings

    named = arguments(until_script(program.words[start:])[0], file, flags=FLAGS).value("config_file")
    found, notes = settings(named, files) if isinstance(named, str) else ({}, [])
    line = program.words[0].line
    program.process.update({n: one if one.file else replace(one, file=file, line=line) for n, one in found.items()})
    program.notes += notes
    return started(program, program.words[start:], ACCELERATE, file, "accelerate")


def _ray_job(program: Program, file: str, files: Files) -> bool:
    words = program.words[3:]
    split = next((i for i, word in enumerate(words) if word.text == "--"), None)
    before = words if split is None else words[:split]
    given = take(program, RAY_SUBMIT, before, file)
    # ray/dashboard/modules/dashboard_sdk.py, parse_runtime_env_args
    if (refused := refused_json(before, "--runtime-env-json", "Ray", file)) is not None:
        program.refused.append(refused)
    env = given.get("runtime_env_json") or given.get("runtime_env")
    if env is not None:
        _runtime_env(program, env, files)
    if split is None:
        program.words = tuple(until_script(words)[1])
    else:
        program.words = tuple(words[split + 1 :])
    return bool(program.words)


def _runtime_env(program: Program, native: Native, files: Files) -> None:
    """The variables of a runtime environment: JSON on the command line, or a file that it names."""
    from rldoctor.formats.yaml.reader import read_yaml

    file = native.file
    try:
        if native.key == "runtime_env":
            source = opened(program, native.value, files, f"{native.raw}: its file was not found here")
            if source is None:
                return
            value: Any = read_yaml(source).value
            file = source.file
        else:
            value = parse(native.value) if isinstance(native.value, str) else native.value
    except ValueError as error:
        program.notes.append(f"{native.file}:{native.line}: --runtime-env-json: {error}")
        return
    except InputError as error:
        program.notes.append(str(error))
        return
    if isinstance(value, dict):
        whole = json.loads(json.dumps(value, default=str))
        given = program.process["ray.runtime_env"]
        program.process["ray.runtime_env"] = replace(given, value=whole, unknown=None)
        if isinstance(whole.get("working_dir"), str):  # what the command line says goes first
            program.process.setdefault("ray.working_dir", replace(given, value=whole["working_dir"], unknown=None))
    variables = value.get("env_vars") if isinstance(value, dict) else None
    lines = variables.lines if isinstance(variables, Located) else {}
    for name, text in variables.items() if isinstance(variables, dict) else ():
        path = ("env_vars", str(name))
        line = lines.get(str(name), native.line)
        if not isinstance(text, str | Unresolved):
            # ray/_private/runtime_env/validation.py, parse_and_validate_env_vars
            shown = json.dumps(text) if isinstance(text, bool | int | float) else ""
            program.refused.append(
                RefusedValue(
                    key=f"env_vars.{name}",
                    value=shown,
                    file=file,
                    line=line,
                    form=Form.YAML if native.key == "runtime_env" else native.form,
                    owner="Ray",
                    takes=f'texts alone, "{shown}"' if shown else "texts alone",
                )
            )
        program.variables[str(name)] = replace(native, key=str(name), value=str(text), path=path, file=file, line=line)
