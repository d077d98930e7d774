"""Plugins that do at import what no module should: the report is the same, and comes to its end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from rldoctor.catalogue import registry
from tests.catalogue.test_registry import install

START = "import sys\nsys.path.append(sys.argv.pop(1))\nfrom rldoctor.catalogue import foreign, registry\n"
SHORT = "foreign.STUBBORN = foreign.LAST_SECONDS = registry.IMPORT_SECONDS = 0.5\n"
RUN = "from rldoctor.cli import console\nconsole()\n"


def listed(folder: Path) -> subprocess.CompletedProcess[str]:
    """``rldoctor list`` beside the plugins of a folder, as a process of its own."""
    command = [sys.executable, "-c", START + SHORT + RUN, str(folder), "list"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return listed(tmp_path_factory.mktemp("none")).stdout


@pytest.mark.parametrize(
    "source",
    [
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(600)).start()\n",
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()\n",
        "import atexit, time\natexit.register(lambda: time.sleep(600))\n",
        "import atexit\natexit.register(lambda: print('said by a hook', flush=True))\n",
        "import builtins\nbuiltins.sorted = lambda *given, **more: []\nbuiltins.open = None\n",
        "import sys\nsys.exit = lambda code=0: None\nsys.setrecursionlimit(60)\n",
        "import os, sys\nsys.path.clear()\nos.chdir('/')\n",
        "raise GeneratorExit\n",
        "class Own(BaseException):\n    def __str__(self): raise ValueError\nraise Own\n",
    ],
)
def test_the_report_is_as_without_it_and_ends(tmp_path: Path, undisturbed: str, source: str) -> None:
    install(tmp_path, "bad_doctor", source)
    began = time.monotonic()
    done = listed(tmp_path)
    assert (done.returncode, done.stdout) == (0, undisturbed), done.stderr
    assert "Traceback" not in done.stderr and time.monotonic() - began < 60


@pytest.mark.parametrize(
    "source",
    [
        "import time\nwhile True:\n    try: time.sleep(600)\n    except BaseException: pass\n",
        "import signal, time\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\ntime.sleep(600)\n",
    ],
)
def test_an_import_that_cannot_be_ended_ends_the_process_in_one_line(tmp_path: Path, source: str) -> None:
    install(tmp_path, "stubborn_doctor", source)
    done = listed(tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == "rldoctor: nothing was judged: the import of the plugin stubborn_doctor cannot be ended\n"


def test_ctrl_c_is_no_fault_of_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "slow_doctor", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        registry.load()


def test_what_a_plugin_adds_for_itself_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    vendored = tmp_path / "vendored"
    vendored.mkdir()
    install(tmp_path, "adding_doctor", f"import sys\nsys.path.append({str(vendored)!r})\n")
    assert registry.load().broken == [] and str(vendored) in sys.path
    sys.path.remove(str(vendored))
