"""Secrets planted in every place that is read are in nothing that leaves, whatever the command and the format."""

from __future__ import annotations

import json
import shlex
from itertools import count
from pathlib import Path

import pytest

from rldoctor import bundle, cli
from rldoctor.api import Case

FORMATS = ("rich", "json", "sarif", "junit", "github", "markdown", "html")
SIGN = "Canary"
_numbers = count(1000)


def canary() -> str:
    """A secret of its own that no form gives away."""
    return f"{SIGN}{next(_numbers)}Zq7x"


# How a secret is written where people and programs write them; each hole gets one of its own.
NOTATIONS = (
    "serve --api-key {} --port 8000",
    "serve --admin-key={} --token {}",
    "curl -H 'Authorization: Bearer {}' -H \"X-Api-Key: {}\" http://host",
    "curl -u bob:{} https://bob:{}@host/path?token={}&page=2",
    "headers: Authorization: Basic {}",
    "Set-Cookie: session={}; id={}",
    "{{'api_key': '{}', 'nested': {{'password': \"{}\"}}, 'max_tokens': 512}}",
    '{{"runtime_env": {{"env_vars": {{"X_PASS": "{}", "GH_PAT": "{}"}}}}}}',
    r'{{"payload": "{{\"client_secret\": \"{}\"}}"}}',
    "api_keys: [{}, {}]",
    "['--hf-token', '{}', '--api-key', '{}']",
    "postgres://user:{},more@db/x mongodb+srv://user:{}/more@db",
    "redis://:{}@host:6379/0 http://proxy:{}@host:3128",
    "export WANDB_API_KEY={} AWS_SECRET_ACCESS_KEY='{}'",
    'os.environ["HF_TOKEN"] = "{}"',
    "login(token='{}', add_to_git_credential=True)",
    "hub_token: {}",
    "password = '{}'",
    "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={};EndpointSuffix=s",
    "host=db password={} dbname=x",
    "machine api.wandb.ai login user password {}",
    "<Config hf_token='{}' seed=1>",
)
BY_FORM = ("hf_" + SIGN * 6, "ghp_" + SIGN * 6, "sk-" + SIGN * 6, "glpat-" + SIGN * 6, "xoxb-" + SIGN * 4)


def planted(notation: str) -> str:
    """The notation with a canary in each of its holes."""
    return notation.format(*(canary() for _ in range(notation.count("{}") + notation.count("'{}'"))))


def leaves(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """All that a command writes."""
    with pytest.raises(SystemExit):
        cli.main([str(argument) for argument in arguments])
    written = capsys.readouterr()
    assert "a mistake in rldoctor itself" not in written.err
    return written.out + written.err


def log_of(lines: list[str]) -> str:
    """A run that fails with these lines in its command, its settings, the source of a frame and its message."""
    said = "\n".join(lines)
    source = lines[0].replace("\n", " ")
    return (
        f"+ {lines[-1]}\n[rank0]: step 1\n{said}\n"
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/work/train.py", line 12, in <module>\n'
        f"[rank0]:     {source}\n"
        '[rank0]:   File "/venv/lib/python3.12/site-packages/vllm/entrypoints/llm.py", line 300, in generate\n'
        f"[rank0]:     raise ValueError(message)  # {source}\n"
        f"[rank0]: ValueError: cannot go on: {source}\n{said}\n"
    )


@pytest.mark.parametrize("form", FORMATS)
def test_no_secret_of_a_log_is_in_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    for number, notation in enumerate([*NOTATIONS, *BY_FORM]):
        log = tmp_path / f"{number}.log"
        log.write_text(log_of([planted(notation)]))
        told = leaves(capsys, "triage", log, "--format", form)
        assert "ValueError" in told
        assert SIGN not in told, notation


LAUNCH = """\
export WANDB_API_KEY={} HF_TOKEN='{}'
export https_proxy=http://me:{}@proxy:8080
python3 -m verl.trainer.main_ppo data.max_prompt_length=2048 data.max_response_length=8192 \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.enable_chunked_prefill=False \\
    +trainer.wandb_api_key={} +ray_init.runtime_env.env_vars.SWANLAB_API_KEY={} \\
    actor_rollout_ref.model.path=https://me:{}@host/model \\
    +actor_rollout_ref.rollout.engine_kwargs.vllm.hf_token='{}'
"""
MACHINE = {"python": "3.12", "packages": {"vllm": "0.7.3", "verl": "0.3.0.post1"}}


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
    told = leaves(capsys, *arguments, "--format", form)
    assert "RLD202" in told and SIGN not in told
    told = leaves(capsys, *arguments, "--format", form, "--output", "report")
    assert SIGN not in told + Path("report").read_text()


def test_no_secret_is_in_a_diff_of_a_launch(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = leaves(capsys, "check", "run.sh", "--assume", "machine.json", "--level", "static", "--diff")
    assert "actor_rollout_ref.rollout.max_num_batched_tokens=10240" in told and SIGN not in told
    before = Path("run.sh").read_text()
    leaves(capsys, "check", "run.sh", "--assume", "machine.json", "--level", "static", "--fix")
    # The file itself keeps what it had.
    assert Path("run.sh").read_text().count(SIGN) == before.count(SIGN) == 7


def test_no_secret_is_in_a_bundle_or_a_difference(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = leaves(capsys, "bundle", "run.sh", "--output", "case.json")
    assert SIGN not in told + Path("case.json").read_text()
    # A bundle that somebody wrote by hand.
    environment = {"HF_TOKEN": canary(), "NCCL_DEBUG": "INFO", "GH_PAT": canary()}
    raw = json.loads(bundle.dump(Case(environment={}, target="X")))
    Path("raw.json").write_text(
        json.dumps({**raw, "environment": environment, "target": f"serve --api-key {canary()}"})
    )
    for form in ("rich", "json"):
        told = leaves(capsys, "diff", "case.json", "raw.json", "--format", form)
        assert "NCCL_DEBUG" in told and SIGN not in told
    for form in FORMATS:
        assert SIGN not in leaves(capsys, "check", "--from", "raw.json", "--format", form)


def test_no_secret_is_in_a_line_about_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ("check", f"https://bob:{canary()}@host/run.sh"),
        ("check", "--python", f"postgres://u:{canary()}@h"),
        ("compat", f"git+https://{canary()}:x@github.com/org/repo"),
        ("triage", f"run.log?token={canary()}"),
        ("check", "--select", f"--api-key={canary()}"),
    ):
        assert SIGN not in leaves(capsys, *arguments), shlex.join(map(str, arguments))
