"""Secrets planted in every place that is read are in nothing that leaves, whatever the command and the format."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rldoctor import bundle, cli, redact
from rldoctor.api import Case
from rldoctor.hang import folder
from rldoctor.hang.model import LogTail
from rldoctor.logs.model import Frame
from tests.hang.records import REWARD, case, hang, rank
from tests.probes.environments import Environment
from tests.redact import every_format
from tests.redact.kinds import NOTATIONS, SIGN, SIGN_IN_HEXADECIMAL, WAYS, canary, planted
from tests.redact.sweep import FORMATS, MACHINE, door, log_of, made_once, swept


@pytest.mark.parametrize("way", WAYS)
def test_no_secret_passes_the_door(way: str) -> None:
    """Every notation in some way, every way with some notations; the sweep does all of them."""
    at = tuple(WAYS).index(way)
    assert list(door(NOTATIONS if not at else NOTATIONS[at::5], (way,))) == []


# What these are found by says how the key is drawn; and a digest under the mere name of a key is that of a cache.
ONE_SHAPE = re.compile(r"(?:hf_|ghp_|PuTTY)|(?<![\w-])(?:--|judge_)?key[\"']?[ :=]{1,2}[\"']?\{@\}", re.IGNORECASE)


@pytest.mark.parametrize("shape", ["hexadecimal", "UUID"])
def test_keys_are_found_however_they_are_drawn(shape: str) -> None:
    for notation in NOTATIONS:
        redact.begin({})
        shown = redact.text(planted(notation, shape))
        assert SIGN_IN_HEXADECIMAL not in shown or ONE_SHAPE.search(notation), notation


@pytest.mark.parametrize(
    "notation",
    [
        "AWS_SESSION_TOKEN={@}",
        "aws_session_token = {@}",
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={@};EndpointSuffix=x",
        "NEPTUNE_API_TOKEN={@}",
        '{"auths": {"registry.corp": {"auth": "{@}"}}}',
        ".dockerconfigjson: {@}",
        "kind: Secret\ndata:\n  HF_TOKEN: {@}\n  other: {@}",
        "    client-key-data: {@}",
        'HfFolder.save_token("{@}")',
        "Your token: {@}",
        "PrivateKey = {@}",
        "> Authorization: Basic {@}",
        "token {@} is expired",
    ],
)
def test_base64_with_slashes_is_a_key(notation: str) -> None:
    for _ in range(30):
        redact.begin({})
        written = planted(notation, "base64")
        assert SIGN not in redact.text(written), written


@pytest.mark.parametrize("part", range(10))
def test_no_secret_passes_the_door_in_pieces(part: int) -> None:
    for notation in NOTATIONS[part::10]:
        written = planted(notation)
        shown = redact.text(written)
        assert SIGN not in shown and "<removed:" in shown
        assert redact.text(shown) == shown, notation
        redact.begin({})
        assert SIGN not in "\n".join(redact.lines(written.split("\n")))
        redact.begin({})
        assert SIGN not in json.dumps(redact.tree({"said": [written], "more": {"lines": written.split("\n")}}))


def test_the_sweep_sees_what_leaves() -> None:
    """What is no secret comes through everywhere, in the format that is all of them, too."""
    with made_once():
        seen = "\n".join(swept("a run Canary-of-mine", (every_format.NAME,)))
    for place in ("triage run.log --format every", "check run.sh", "check --from nodes/a.json", "diff nodes/a.json"):
        assert place in seen
    for place in ("case.json", "baseline.json", "report.html", "hang/hang.json", "machine --from"):
        assert place in seen


@pytest.mark.parametrize("notation", NOTATIONS[40::175])
def test_no_secret_leaves_in_any_command_and_format(notation: str) -> None:
    assert list(swept(notation, FORMATS)) == []


def leaves(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """All that a command writes."""
    with pytest.raises(SystemExit):
        cli.main([str(argument) for argument in arguments])
    written = capsys.readouterr()
    assert "a mistake in rldoctor itself" not in written.err
    return written.out + written.err


@pytest.mark.parametrize("form", FORMATS)
def test_no_secret_of_a_log_is_in_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    for number, notation in enumerate(NOTATIONS[FORMATS.index(form) :: 6 * len(FORMATS)]):
        log = tmp_path / f"{number}.log"
        log.write_text(log_of([planted(notation)]))
        reported = leaves(capsys, "triage", log, "--format", form)
        assert "ValueError" in reported
        assert SIGN not in reported, notation


def test_a_secret_is_known_from_any_place_of_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its name may stand megabytes away from the line that leaves, and in another file."""
    steps = "".join(f"[rank0]: step {step}: loss 0.5\n" for step in range(60_000))
    first, second = canary(), canary()
    (tmp_path / "rank0.log").write_text(f"{steps}judge_api_key = '{first}'\n{steps}" + log_of([f"401 for {first}"]))
    (tmp_path / "rank1.log").write_text(f"step 1\nexport HF_TOKEN={second}\n" + log_of([f"{first} or {second}"]))
    for form in FORMATS:
        reported = leaves(capsys, "triage", tmp_path, "--format", form)
        assert "ValueError" in reported and SIGN not in reported


def test_a_secret_is_known_where_a_null_divides_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the system keeps a command line; a report shows none."""
    log = tmp_path / "run.log"
    log.write_text(log_of([f"python3\0x.py\0--judge-token\0{canary()}\0--seed\0001"]))
    reported = leaves(capsys, "triage", log, "--format", "json")
    assert "x.py" in reported and SIGN not in reported


def test_a_secret_that_lines_divide_or_a_limit_cuts_is_in_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = canary() + canary()
    lines = [f"export HF_TOKEN={secret}", f"got {secret[:14]}", f"{secret[14:]} back", "x" * 290 + secret, secret * 60]
    log = tmp_path / "run.log"
    log.write_text(log_of(lines) + f"ValueError: {'y' * 280} {secret}\n")
    for form in FORMATS:
        reported = leaves(capsys, "triage", log, "--format", form)
        assert "ValueError" in reported and SIGN not in reported and secret[20:40] not in reported


LAUNCH = """\
export WANDB_API_KEY={} HF_TOKEN='{}'
export https_proxy=http://me:{}@proxy:8080
python3 -m verl.trainer.main_ppo data.max_prompt_length=2048 data.max_response_length=8192 \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.enable_chunked_prefill=False \\
    +trainer.wandb_api_key={} +ray_init.runtime_env.env_vars.SWANLAB_API_KEY={} \\
    actor_rollout_ref.model.path=https://me:{}@host/model \\
    +actor_rollout_ref.rollout.engine_kwargs.vllm.hf_token='{}'
"""


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text(LAUNCH.format(*(canary() for _ in range(7))))
    environment = {"HF_TOKEN": canary(), "RAY_REDIS_PASSWORD": canary(), "HTTPS_PROXY": f"http://u:{canary()}@p:1"}
    Path("machine.json").write_text(json.dumps({**MACHINE, "env": environment}))
    for name in ("HF_TOKEN", "VLLM_API_KEY", "WANDB_API_KEY"):
        monkeypatch.setenv(name, canary())
    return tmp_path


@pytest.mark.parametrize("form", FORMATS)
def test_no_secret_of_a_launch_or_an_environment_is_in_a_report(
    launch: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    arguments = ("check", "run.sh", "--assume", "machine.json", "--level", "static")
    reported = leaves(capsys, *arguments, "--format", form)
    assert "RLD202" in reported and SIGN not in reported
    reported = leaves(capsys, *arguments, "--format", form, "--output", "report")
    assert SIGN not in reported + Path("report").read_text()


def test_no_secret_is_in_a_diff_of_a_launch(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reported = leaves(capsys, "check", "run.sh", "--assume", "machine.json", "--level", "static", "--diff")
    assert "actor_rollout_ref.rollout.max_num_batched_tokens=10240" in reported and SIGN not in reported
    before = Path("run.sh").read_text()
    leaves(capsys, "check", "run.sh", "--assume", "machine.json", "--level", "static", "--fix")
    # The file itself keeps what it had.
    assert Path("run.sh").read_text().count(SIGN) == before.count(SIGN) == 7


def test_no_secret_is_in_a_bundle_or_a_difference(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reported = leaves(capsys, "bundle", "run.sh", "--output", "case.json")
    assert SIGN not in reported + Path("case.json").read_text()
    # A bundle that somebody wrote by hand.
    environment = {"HF_TOKEN": canary(), "NCCL_DEBUG": "INFO", "GH_PAT": canary()}
    raw = json.loads(bundle.dump(Case(environment={}, target="X")))
    Path("raw.json").write_text(
        json.dumps({**raw, "environment": environment, "target": f"serve --api-key {canary()}"})
    )
    for form in ("rich", "json"):
        reported = leaves(capsys, "diff", "case.json", "raw.json", "--format", form)
        assert "NCCL_DEBUG" in reported and SIGN not in reported
    for form in FORMATS:
        assert SIGN not in leaves(capsys, "check", "--from", "raw.json", "--format", form)


def test_no_secret_is_in_a_line_about_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ("explain", f"api_key={canary()}"),
        ("hang", "--from", f"/srv/token={canary()}"),
        ("list", f"--password={canary()}"),
        ("check", f"--hf-token={canary()}"),
        ("check", "--format", f"token={canary()}"),
        ("check", "--assume", f"HF_TOKEN={canary()}"),
        ("diff", f"token={canary()}.json", f"https://u:{canary()}@h/b.json"),
        ("check", f"https://bob:{canary()}@host/run.sh"),
        ("check", "--python", f"postgres://u:{canary()}@h"),
        ("compat", f"git+https://{canary()}:x@github.com/org/repo"),
        ("triage", f"run.log?token={canary()}"),
        ("check", "--select", f"--api-key={canary()}"),
    ):
        assert SIGN not in leaves(capsys, *arguments), shlex.join(map(str, arguments))


SETTINGS = (
    'api_key = "{@}"',
    '[tool.rldoctor]\napi_key = "{@}"',
    'ignore = [{code = "RLD101", reason = "token={@}", until = "x"}]',
    'select = ["token={@}"]',
    'level = "password={@}"',
    'api_key = "{@}',
)


@pytest.mark.parametrize("text", SETTINGS)
def test_no_secret_of_the_settings_is_in_what_is_said_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("rldoctor.toml", "pyproject.toml"):
        Path(name).write_text(planted(text))
        assert SIGN not in leaves(capsys, "check", "--level", "static")
        Path(name).unlink()


LAUNCH_FILES = {
    "run.py": "import os\nfrom trl import GRPOConfig, GRPOTrainer\nos.environ['HF_TOKEN'] = '{@}'\n"
    "args = GRPOConfig(output_dir='x', use_vllm=True, hub_token='{@}', max_steps=1)\n",
    "run.yaml": "rlhf_type: grpo\nuse_vllm: true\nhub_token: {@}\nmodel: https://me:{@}@host/m\nreport: [wandb, {@}]\n"
    "wandb_api_key: {@}\n",
    "run.toml": '[trainer]\nhub_token = "{@}"\n[env]\nWANDB_API_KEY = "{@}"\n',
    "run.ipynb": json.dumps(
        {
            "cells": [{"cell_type": "code", "source": ["import os\n", "os.environ['HF_TOKEN'] = '{@}'\n"]}],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    ),
    "broken.sh": "export HF_TOKEN={@}\nswift rlhf --rlhf_type grpo --hub_token {@} --model 'x\n",
    "broken.py": "login(token='{@}'\ntrainer = (\n",
}


@pytest.mark.parametrize("name", LAUNCH_FILES)
def test_no_secret_of_any_kind_of_launch_file_leaves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    # What stands in a list without a name is a text like any other.
    path = tmp_path / name
    path.write_text(planted(LAUNCH_FILES[name].replace(", {@}]", "]")))
    log = tmp_path / "run.log"
    log.write_text(log_of(["cannot go on"]))
    for form in ("rich", "json", "sarif"):
        assert SIGN not in leaves(capsys, "check", path, "--level", "static", "--format", form)
    assert SIGN not in leaves(capsys, "triage", log, "--config", path)
    leaves(capsys, "bundle", path, "--output", tmp_path / "case.json")
    if (tmp_path / "case.json").exists():
        assert SIGN not in (tmp_path / "case.json").read_text()


def test_no_secret_is_in_the_folder_of_a_stalled_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, notation in enumerate(NOTATIONS[::6]):
        redact.begin({})
        said = planted(notation)
        frame = Frame("/srv/train.py", 12, "train", said.replace("\n", " "))
        log = LogTail(file="/srv/run.log", quiet=3.0, lines=tuple(said.split("\n")))
        stalled = rank(0, (frame, *REWARD), log=log, command=said, name="train.py", size=1)
        kept = folder.save(case(hang(stalled)), tmp_path / str(number))
        for file in kept.rglob("*"):
            assert file.is_dir() or SIGN not in file.read_text(), (notation, file.name)
    for form in FORMATS:
        assert SIGN not in leaves(capsys, "hang", "--from", kept, "--format", form)


def test_no_secret_is_in_the_log_of_a_probe_that_stays(tmp_path: Path) -> None:
    saying = "\n".join(f"print({planted(notation)!r})" for notation in NOTATIONS)
    modules = {"ray.py": f"{saying}\nraise RuntimeError({planted(NOTATIONS[0])!r})\n"}
    python = (
        Environment(tmp_path / "venv").install("numpy", "2.0", {"numpy.py": ""}).install("ray", "2.0", modules).python
    )
    (tmp_path / "tmp").mkdir()
    for form in ("rich", "json"):
        done = subprocess.run(
            [sys.executable, "-m", "rldoctor", "check", "--level", "imports", "--python", python, "--format", form],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "HF_TOKEN": canary()},
        )
        assert "RuntimeError" in done.stdout and SIGN not in done.stdout + done.stderr, done.stderr
    logs = [file.read_text() for file in (tmp_path / "tmp").rglob("*") if file.is_file()]
    assert logs and "<removed:api-key>" in logs[0]
    assert [line for log in logs for line in log.split("\n") if SIGN in line] == []
