"""Plants a secret in every notation, as every program may have passed it on, in every place that a command reads, and
looks for it in all that leaves: `python -m tests.redact.sweep`, or `make sweep`, half an hour; `--part 3/8`, or `make
sweep PART=3/8`, does the third of eight parts. Prints what was found.

All formats are handed one report behind the door, so most notations are judged once for all of them; some go through
each format's own command line, and some commands through a process of their own."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from unittest import mock

import typer

from rldoctor import bundle, cli, redact, report
from rldoctor.api import Case
from rldoctor.catalogue import registry
from rldoctor.hang import folder
from rldoctor.hang.model import LogTail
from rldoctor.logs.model import Frame
from rldoctor.report import html
from tests.commands import run
from tests.hang.records import REWARD, case, hang, rank
from tests.redact import every_format
from tests.redact.kinds import NOTATIONS, SIGN, WAYS, planted
from tests.watch.test_tracked import framed, history

FORMATS = ("rich", "json", "sarif", "junit", "github", "markdown", "html")
WANDB_HEADER = b":W&B\x19\xbe\x00"
# One of so many notations goes through each format's own command line, and one of so many commands through a process.
OWN_FORMATS, OWN_PROCESS = 24, 700
MACHINE = {"python": "3.12", "packages": {"vllm": "0.7.3", "verl": "0.3.0.post1"}}


def door(notations: Sequence[str], ways: Sequence[str]) -> Iterator[str]:
    """What passes the door though it is a secret, in any of these ways."""
    for notation, way in itertools.product(notations, ways):
        redact.begin({})
        if SIGN in redact.text(WAYS[way](planted(notation))):
            yield f"door: {way}: {notation!r}"


def log_of(lines: Sequence[str]) -> str:
    """A run that fails with these lines in its command, its settings, the source of a frame and its message."""
    said = "\n".join(lines)
    source = lines[0].replace("\n", " ")
    return (
        f"+ {lines[-1]}\n[rank0]: step 1\n{said}\n"
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/srv/train.py", line 12, in <module>\n'
        f"[rank0]:     {source}\n"
        '[rank0]:   File "/venv/lib/python3.12/site-packages/vllm/entrypoints/llm.py", line 300, in generate\n'
        f"[rank0]:     raise ValueError(message)  # {source}\n"
        f"[rank0]: ValueError: cannot go on: {source}\n{said}\n"
    )


def launch_of(said: str) -> str:
    """A launch with this in comments, in what it prints, in its variables and in the values of its options."""
    line = said.replace("\n", " ")
    return (
        "".join(f"# {one}\n" for one in said.split("\n"))
        + f"echo {shlex.quote(line)}\nexport NOTE={shlex.quote(said)}\n"
        + "python3 -m verl.trainer.main_ppo data.max_prompt_length=2048 data.max_response_length=8192 \\\n"
        + "    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.enable_chunked_prefill=False \\\n"
        + f"    trainer.experiment_name={shlex.quote(line)} trainer.project_name=$NOTE\n"
    )


def named_by(said: str) -> str:
    """The name of a file that somebody named so; what no name can hold is in none."""
    return "run" if set(said) & set("/\0\n") or len(said) > 120 else said


def prepare(said: str, here: Path) -> None:
    """Puts what was planted wherever a command of :func:`commands` reads."""
    (here / named_by(said)).write_text(log_of(["cannot go on"]))
    (here / "step.py").write_text(f"# {named_by(said)}\ndef step(model):\n    return {said!r}\n")
    (here / "run.log").write_text(log_of([said]))
    (here / "run.sh").write_text(launch_of(said))
    (here / "machine.json").write_text(json.dumps({**MACHINE, "env": {"NCCL_DEBUG": said, "VLLM_NOTE": said}}))
    (here / "nodes").mkdir()
    for name, note in (("a", said), ("b", "else")):
        raw = json.loads(bundle.dump(Case(environment={}, target="x")))
        (here / "nodes" / f"{name}.json").write_text(
            json.dumps({**raw, "target": note, "environment": {"NCCL_DEBUG": note, "NOTE": note}})
        )
    tracked = here / "wandb" / "run-20261123_010203-abc"
    (tracked / "files").mkdir(parents=True)
    (tracked / "run-abc.wandb").write_bytes(WANDB_HEADER + framed(history(1, {said: 0.5, "train/loss": float("nan")})))
    (tracked / "files" / "output.log").write_text(log_of([said]))
    redact.begin({})
    frame = Frame("/srv/train.py", 12, "train", said.replace("\n", " "))
    tail = LogTail(file="/srv/run.log", quiet=3.0, lines=tuple(said.split("\n")))
    stalled = rank(0, (frame, *REWARD), log=tail, command=said, name="train.py", size=1)
    folder.save(case(hang(stalled)), here / "hang")


def commands(said: str, forms: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The command lines that read what was planted."""
    judged = ("--assume", "machine.json", "--level", "static")
    for form in forms:
        yield "triage", "run.log", "--format", form
        yield "triage", "run.log", "--config", "run.sh", "--format", form
        yield "check", "run.sh", *judged, "--format", form
        yield "check", "--from", "nodes/a.json", "--format", form
        yield "hang", "--from", "hang", "--format", form
    for form in ("rich", "json"):
        yield "plan", "run.sh", "--assume", "machine.json", "--format", form
        yield "diff", "nodes/a.json", "nodes/b.json", "--format", form
        yield "fleet", "nodes", "--format", form
    yield "machine", "--from", "nodes"
    yield "machine", "--from", "nodes/a.json"
    yield "compat", "--from", "nodes/a.json"
    yield "watch", "wandb/run-20261123_010203-abc", "--every", "0.01", "--idle", "0.02"
    yield "check", "run.sh", *judged, "--diff"
    yield "bundle", "run.sh", "--output", "case.json"
    yield "baseline", "run.sh", *judged, "--output", "baseline.json"
    yield "check", "run.sh", *judged, "--output", "report.html", "--format", "html"
    yield "watch", "run.log", "--every", "0.01", "--idle", "0.02"
    yield "check", "run.sh", *judged, "--fix", "--diff"
    if "\0" not in said:
        yield from (("explain", said), ("triage", said), ("check", "--select", said), ("check", "--assume", said))
        yield from (("compat", said), ("compat", "--python", said), ("fleet", said), ("plan", said))
        yield "watch", said, "--every", "0.01", "--idle", "0.02"
        yield from (("check", "--step", f"step.py:{said}"), ("check", "--step", said), ("check", "--ray", said))
        yield from (("list", said), ("check", "--from", said), ("hang", "--from", said), ("diff", said, "nodes/a.json"))
        yield from (
            ("triage", "run.log", option, said) for option in ("--baseline", "--bundle", "--config", "--output")
        )
        followed = "watch", "run.log", "--every", "0.01", "--idle", "0.02"
        yield from ((*followed, "--exec", f"true {said}"), (*followed, "--webhook", said))
    yield "check", "--step", "step.py:step", "--level", "static", "--format", "json"
    yield "triage", named_by(said), "--format", "json"
    yield "triage", named_by(said), "--format", "html"
    yield "check", named_by(said), "--level", "static"


@contextlib.contextmanager
def made_once() -> Iterator[None]:
    """What no planted text changes is made once for all commands, and a format gives all of them."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(report.FORMATS, {every_format.NAME: every_format.__name__}))
        for owner, name in ((registry, "load"), (html, "_environment"), (typer.main, "get_command")):
            stack.enter_context(mock.patch.object(owner, name, cache(getattr(owner, name))))
        asked = cache(cli._with_what_is_asked)
        stack.enter_context(mock.patch.object(cli, "_with_what_is_asked", lambda words: asked(tuple(words[:1]))))
        yield


def in_a_process(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As a shell runs it."""
    return subprocess.run([sys.executable, "-m", "rldoctor", *command], cwd=cwd, capture_output=True, text=True)


def swept(notation: str, forms: Sequence[str]) -> Iterator[str]:
    """The commands that let a secret in this notation through, on a stream or in a file that they left."""
    said = planted(notation)
    with tempfile.TemporaryDirectory(prefix="rldoctor-sweep-") as made:
        here = Path(made)
        prepare(said, here)
        read = {path: path.read_bytes() for path in here.rglob("*") if path.is_file() and "hang" not in path.parts}
        for command in commands(said, forms):
            apart = not zlib.crc32(shlex.join((notation, *command)).encode()) % OWN_PROCESS
            apart = apart and every_format.NAME not in command
            done = (in_a_process if apart else run)(*command, cwd=here)
            if SIGN in done.stdout + done.stderr or "a mistake in rldoctor itself" in done.stderr:
                yield f"{shlex.join(command)}: {notation!r}"
        for path in here.rglob("*"):
            if path.is_file() and path not in read and SIGN in path.read_text():
                yield f"{path.relative_to(here)}: {notation!r}"


def part(text: str) -> tuple[int, int]:
    """``3/8`` as numbers."""
    number, _, parts = text.partition("/")
    if not 1 <= int(number) <= int(parts):
        raise ValueError(text)
    return int(number), int(parts)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--part", type=part, default=(1, 1), help="3/8: the third of eight parts")
    number, parts = options.parse_args().part
    chosen = NOTATIONS[number - 1 :: parts]
    canaries = sum(notation.count("{@}") for notation in chosen)
    found = list(door(chosen, tuple(WAYS)))
    print(f"{canaries} canaries in {len(WAYS)} ways at the door: {len(found)} found", flush=True)
    print(*found, sep="\n", flush=True)
    os.environ.pop("GITHUB_ACTIONS", None)
    hits = 0
    with made_once():
        for at, notation in enumerate(chosen):
            for hit in swept(notation, FORMATS if at % OWN_FORMATS == 0 else (every_format.NAME,)):
                hits += 1
                print(hit, flush=True)
    print(f"{canaries} canaries in all commands and formats: {hits} found, {time.process_time():.0f} s")
    return 1 if found or hits else 0


if __name__ == "__main__":
    sys.exit(main())
