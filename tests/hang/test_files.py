"""Which file a run writes its output to."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from rldoctor.facts import proc
from rldoctor.facts.blocked import Kernel
from rldoctor.hang import files
from tests.hang.conftest import Start

TRAINS = "import time\nprint('step 1', flush=True)\nopen('up', 'w').close()\ntime.sleep(600)\n"


def logged(start: Start, folder: Path, line: str) -> str | None:
    """The file behind the output of a program in a line of the shell."""
    (folder / "train.py").write_text(TRAINS)
    here = shlex.quote(sys.executable)
    program = start(
        f"import subprocess, time\nsubprocess.Popen(['bash', '-c', {line.format(python=here)!r}], "
        "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "import os\nwhile not os.path.exists('up'): time.sleep(0.05)\nprint('up', flush=True)\ntime.sleep(600)\n"
    )
    program.until("up")
    (pid,) = [pid for pid in proc.table() if proc.command(pid)[-1:] == ["train.py"] and _below(folder, pid)]
    tail = files.log_of(pid, None, Kernel(proc.table()))
    return Path(tail.file).name if tail is not None else None


def _below(folder: Path, pid: int) -> bool:
    return proc.directory(pid) == str(folder) and (proc.executable(pid) or "").rpartition("/")[2].startswith("python")


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("{python} train.py > run.log 2>&1", "run.log"),
        ("{python} train.py 2>&1 | tee run.log", "run.log"),
        ("{python} train.py 2>&1 | tee -a run.log | cat > /dev/null", "run.log"),
        ("{python} train.py 2>&1 | grep -v warning | cat > run.log", "run.log"),
        # What another program makes of it is that program's.
        ('{python} train.py 2>&1 | {python} -c "import sys; sys.stdin.read()" > other.log', None),
        ("{python} train.py > /dev/null 2>&1", None),
    ],
)
def test_the_log_behind_a_pipe(start: Start, tmp_path: Path, line: str, file: str | None) -> None:
    assert logged(start, tmp_path, line) == file
