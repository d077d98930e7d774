"""Which interpreter is examined, and what cannot be one."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from rldoctor.catalogue.probe import Request
from rldoctor.errors import InputError
from rldoctor.facts import interpreter


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment of its own."""
    directory = tmp_path_factory.mktemp("env") / "venv"
    venv.create(directory, with_pip=False, symlinks=True)
    return directory


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def refused(python: Path, time_limit: float = 10) -> str:
    with pytest.raises(InputError) as caught:
        interpreter.examine(Request(python=python), time_limit)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_without_a_name_it_is_the_one_that_runs_us() -> None:
    found = interpreter.examine(Request())
    assert (found.version, found.executable, found.prefix) == (platform.python_version(), sys.executable, sys.prefix)
    assert str(Path(pytest.__file__).parents[1]) in found.path


def test_another_environment_is_known_by_the_name_it_is_started_with(other: Path) -> None:
    found = interpreter.examine(Request(python=other / "bin" / "python"))
    assert found.prefix == str(other)
    assert Path(found.executable).parent == other / "bin"
    assert any(entry.startswith(str(other)) and entry.endswith("site-packages") for entry in found.path)
    assert found.include is None or Path(found.include, "Python.h").exists()


def test_a_directory_of_a_virtual_environment_or_a_command_will_do(
    other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert interpreter.resolve(other) == other / "bin" / "python"
    monkeypatch.setenv("PATH", str(other / "bin"))
    monkeypatch.chdir(other / "bin")
    assert interpreter.resolve(Path("python")) == other / "bin" / "python"
    monkeypatch.chdir("/")
    assert interpreter.resolve(Path("python")) == other / "bin" / "python"


def test_its_environment_is_honoured_and_the_current_directory_is_not(
    other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(tmp_path)
    added = tmp_path / "added"
    added.mkdir()
    request = Request(python=other / "bin" / "python", environ={**os.environ, "PYTHONPATH": str(added)})
    found = interpreter.examine(request)
    assert str(added) in found.path
    assert str(tmp_path) not in found.path and "" not in found.path


def test_start_up_hooks_may_print_and_leave_things_running(other: Path, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    (tmp_path / "sitecustomize.py").write_text(
        "import subprocess\n"
        "print('hello', flush=True)\n"
        f"open({str(mark)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))\n"
    )
    request = Request(python=other / "bin" / "python", environ={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert interpreter.examine(request).prefix == str(other)
    left = Path(f"/proc/{mark.read_text()}")
    for _ in range(100):
        if not left.exists() or "\nState:\tZ" in (left / "status").read_text():
            return
        time.sleep(0.02)
    pytest.fail("what the hook started is still running")


def test_secrets_are_not_handed_over(other: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        f"import os; open({str(tmp_path / 'env')!r}, 'w').write(str(os.environ))"
    )
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "HF_TOKEN": "hf_very_secret"}
    interpreter.examine(Request(python=other / "bin" / "python", environ=environ))
    assert "hf_very_secret" not in (tmp_path / "env").read_text()


def test_what_is_not_there_or_cannot_run(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("hello")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "gone")
    assert refused(tmp_path / "nope").endswith("nope: does not exist")
    assert refused(plain).endswith("plain: is not executable")
    assert refused(tmp_path).endswith("a directory without bin/python")
    assert refused(dangling).endswith("gone, which does not exist")
    plain.chmod(0o755)
    assert refused(plain).endswith("cannot be run: Exec format error")
    assert "does not exist" in refused(Path("no-such-command-anywhere"))
    refused(Path("a\0b"))


def test_what_is_no_python(tmp_path: Path) -> None:
    assert refused(script(tmp_path / "silent", "exit 0")).endswith("is not a working Python (exit status 0)")
    grumpy = script(tmp_path / "grumpy", "echo first >&2; echo 'libpython.so: cannot open' >&2; exit 127")
    assert refused(grumpy).endswith("(exit status 127): libpython.so: cannot open")
    assert "not a working Python" in refused(script(tmp_path / "liar", 'echo "{}" >/dev/fd/$4'))
    nearly = '{"version": [3, 12], "executable": 5, "prefix": null, "path": "abc", "include": null}'
    for answer in ("[]", nearly, "[" * 100_000):
        (tmp_path / "answer").write_text(answer + "\n")
        liar = script(tmp_path / "liar", f"cat {tmp_path / 'answer'} >/dev/fd/$4")
        assert refused(liar).endswith("is not a working Python: it answers something else")
    assert "answers something else" in refused(script(tmp_path / "noisy", "head -c 3000000 /dev/zero >/dev/fd/$4"))


def test_what_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    hanging = script(tmp_path / "hanging", f"sleep 60 & echo $! > {mark}; sleep 60")
    started = time.monotonic()
    assert refused(hanging, 0.5).endswith("did not answer within 0.5 s")
    assert time.monotonic() - started < 5
    left = Path(f"/proc/{mark.read_text().strip()}")
    for _ in range(100):
        if not left.exists() or "\nState:\tZ" in (left / "status").read_text():
            return
        time.sleep(0.02)
    pytest.fail("the sleep is still running")


def _pyenv(version: str) -> Path | None:
    try:
        done = subprocess.run(["pyenv", "root"], capture_output=True, text=True, timeout=30)
    except OSError:
        return None
    return next(Path(done.stdout.strip(), "versions").glob(f"{version}.*/bin/python"), None)


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_targets_older_and_newer_than_the_doctor(version: str) -> None:
    python = _pyenv(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    assert interpreter.examine(Request(python=python)).version.startswith(f"{version}.")


@pytest.mark.parametrize("version", ["2.7", "3.7"])
def test_what_is_too_old_says_so(version: str) -> None:
    python = _pyenv(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    assert refused(python).endswith("; 3.8 is the oldest that can be examined")
