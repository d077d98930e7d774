"""What stands before the text of a line, as each launcher and logger writes it."""

from __future__ import annotations

import pytest

from rldoctor.logs.model import Origin
from rldoctor.logs.prefixes import parse, unwrapped
from rldoctor.logs.times import seconds


@pytest.mark.parametrize(
    ("line", "origin", "level", "text"),
    [
        ("[rank3]: Traceback (most", Origin(rank="3"), None, "Traceback (most"),
        ("[default3]:[rank3]: foo", Origin(rank="3"), None, "foo"),
        ("[trainer7]:foo", Origin(rank="7"), None, "foo"),
        ("[rank0]:[W1120 21:24:35.66 utils.cpp:68] Warning", Origin(rank="0"), "WARNING", "Warning"),
        (
            "[E1120 20:49:10.1 ProcessGroupNCCL.cpp:632] [Rank 5] Watchdog",
            Origin(rank="5"),
            "ERROR",
            "Watchdog",
        ),
        ("(WorkerDict pid=12, ip=1.2.3.4) hello", Origin(actor="WorkerDict", pid="12", node="1.2.3.4"), None, "hello"),
        ("\x1b[36m(Worker pid=5)\x1b[0m hi", Origin(actor="Worker", pid="5"), None, "hi"),
        ("(MyActor(index=2) pid=55) hi", Origin(actor="MyActor(index=2)", pid="55"), None, "hi"),
        ("(VllmWorker rank=1 pid=7) ERROR 11-20 20:23:37 [core.py:15] x", Origin("1", "VllmWorker", "7"), "ERROR", "x"),
        (
            "(EngineCore_DP0 pid=22) INFO 11-20 20:23:37 [core.py:1] x",
            Origin(None, "EngineCore_DP0", "22"),
            "INFO",
            "x",
        ),
        ("(raylet, ip=10.0.0.1) A worker died", Origin(actor="raylet", node="10.0.0.1"), None, "A worker died"),
        ("(autoscaler +1m5s) Error: No", Origin(actor="autoscaler"), None, "Error: No"),
        (" 0: text", Origin(rank="0"), None, "text"),
        ("12: RuntimeError: x", Origin(rank="12"), None, "RuntimeError: x"),
        ("2026-11-20T20:43:43.123456789Z stdout F hello", Origin(), None, "hello"),
        ("2026-11-20 21:20:42,768\tWARNING worker.py:85 -- Token", Origin(), "WARNING", "Token"),
        ("[2026-11-20 20:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 2] x", Origin(rank="2"), "INFO", "x"),
        ("[2026-11-20 20:43:43,123][verl][ERROR] - x", Origin(), "ERROR", "- x"),
        ("[INFO:swift] text", Origin(), "INFO", "text"),
        ("[RANK 4] text", Origin(rank="4"), None, "text"),
        ("2026-11-20 20:43:43.123 | ERROR    | m.x:f:12 - text", Origin(), "ERROR", "text"),
        ("node-1: [rank2]: x", Origin(rank="2", node="node-1"), None, "x"),
        ("worker-1  | hello", Origin(node="worker-1"), None, "hello"),
        ("[1,3]<stderr>: hi", Origin(rank="3"), None, "hi"),
        ("(pid=812, ip=10.0.0.4) hello", Origin(pid="812", node="10.0.0.4"), None, "hello"),
        ("16:41:43 WARNING Inference server was not reached", Origin(), "WARNING", "Inference server was not reached"),
        ("16:42:40 SUCCESS Step 0 | Time: 1s", Origin(), "INFO", "Step 0 | Time: 1s"),
        ("10:00:01 ERROR - text", Origin(), "ERROR", "text"),
        ("E1120 20:49:56.03 7780 torch/x/api.py:1002] failed", Origin(), "ERROR", "failed"),
        ("ERROR:    Exception in ASGI application", Origin(), "ERROR", "Exception in ASGI application"),
    ],
)
def test_prefixes_of_launchers_and_loggers(line: str, origin: Origin, level: str | None, text: str) -> None:
    parsed = parse(line)
    assert (parsed.origin, parsed.level, parsed.text) == (origin, level, text)


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA out of memory",
        '  File "/home/user/train.py", line 3, in f',
        "[step 12] reward 0.3",
        "[1] 12 outputs",
        "[[0, 0], [1, 1]]",
        "{'loss': '0'}",
        "ray::WorkerDict.update() (pid=1, ip=1.2.3.4)",
        "error: [Errno 2] No such file",
        "",
    ],
)
def test_text_that_only_looks_like_a_prefix_stays(line: str) -> None:
    parsed = parse(line)
    assert parsed.text == line
    assert parsed.origin == Origin()


def test_a_message_behind_a_bar_that_was_not_finished() -> None:
    line = (
        "Processed: 0%|   | 0/1 [00:00<?, ?it/s, output: 0 toks/s](EngineCore pid=9) ERROR 11-20 21:14:33 [x.py:1] died"
    )
    assert (parse(line).origin.pid, parse(line).level, parse(line).text) == ("9", "ERROR", "died")


def test_ray_says_how_many_processes_printed_a_line() -> None:
    parsed = parse("(A pid=1) boom [repeated 63x across cluster] (Ray deduplicates logs by default.)")
    assert (parsed.text, parsed.repeated) == ("boom", 63)


def test_torchs_own_hook_is_reported_from_a_launchers_tee() -> None:
    assert parse("[rank3]: x").ranked
    assert not parse("[default3]:x").ranked


def test_what_a_container_added_is_taken_off_for_other_readers() -> None:
    assert unwrapped("2026-11-20T20:43:43.1Z {'loss': 1}") == "{'loss': 1}"
    assert unwrapped("3: {'loss': 1}") == "[rank3]: {'loss': 1}"
    assert unwrapped("2026-11-20 20:43:43.1 | INFO | a:b:1 - x") == "2026-11-20 20:43:43.1 | INFO | a:b:1 - x"


def test_times_of_all_formats_can_be_compared() -> None:
    stamps = ["2026-11-20T20:43:43.5Z", "2026-11-20 20:43:43,500", "11-20 20:43:43.5", "1120 20:43:43.500000"]
    assert len({seconds(stamp) for stamp in stamps}) == 1
    assert seconds("20:43:43") == 74623
    assert seconds("1399 20:43:43") is None
    assert seconds("no time") is None


def test_a_node_that_is_named_by_its_address() -> None:
    # https://github.com/StarsfieldAI/R1-V/pull/44
    line = parse('192.0.2.7: [rank0]:   File "/opt/x.py", line 1, in f')
    assert (line.origin.node, line.origin.rank) == ("192.0.2.7", "0")
    assert line.text == '  File "/opt/x.py", line 1, in f'
    assert parse("192.0.2.7: 64 bytes").origin.node is None
