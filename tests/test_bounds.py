"""Whatever lies where rldoctor reads: beyond a bound one line says so, the rest is judged, and nothing waits or grows
with the square."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rldoctor import cli, redact
from rldoctor.facts import packages
from rldoctor.formats import toml_text
from rldoctor.formats.shell.reader import read_shell
from rldoctor.formats.source import Source
from rldoctor.io import untrusted
from rldoctor.launch import recognise
from tests.steps import growth

SECONDS = 60
BASE = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm data.max_prompt_length=2048 "
BASE += "data.max_response_length=8192 actor_rollout_ref.rollout.enable_chunked_prefill=False"


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """What would wait for ever fails instead; memory is bounded by the sizes asked for."""

    def over(number: int, frame: object) -> None:
        raise AssertionError(f"no answer within {SECONDS} s of processor time")

    before = signal.signal(signal.SIGPROF, over)
    waiting = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(10 * SECONDS)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.alarm(0)
    signal.signal(signal.SIGPROF, before)
    signal.signal(signal.SIGALRM, waiting)


Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Say:
    """Runs a command in the test's folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        written = capsys.readouterr()
        assert "Traceback" not in written.err and "a mistake in rldoctor" not in written.err
        assert isinstance(ended.value.code, int)
        return ended.value.code, written.out, written.err

    return run


def odd_file(folder: Path, kind: str) -> Path:
    """What may stand in place of a file, in the folder where it can."""
    path = {"device": Path("/dev/zero"), "memory": Path("/proc/self/mem")}.get(kind, folder / kind)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    elif kind == "gone":
        path.symlink_to(folder / "nowhere")
    elif kind == "round":
        path.symlink_to(path)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(3 << 30)  # three gigabytes of nothing
    return path


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "gone", "round", "huge", "device", "memory"])
class TestInPlaceOfAFile:
    def test_it_is_refused_at_once(self, tmp_path: Path, kind: str) -> None:
        with pytest.raises(OSError) as caught:
            untrusted.read(odd_file(tmp_path, kind), 1 << 20)
        assert caught.value.strerror

    def test_as_settings_of_the_project(self, tmp_path: Path, say: Say, kind: str) -> None:
        (tmp_path / "x").mkdir()
        (tmp_path / "pyproject.toml").symlink_to(odd_file(tmp_path / "x", kind))
        code, out, err = say("check", "--level", "static", "--select", "RLD113", "--format", "json")
        # What is no file holds no settings.
        said = {"huge": "pyproject.toml: is larger than 2 MiB", "memory": "pyproject.toml: Input/output error"}.get(
            kind
        )
        assert (code == 2 and said in err) if said else json.loads(out)

    def test_in_a_package(self, tmp_path: Path, kind: str) -> None:
        (tmp_path / "x").mkdir()
        odd = odd_file(tmp_path / "x", kind)
        for name in ("vllm-0.8.5", "torch-2.6.0"):
            (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / "vllm-0.8.5.dist-info" / "METADATA").symlink_to(odd)
        (tmp_path / "vllm-0.8.5.dist-info" / "direct_url.json").symlink_to(odd)
        (tmp_path / "torch-2.6.0.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.6.0\n")
        (tmp_path / "torch-2.5.0.dist-info").mkdir()
        (tmp_path / "torch-2.5.0.dist-info" / "RECORD").symlink_to(odd)
        (tmp_path / "old.egg-link").symlink_to(odd)
        found, _ = packages.read((str(tmp_path),))
        versions = {one.name: one.version for one in found}
        assert versions["vllm"] == "0.8.5" and versions["torch"].startswith("2.")

    def test_in_a_folder_of_logs(self, tmp_path: Path, say: Say, kind: str) -> None:
        (tmp_path / "logs").mkdir()
        (tmp_path / "x").mkdir()
        (tmp_path / "logs" / "odd.log").symlink_to(odd_file(tmp_path / "x", kind))
        (tmp_path / "logs" / "up").symlink_to(tmp_path)
        (tmp_path / "logs" / "rank0.log").write_text("step 1\nCUDA out of memory. Tried to allocate 2.00 GiB\n")
        if kind == "huge":  # a log may be of any size
            (tmp_path / "logs" / "odd.log").unlink()
            (tmp_path / "x" / "huge").unlink()
        code, out, _ = say("triage", "logs", "--format", "json")
        assert code == 1 and json.loads(out)["findings"][0]["code"] == "RLD206"


@pytest.mark.parametrize("kind", ["pipe", "huge"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "{}", "--level", "static"),
        ("check", "--from", "{}"),
        ("check", "--assume", "{}", "--level", "static"),
        ("check", "--model", "{}", "--level", "static"),
        ("diff", "{}", "{}"),
        ("hang", "--from", "{}"),
        ("triage", "run.log", "--config", "{}"),
        ("triage", "run.log", "--bundle", "{}"),
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_a_command_says_so_in_one_line(tmp_path: Path, say: Say, kind: str, arguments: list[str]) -> None:
    (tmp_path / "run.log").write_text("ValueError: x\n")
    (tmp_path / "x").mkdir()
    odd = odd_file(tmp_path / "x", kind)
    code, out, err = say(*(argument.format(odd) for argument in arguments))
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1 and str(odd) in err


HOSTILE = {
    "many overrides": f"{BASE} " + " ".join(f"a.b{number}={number}" for number in range(150_000)),
    "doubling": f"{BASE} +v.a0=xxxx "
    + " ".join(f"'+v.a{n + 1}=${{v.a{n}}}${{v.a{n}}}'" for n in range(60))
    + " 'actor_rollout_ref.model.path=${v.a60}'",
    "doubling what is not there": f"{BASE} "
    + " ".join(f"'+v.a{n + 1}=${{v.a{n}}}${{v.a{n}}}'" for n in range(60))
    + " 'actor_rollout_ref.model.path=${v.a60}'",
    "doubling in the shell": "A0=xx\n"
    + "\n".join(f"A{n + 1}=${{A{n}}}${{A{n}}}" for n in range(60))
    + f"\n{BASE} actor_rollout_ref.model.path=$A60",
    "a name that no file can have": f"{BASE} actor_rollout_ref.model.path={'m' * 256} data.train_files={'d/' * 5000}",
    "a zero byte": f"{BASE} 'actor_rollout_ref.model.path=$(printf \\'a\\\\0b\\')'",
    "an unknown user": f"{BASE} actor_rollout_ref.model.path=~nobody-of-that-name/m",
    "loops within loops": "\n".join(f"for i{n} in $(seq 1 1000); do" for n in range(8)) + f"\n{BASE}\n" + "done\n" * 8,
    "a script that sources itself": f". ./run.sh\n. ./run.sh\n{BASE}",
    "thousands of here-documents": "\n".join(f"cat <<E > f{n}\na\nE" for n in range(3000)) + f"\n{BASE}",
    "brackets": "(" * 20_000,
    "braces": f"{BASE} {'{1..9}' * 9}",
    "a format for every word": f"A=$(printf '{'x' * 50_000}%s' {'w ' * 20_000})\n{BASE} data.x=$A",
    "powers": f"A=$((9**9**9**9))\n{BASE} data.x=$A",
    "a pattern": f"A={'a' * 60_000}\nB=${{A//a*a*a*a*a*b/x}}\n[[ $A =~ (a+)+b ]] && C=1\n{BASE} data.x=$B$C",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_launch_is_judged_or_refused_in_a_line(tmp_path: Path, say: Say, name: str) -> None:
    (tmp_path / "run.sh").write_text(HOSTILE[name])
    code, out, err = say("check", "run.sh", "--level", "static", "--assume", "vllm==0.7.3", "--assume", "verl==0.3.0")
    assert code in (1, 2)
    assert out or (code == 2 and len(err.splitlines()) == 1 and err.startswith("rldoctor: run.sh"))
    if name in ("a name that no file can have", "an unknown user"):
        assert "RLD202" in out  # the rest is judged


def test_a_script_that_is_not_read_to_its_end_is_said_to_be(tmp_path: Path, say: Say) -> None:
    (tmp_path / "run.sh").write_text("\n".join(f"cat <<E > f{n}\na\nE" for n in range(3000)) + f"\n{BASE}")
    assert say("check", "run.sh", "--level", "static")[2].endswith("the script is too long to be read to its end\n")
    (tmp_path / "run.sh").write_text(f"{BASE}\n" + "\n".join(f"cat <<E > f{n}\na\nE" for n in range(3000)))
    code, out, _ = say("check", "run.sh", "--level", "static", "--format", "json", "--fail-on", "never")
    assert code == 2 and "too long to be read to its end" in out


@pytest.mark.parametrize(
    "text",
    [
        "a." * 20_000 + "b = 1",
        "\n".join(f"[{'.'.join(f's{n}' for n in range(k, k + 59))}]" for k in range(0, 9000, 9)) + "\n" + "x" * 400_000,
        "a" * 400_000 + " = 1",
        "a = '" + '"""' * 100_000,
        "a = " + "[" * 100_000,
        "a = " + "{b = " * 50_000,
        "x = 1\n" * 3,
        "# " + "x" * (1 << 20),
    ],
    ids=["deep", "many deep", "long key", "quotes", "lists", "tables", "twice", "long"],
)
def test_hostile_settings_are_refused_in_a_line(tmp_path: Path, say: Say, text: str) -> None:
    for name in ("pyproject.toml", "rldoctor.toml"):
        (tmp_path / name).write_text(text)
        code, out, err = say("check", "--level", "static", "--select", "RLD113")
        if code == 2 and not out:
            assert len(err.splitlines()) == 1 and name in err
        (tmp_path / name).unlink()


def test_a_name_with_several_lines_is_said_in_one(tmp_path: Path, say: Say) -> None:
    (tmp_path / "machine.json").write_text('{"pyth\\non": "3.12"}')
    code, _, err = say("check", "--assume", "machine.json", "--level", "static")
    assert (code, len(err.splitlines())) == (2, 1) and r"pyth\non" in err
    code, _, err = say("check", "no\nsuch\u2028file.sh")
    assert (code, err) == (2, "rldoctor: no such file.sh: no such file\n")


def test_what_is_no_utf8_is_said_to_be_none(tmp_path: Path, say: Say) -> None:
    (tmp_path / "rldoctor.toml").write_bytes(b"\xff\xfe")
    assert say("check", "--level", "static")[2].strip().endswith("not UTF-8 text (byte 0)")


def test_a_number_of_bytes_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 2048)
    assert untrusted.read(tmp_path / "a", 2048) == b"x" * 2048
    with pytest.raises(OSError, match="is larger than 1 KiB") as caught:
        untrusted.read(tmp_path / "a", 1024)
    assert caught.value.errno == errno.EFBIG


def _with_a_secret(count: int) -> str:
    redact.remember("x", "Zq81xxyy" * 9)
    return redact.text("Zq81xxyy" * count)


def _with_many_secrets(count: int, value: str) -> str:
    redact.begin({})
    return redact.text("".join(f"judge_api_key = '{value.format(n)}'\n" for n in range(count)))


# Twice the input may cost twice the steps; three times would be more than any constant part explains.
MOST = 2.6
LINEAR: dict[str, tuple[Callable[[int], object], int]] = {
    "a text full of names": (lambda n: redact.text("api_key=Ab12cd34ef56 token: x password " * n), 40),
    "a text full of beginnings": (lambda n: redact.text("-----BEGIN PRIVATE KEY-----\n" * n), 100),
    "a text full of quotes": (lambda n: redact.text('"api_key": "' * n + "\\" * n), 100),
    "a text full of escapes": (lambda n: redact.text(r"{\"api_key\": \"Ab12cd34ef56\"}, %22token%22 &quot; " * n), 40),
    "a text of a variable's uses": (lambda n: redact.text("n='Ab12cd34ef56'\n" * n + "token=n\n" * n), 40),
    "a line full of comments": (lambda n: redact.text("a_name_of_some_length (the password) " * n), 40),
    "a text of a rank's lines": (lambda n: redact.text("[rank3]: api_key: |\n[rank3]:   Ab12cd34\n" * n), 40),
    "a line of a known secret's pieces": (_with_a_secret, 100),
    "a text of many secrets": (lambda n: _with_many_secrets(n, "{0:05}Zq81{0:05}xxyy"), 40),
    "secrets that begin alike": (lambda n: _with_many_secrets(n, "live-prj-Zq81xxyy{:05}"), 40),
    "secrets that end alike": (lambda n: _with_many_secrets(n, "{:05}Zq81xxyy-live-prj"), 40),
    "a chain of commands": (lambda n: read_shell(Source("run a && " * n + "run b", "x"), {}), 50),
    "a chain of redirections": (lambda n: read_shell(Source("cat " + "> out " * n, "x"), {}), 50),
    "a word of many substitutions": (lambda n: read_shell(Source("a`uname`" * n, "x"), {}), 200),
    "a table of dotted names": (lambda n: toml_text.parse("".join(f"a.b{k}.c = 1\n" for k in range(n)), "x"), 100),
}


@pytest.mark.parametrize("name", LINEAR)
def test_twice_the_input_is_twice_the_work(name: str) -> None:
    work, size = LINEAR[name]
    assert growth(work, size) < MOST


def test_overrides_cost_what_they_are_many(tmp_path: Path) -> None:
    def read(count: int) -> None:
        path = tmp_path / f"{count}.sh"
        path.write_text(f"{BASE} " + " ".join(f"+data.x{number}={number}" for number in range(count)))
        assert recognise.read(path)

    read(10)
    assert growth(read, 300) < MOST
