"""RLD221: SGLang fails in a way of its own."""

from __future__ import annotations

import pytest
from rldoctor_checks.rollout.other_engine import check

from rldoctor.model import Severity
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY

SCHEDULER = "/opt/venv/lib/python3.11/site-packages/sglang/srt/managers/scheduler.py check_memory"
BATCH = "[2026-02-19 11:45:{0:02d} TP0] Decode batch. #running-req: 4, #token: 511, gen throughput (token/s): 90.1\n"
HEALTH = (
    "[2026-02-19 11:46:{0:02d}] Health check failed. Server couldn't get a response from detokenizer for last 20 "
    "seconds. tic start time: 11:46:01. last_heartbeat time: 11:45:42\n"
)
WARMUP = """\
[2026-02-19 14:25:58] Initialization failed. warmup error: Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/sglang/srt/entrypoints/http_server.py", line 579, in _wait_and_warmup
    assert res.status_code == 200, f"{res=}, {res.text=}"
AssertionError: res=<Response [503]>, res.text=''

"""


@pytest.mark.parametrize("pool", ["token_to_kv_pool_allocator", "token_to_kv_pool", "req_to_token_pool", "pool"])
def test_the_pool_does_not_add_up(pool: str) -> None:
    text = raised("ValueError", f"{pool} memory leak detected! available_size=12, max=14", SCHEDULER)
    assert "defect of this release" in finding(check, text).message


def test_the_first_request_fails() -> None:
    found = finding(check, WARMUP)
    assert "Response [503]" in found.message
    assert any("no_proxy" in command for fix in found.fixes for command in fix.commands)


def test_no_health_check_is_answered() -> None:
    found = finding(check, BATCH.format(1) + HEALTH.format(21) + HEALTH.format(51))
    assert found.severity is Severity.WARNING
    assert "within 20 s" in found.message


def test_the_watchdog() -> None:
    text = "[2026-02-19 11:45:46 TP0] Watchdog timeout (self.watchdog_last_forward_ct=512, self.watchdog_timeout=300)\n"
    assert "one forward pass" in finding(check, text).message


@pytest.mark.parametrize(
    "text",
    [
        HEALTH.format(21) + BATCH.format(40) + HEALTHY,
        raised("ValueError", "memory leak detected in a page", "/home/user/rl/pages.py f"),
        HEALTHY + "[2026-02-19 11:45:46] INFO watchdog timeout is 300 s\n",
    ],
)
def test_quiet(text: str) -> None:
    assert findings(check, text) == []


RUNS = "/opt/venv/lib/python3.11/site-packages/sglang/srt/managers/scheduler.py run_scheduler_process"
LOADS = "/opt/venv/lib/python3.11/site-packages/sglang/srt/model_executor/model_runner.py _unwrap_tensor"


def test_the_scheduler_raises() -> None:
    # https://github.com/verl-project/verl/issues/2499
    sizes = "The size of tensor a (896) must match the size of tensor b (0) at non-singleton dimension 1"
    for log in (raised("RuntimeError", sizes, RUNS, LOADS), raised("KeyError", "'lm_head.weight'", RUNS, LOADS)):
        assert "scheduler raised in its own code" in finding(check, log).message
    assert findings(check, raised("RuntimeError", "CUDA error: device-side assert triggered", RUNS, LOADS)) == []
    assert findings(check, raised("RuntimeError", sizes, LOADS)) == []
    torch = "/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py linear"
    assert findings(check, raised("RuntimeError", sizes, RUNS, LOADS, torch)) == []
