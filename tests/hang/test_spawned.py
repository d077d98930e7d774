"""Ranks that a program starts with multiprocessing, which no variable tells: the run is the program, the ranks are
numbered by their own variables, and who does not meet the others is no rank."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rldoctor.hang import stacks
from rldoctor.hang.model import Seen
from rldoctor.hang.spawned import with_ranks
from rldoctor.logs.model import Frame
from tests.hang.conftest import Start
from tests.hang.records import ALL_REDUCE, C10D, REWARD, seen

SPAWN = (Frame("<string>", 1, "<module>"), Frame("/usr/lib/python3.11/multiprocessing/process.py", 108, "run"))
TORCH = Frame("/env/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", 90, "_wrap")
FIT = Frame("/srv/train.py", 30, "fit", "train(rank)")


def started(number: int, at: tuple[Frame, ...], function: Frame = FIT, told: int | None = None) -> Seen:
    one = seen(200 + number, (*SPAWN, TORCH, function, *at), role="helper", name="python")
    places = {} if told is None else {"rank": told}
    return replace(one, threads=(replace(one.threads[0], places=places),))


def roles(*processes: Seen) -> list[tuple[str, str | None]]:
    return [(one.role, one.rank) for one in with_ranks(processes)]


def test_those_that_were_started_for_one_function_are_ranks_where_one_of_them_meets_the_others() -> None:
    assert roles(started(0, ALL_REDUCE, told=0), started(1, REWARD, told=1)) == [("rank", "0"), ("rank", "1")]


def test_others_of_the_same_program_are_none() -> None:
    scores = Frame("/srv/reward.py", 3, "serve")
    ones = (started(0, ALL_REDUCE, told=0), started(1, ALL_REDUCE, told=1), started(2, REWARD, scores))
    assert roles(*ones)[2] == ("helper", None)


def test_a_pool_that_meets_nowhere_is_none() -> None:
    assert roles(started(0, REWARD, told=0), started(1, REWARD, told=1)) == [("helper", None)] * 2


def test_numbers_that_are_the_same_are_not_told() -> None:
    assert roles(started(0, ALL_REDUCE, told=3), started(1, ALL_REDUCE, told=3)) == [("rank", None)] * 2


def test_of_its_variables_the_ranks_alone_are_read(start: Start, py_spy: str) -> None:
    program = start(
        "import time\ndef fit(rank, key):\n    print('there', flush=True)\n    time.sleep(600)\nfit(1, 'hf_secret')\n"
    )
    program.until("there")
    assert [stack.places for stack in stacks.read(py_spy, program.pid)] == [{"rank": 1}]


def test_whom_a_call_names(start: Start, py_spy: str, tmp_path: Path) -> None:
    folder = tmp_path / Path(*Path(C10D).parts[-3:-1])
    folder.mkdir(parents=True)
    calls = "import time\ndef recv(tensor, src=None):\n    print('waits', flush=True)\n    time.sleep(600)\n"
    (folder / "distributed_c10d.py").write_text(calls)
    program = start("import torch.distributed.distributed_c10d as dist\ndist.recv([1.0], src=5)\n")
    program.until("waits")
    assert [stack.places for stack in stacks.read(py_spy, program.pid)] == [{"peer": 5}]
