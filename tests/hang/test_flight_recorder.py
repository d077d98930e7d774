"""Dumps of torch's flight recorder: what they tell, and that reading one runs nothing."""

from __future__ import annotations

import os
import pickle
import pickletools
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldoctor.hang import flight_recorder
from rldoctor.hang.flight_recorder import dumps, is_on, parse, prefixes, read, trigger

ENTRY: dict[str, Any] = {
    "frames": [
        {"name": "all_reduce", "filename": "/env/torch/distributed/distributed_c10d.py", "line": 1},
        {"name": "train", "filename": "/srv/train.py", "line": 12},
    ],
    "process_group": ("0", "default_pg"),
    "collective_seq_id": 7,
    "profiling_name": "nccl:all_reduce",
    "time_created_ns": 1_700_000_000_000_000_000,
    "input_sizes": [[4], [2, 8]],
    "state": "scheduled",
    "is_p2p": False,
}
DUMP: dict[str, Any] = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "entries": [{**ENTRY, "collective_seq_id": 6, "state": "completed"}, ENTRY],
}

# What a real one is made by: torch's own recorder behind gloo.
WRITES = """
import os
import torch, torch.distributed as dist
import torch._C._distributed_c10d as c10d
dist.init_process_group("gloo", init_method="file://" + os.environ["MEET"], rank=0, world_size=1)
dist.all_reduce(torch.ones(4))
dist.barrier()
open(os.environ["DUMP"], "wb").write(c10d._dump_fr_trace())
"""


def parsed(data: object) -> Any:
    return parse(pickle.dumps(data, protocol=2), Path("rank_1"), "1", time.time())


def test_a_dump() -> None:
    record = parsed(DUMP)
    assert record.problem is None
    assert record.groups == {"0": (0, 1)}
    assert [(one.number, one.operation, one.state, one.sizes) for one in record.last] == [
        (6, "all_reduce", "completed", "4, 2x8"),
        (7, "all_reduce", "scheduled", "4, 2x8"),
    ]
    assert str(record.last[-1].frame) == "/srv/train.py:12 in train"


@pytest.mark.engine
def test_a_dump_of_torch_itself(patient: Path, tmp_path: Path) -> None:
    environ = {**os.environ, "TORCH_FR_BUFFER_SIZE": "100", "MEET": str(tmp_path / "m"), "DUMP": str(tmp_path / "d0")}
    subprocess.run([patient, "-c", WRITES], env=environ, check=True, timeout=120)
    opcodes = {opcode.name for opcode, _, _ in pickletools.genops((tmp_path / "d0").read_bytes())}
    assert not opcodes & {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ"}
    record = read(tmp_path / "d0", "0")
    assert record is not None and record.problem is None
    assert [one.operation for one in record.last] == ["all_reduce", "barrier"]


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch trapped",))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_calls_something_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    raw = pickle.dumps({"entries": [Trap()]}, protocol=protocol)
    record = parse(raw, Path("rank_0"), "0", time.time())
    assert "which no flight recorder does" in str(record.problem)
    assert not (tmp_path / "trapped").exists()


def test_what_is_retired_is_over_whatever_its_state_says() -> None:
    record = parsed({**DUMP, "entries": [{**ENTRY, "retired": True}, {**ENTRY, "retired": False}]})
    assert [one.state for one in record.last] == ["completed", "scheduled"]


def test_a_nest_of_lists_is_not_written_out() -> None:
    nest: list[Any] = []
    for _ in range(200):
        nest = [nest, nest]
    strange = {**ENTRY, "input_sizes": nest, "profiling_name": nest, "process_group": (nest, nest), "state": nest}
    record = parsed({**DUMP, "version": nest, "entries": [strange], "pg_config": {"0": {"ranks": nest}}})
    assert len(str(record)) < 1000


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_with_a_problem(raw: bytes) -> None:
    assert parse(raw, Path("rank_0"), "0", 0.0).problem is not None


@given(st.data())
def test_a_damaged_dump_never_raises(data: st.DataObject) -> None:
    raw = bytearray(pickle.dumps(DUMP, protocol=2))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    parse(bytes(raw[: data.draw(st.integers(0, len(raw)))]), Path("rank_0"), "0", 0.0)


def test_where_it_lies() -> None:
    assert prefixes({"TORCH_FR_DUMP_TEMP_FILE": "/d/r_"}) == ["/d/r_"]
    assert prefixes({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/d/r_"}) == ["/d/r_"]
    assert prefixes({"HOME": "/home/me"}) == ["/home/me/.cache/torch/comm_lib_trace_rank_", "/tmp/nccl_trace_rank_"]


def test_the_dumps_of_all_ranks(tmp_path: Path) -> None:
    for name in ("rank_0", "rank_10", "rank_2", "rank_2.tmp", "other_1"):
        (tmp_path / name).write_bytes(pickle.dumps(DUMP, protocol=2))
    (tmp_path / "5").write_bytes(b"")
    assert [record.rank for record in dumps(f"{tmp_path}/rank_", 0.0)] == ["0", "2", "10"]
    assert [record.rank for record in dumps(f"{tmp_path}/", 0.0)] == ["5"]
    assert dumps(f"{tmp_path}/no/rank_", 0.0) == []


def test_whether_it_records() -> None:
    assert is_on({"TORCH_FR_BUFFER_SIZE": "2000"}) and is_on({"TORCH_NCCL_TRACE_BUFFER_SIZE": "10"})
    assert not is_on({}) and not is_on({"TORCH_FR_BUFFER_SIZE": "0"}) and not is_on({"TORCH_FR_BUFFER_SIZE": "x"})


def test_what_is_older_than_the_rank_is_another_runs(tmp_path: Path) -> None:
    file = tmp_path / "rank_0"
    file.write_bytes(pickle.dumps(DUMP, protocol=2))
    assert read(file, "0", since=time.time() - 60) is not None
    assert read(file, "0", since=time.time() + 60) is None
    assert read(tmp_path / "rank_1", "1") is None
    assert read(tmp_path, "1") is None


def test_one_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_recorder, "LARGEST", 10)
    (tmp_path / "rank_0").write_bytes(b"x" * 11)
    record = read(tmp_path / "rank_0", "0")
    assert record is not None and "larger than" in str(record.problem)


def test_the_pipe_gets_one_byte_and_only_where_somebody_listens(tmp_path: Path) -> None:
    environ = {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(tmp_path / "ask_")}
    assert not trigger(environ, "0")
    os.mkfifo(tmp_path / "ask_0.pipe")
    assert not trigger(environ, "0")  # nobody has it open
    listens = os.open(tmp_path / "ask_0.pipe", os.O_RDONLY | os.O_NONBLOCK)  # as ProcessGroupNCCL opens it
    try:
        assert trigger(environ, "0")
        assert os.read(listens, 10) == b"1"
    finally:
        os.close(listens)
    (tmp_path / "ask_1.pipe").write_text("")
    assert not trigger(environ, "1")  # no pipe
    assert (tmp_path / "ask_1.pipe").read_text() == ""
