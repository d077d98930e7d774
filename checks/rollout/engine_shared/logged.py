"""How an engine that two callers share shows in a log."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent

from . import check
from .fixes import ABORT, ABORT_V0, LOCK


def _fixes(event: LogEvent, abort: Fix = ABORT) -> tuple[Fix, ...]:
    if (
        event.incident.framework in ("ms-swift", None)
        and "async" in event.text.lower() + event.incident.cascades.__str__()
    ):
        swift = Fix.unsafe(
            "switch asynchronous generation off (async_generate false) while evaluation runs on the same engine",
            {"rollout.async": False},
            side_effects="generation and training no longer overlap",
        )
        return (swift, LOCK, abort)
    return (LOCK, abort)


@check.logged("assert len(running_scheduled.prefill_seq_groups) == 0")
def prefill_assertion(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The V0 scheduler finds prefills among what it thought was running."""
    error = event.exception
    thread = error is not None and error.header.startswith("Exception in thread")
    how = f" ({error.header.strip(': ')})" if thread and error is not None else ""
    yield check.finding(
        f"two callers drive one V0 engine, or it was used again after an interrupted step{how}",
        fixes=_fixes(event, ABORT_V0),
        url="https://github.com/modelscope/ms-swift/issues/3666",
    )


# The other caller reset what this one was using.
check.signature(
    "Forward context is not set",
    "state=finished raised AssertionError",
    says=("a second caller changed the engine's state during a step (training rollouts and evaluation on one engine)"),
    fixes=lambda case, event, words: _fixes(event),
    url="https://github.com/modelscope/ms-swift/issues/4418",
)


@check.logged(" outputs for ", silent=True)
def wrong_number_of_outputs(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``30 outputs for 16 prompts``: leftovers of an earlier call came along."""
    numbers = event.search(r"\b(\d+) outputs for (\d+) prompts\b")
    if numbers is None or int(numbers[1]) % max(1, int(numbers[2])) == 0:
        return  # several samples per prompt
    yield check.finding(
        f"a generation returned {numbers[1]} outputs for {numbers[2]} prompts: requests of another or an interrupted "
        "call are in the engine",
        fixes=(ABORT, LOCK),
        url="https://github.com/modelscope/ms-swift/issues/4234",
    )


# Where vLLM keeps its requests, and what their names look like.
_KEEPS_REQUESTS = re.compile(r"vllm/(?:v1/)?(?:core|engine)/|model_runner\.py$")


_REQUEST = re.compile(r"'(?:\w{1,10}-)?\d+(?:[_-]\d+)*'")


@check.logged(" already running.", "KeyError: '")
def request_collides(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``Request id 12 already running``; a step's output names a request that another caller finished."""
    error = event.exception
    twice = event.search(r"Request id (\S+) already running")
    engine = error is not None and any(_KEEPS_REQUESTS.search(frame.file) for frame in error.frames[-2:])
    lost = error is not None and error.type == "KeyError" and _REQUEST.fullmatch(error.message)
    if not (twice or (lost and engine)):
        return
    which = twice[1] if twice else error.message if error is not None else ""
    yield check.finding(
        f"request {which} {'was added twice' if twice else 'is unknown to the engine'}: two callers drive it, or it "
        "was used again after an interrupted step",
        fixes=_fixes(event),
    )
