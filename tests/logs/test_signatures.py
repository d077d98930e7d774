"""The contract of ``check.logged`` and ``check.concluded``, with checks made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    LogRun,
    Outcome,
    Role,
    Severity,
    find,
)
from rldoctor.logs.triage import triage_text

from .excerpts import HEALTHY, OUT_OF_MEMORY, PEER_GONE, REWARD_RAISES, ranked

MEMORY = "CUDA out of memory"


def seeing(literal: str, **options: object) -> tuple[Check, list[LogEvent]]:
    """A check that finds whenever it is asked, and the events that it saw."""
    check, events = Check("TST100", "seen", None), []

    @check.logged(literal, **options)  # type: ignore[arg-type]
    def judge(case: Case, event: LogEvent) -> Iterator[Finding]:
        events.append(event)
        yield check.finding("seen")

    return check, events


def test_an_event_carries_the_line_and_all_around_it() -> None:
    check, events = seeing(MEMORY)
    triage_text("loading\n" + ranked(3, OUT_OF_MEMORY) + "[rank3]: going down\n", [check])
    (event,) = events
    assert event.line.startswith("torch.OutOfMemoryError: CUDA out of memory")
    assert event.exception is not None and event.exception is event.run.root
    assert event.exception.frames[-1].code == "loss.backward()"
    assert (event.origin.rank, event.number, event.fatal, event.literal) == ("3", 7, True, MEMORY)
    assert event.after == ("going down",)
    assert event.search(r"allocate ([\d.]+) GiB")[1] == "13.91"  # type: ignore[index]
    assert event.incident.first_rank == "3"


def test_triage_fills_in_grade_and_evidence() -> None:
    check, _ = seeing(MEMORY)
    (finding,) = triage_text(OUT_OF_MEMORY, [check]).findings
    assert finding.grade is Grade.OBSERVED
    assert finding.evidence[0].source == "log"
    assert finding.evidence[0].line == 6


def test_equal_lines_of_many_ranks_are_one_event() -> None:
    check, events = seeing(MEMORY)
    triage_text("".join(ranked(rank, OUT_OF_MEMORY.replace("GPU 3", f"GPU {rank}")) for rank in range(6)), [check])
    (event,) = events
    assert event.count == 6
    assert event.ranks == ("0", "1", "2", "3", "4", "5")


def test_a_very_frequent_line_is_counted_and_judged_once() -> None:
    check, events = seeing("retrying the request", silent=True)
    triage_text("".join(f"[rank{i % 4}]: retrying the request {i}\n" for i in range(5000)), [check])
    (event,) = events
    assert event.count == 5000


def test_a_text_in_unless_rules_the_signature_out() -> None:
    check, events = seeing(MEMORY, unless=("GPU 3 has a total",))
    triage_text(OUT_OF_MEMORY, [check])
    assert events == []


@pytest.mark.parametrize("silent", [True, False])
def test_only_silent_signatures_are_asked_about_runs_that_end_well(silent: bool) -> None:
    check, events = seeing("Loading weights took", silent=silent)
    triage_text(HEALTHY, [check])
    assert len(events) == (1 if silent else 0)
    triage_text(HEALTHY.replace("DONE\n", "") + REWARD_RAISES, [check])
    assert len(events) == (2 if silent else 0)


@pytest.mark.parametrize(
    "said",
    [
        "CUDA error: uncorrectable ECC error encountered: the row is left out",
        "retry 1 of 3 after Failed to establish a new connection: [Errno 111] Connection refused",
        "ERROR 11-20 21:24:36 [utils.py:12] Call to ibv_reg_mr failed: going on without the card",
        "NCCL error: unhandled system error: falling back to sockets",
    ],
)
def test_a_line_that_steps_follow_is_not_what_a_later_exception_came_from(said: str) -> None:
    head, step, rest = HEALTHY.partition("{'loss': '0.0321'")
    steps = (step + rest).partition("{'train_runtime'")[0]
    for error, code in ((REWARD_RAISES, "RLD902"), (OUT_OF_MEMORY, "RLD206")):
        assert [found.code for found in triage_text(f"{head}{said}\n{steps}{error}").findings] == [code]
    # What nothing follows but the end may be its cause.
    assert triage_text(f"{head}{said}\n{ranked(1, PEER_GONE)}").findings[0].code != "RLD902"


def test_a_slip_in_the_users_own_code_comes_before_what_was_only_said() -> None:
    said = "Skipping row 12: CUDA error: an illegal memory access was encountered\n"
    assert [found.code for found in triage_text(said + REWARD_RAISES).findings] == ["RLD902"]
    grave = f"ERROR 11-20 21:24:36 [judge.py:7] {said}"
    assert [found.code for found in triage_text(grave + REWARD_RAISES).findings] == ["RLD902", "RLD305"]
    # Installed code that raises may have met what was said.
    inside = REWARD_RAISES.replace(
        '/home/user/rl/train.py", line 9', '/opt/venv/lib/python3.11/site-packages/x.py", line 9'
    )
    assert triage_text(said + inside).findings[0].code == "RLD305"


@pytest.mark.parametrize("error", ["ValueError: no answer", "RuntimeError: the sandbox gave no verdict"])
def test_whatever_a_function_raises_that_the_trainer_called(error: str) -> None:
    said = "CUDA error: an illegal memory access was encountered\n"
    called = REWARD_RAISES.replace("KeyError: 'answer'", error)
    assert [found.code for found in triage_text(said + called).findings] == ["RLD902"]
    # A script that gives up at its end, and one that got nothing, may have met what was said.
    script = f'Traceback (most recent call last):\n  File "/home/user/rl/t.py", line 3, in <module>\n    f()\n{error}\n'
    assert triage_text(said + script).findings[0].code == "RLD305"
    nothing = REWARD_RAISES.replace("KeyError: 'answer'", "TypeError: 'NoneType' object is not subscriptable")
    assert triage_text(said + nothing).findings[0].code == "RLD305"


def test_wrapper_and_cascade_literals_keep_an_exception_from_being_the_root() -> None:
    for role in (Role.CASCADE, Role.WRAPPER):
        check, events = seeing(MEMORY, role=role)
        triage_text(OUT_OF_MEMORY + ranked(1, REWARD_RAISES), [check])
        assert events[0].run.root is not None
        # The built-in signatures say that it is a cause, and a cause it stays.
        assert events[0].run.root.type == "torch.OutOfMemoryError"
    check, events = seeing("Connection closed by peer", role=Role.CASCADE)
    triage_text(ranked(0, PEER_GONE) + ranked(1, REWARD_RAISES), [check])
    assert events[0].run.root is not None
    assert events[0].run.root.type == "KeyError"


def test_a_sentence_over_several_lines_is_one_piece_of_evidence() -> None:
    check, _ = seeing("An attempt to start")
    message = "\n        An attempt to start a new process before the\n        first has come up.\n\n    Use a guard.\n"
    (finding,) = triage_text(f"Traceback (most recent call last):\nRuntimeError: {message}", [check]).findings
    assert finding.evidence[0].text == "An attempt to start a new process before the first has come up."


def test_a_confirmation_is_only_evidence() -> None:
    cause, _ = seeing(MEMORY)

    @cause.logged("reserved but unallocated", role=Role.CONFIRMATION)
    def confirm(case: Case, event: LogEvent) -> Iterator[Finding]:
        yield cause.finding("fragmented", evidence=(Evidence(text="fragmented"),))

    (finding,) = triage_text("GPU memory is reserved but unallocated\n" + OUT_OF_MEMORY, [cause]).findings
    assert [e.text for e in finding.evidence][1:] == ["fragmented"]
    assert triage_text("memory is reserved but unallocated\n" + REWARD_RAISES, [cause]).findings == ()


def test_conclusions_are_asked_where_no_cause_was_found() -> None:
    cause, _ = seeing(MEMORY)
    last = Check("TST900", "last", None)
    runs: list[LogRun] = []

    @last.concluded
    def conclude(case: Case, run: LogRun) -> Iterator[Finding]:
        runs.append(run)
        yield last.finding("nothing else")

    assert [f.code for f in triage_text(OUT_OF_MEMORY, [cause, last]).findings] == ["TST100"]
    assert runs == []
    assert [f.code for f in triage_text(REWARD_RAISES, [cause, last]).findings] == ["TST900"]
    assert runs[0].root is not None and runs[0].root.raised_by_user is not None
    assert runs[0].root.raised_by_user.function == "reward"


def test_a_signature_that_raises_is_a_result_and_the_others_go_on() -> None:
    broken, good = Check("TST101", "broken", None), seeing(MEMORY)[0]

    @broken.logged(MEMORY)
    def judge(case: Case, event: LogEvent) -> Iterator[Finding]:
        raise KeyError("oops")
        yield

    report = triage_text(OUT_OF_MEMORY, [broken, good])
    assert [(r.code, r.outcome) for r in report.results] == [("TST101", Outcome.CRASHED), ("TST100", Outcome.FINDINGS)]
    assert report.results[0].traceback is not None and "oops" in report.results[0].traceback


def exits(check: Check) -> Iterator[Finding]:
    raise SystemExit("good bye")
    yield


def yields_text(check: Check) -> Iterator[object]:
    yield "a finding"


def yields_another_code(check: Check) -> Iterator[Finding]:
    yield Check("TST999", "another", None).finding("x")


def yields_a_number_as_message(check: Check) -> Iterator[Finding]:
    yield check.finding(42)  # type: ignore[arg-type]


def yields_nothing_at_all(check: Check) -> None:
    return None


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        (exits, "SystemExit: good bye"),
        (yields_text, "TypeError: TST105 yielded 'a finding'"),
        (yields_another_code, "TypeError: TST105 yielded a finding of TST999"),
        (yields_a_number_as_message, "ValidationError: "),
        (yields_nothing_at_all, "TypeError: 'NoneType'"),
    ],
)
@pytest.mark.parametrize("concluded", [False, True])
def test_whatever_a_signature_does_the_others_go_on(
    judge: Callable[[Check], Any], reason: str, concluded: bool
) -> None:
    broken, good = Check("TST105", "broken", None), seeing(MEMORY)[0]
    if concluded:
        broken.concluded(lambda case, run: judge(broken))
        good = Check("TST100", "seen", None)
        good.concluded(lambda case, run: iter([good.finding("seen")]))
    else:
        broken.logged(MEMORY)(lambda case, event: judge(broken))
    report = triage_text(OUT_OF_MEMORY, [broken, good])
    assert [(r.code, r.outcome) for r in report.results] == [("TST105", Outcome.CRASHED), ("TST100", Outcome.FINDINGS)]
    assert (report.results[0].reason or "").startswith(reason)
    assert [f.code for f in report.findings] == ["TST100"]


def test_what_a_signature_prints_does_not_reach_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    check = Check("TST106", "chatty", None)

    @check.logged(MEMORY)
    def judge(case: Case, event: LogEvent) -> Iterator[Finding]:
        print("thinking")
        yield check.finding("x")

    assert len(triage_text(OUT_OF_MEMORY, [check]).findings) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "thinking\n")


def test_findings_from_before_a_crash_stay() -> None:
    check = Check("TST107", "half", None)

    @check.logged(MEMORY)
    def judge(case: Case, event: LogEvent) -> Iterator[Finding]:
        yield check.finding("x")
        raise KeyError("oops")

    (result,) = triage_text(OUT_OF_MEMORY, [check]).results
    assert (result.outcome, len(result.findings)) == (Outcome.FINDINGS, 1)
    assert result.traceback is not None and "oops" in result.traceback


def test_versions_of_the_log_are_in_the_case() -> None:
    check, seen = Check("TST102", "versions", None), []

    @check.logged(MEMORY)
    def judge(case: Case, event: LogEvent) -> Iterator[Finding]:
        assert case.packages is not None
        seen.append((find(case.packages, "vllm"), find(case.packages, "trl"), event.versions["python"]))
        yield check.finding("x", fixes=(Fix(title="y", applicability=Applicability.SAFE),))

    triage_text(HEALTHY.replace("DONE\n", "") + OUT_OF_MEMORY, [check])
    vllm, trl, python = seen[0]
    assert vllm is not None and vllm.version == "0.11.0"
    assert (trl, python) == (None, "3.11")


@pytest.mark.parametrize("literal", ["short", "two\nlines", ""])
def test_literals_that_cannot_be_looked_for_are_refused(literal: str) -> None:
    with pytest.raises(ValueError, match="TST103"):
        Check("TST103", "x", None).logged(literal)


def test_the_nearer_line_comes_first_and_pairs_decide_between_equals() -> None:
    near, far = Check("RLD201", "near", None), Check("RLD210", "far", None)

    @near.logged("loss.backward()")
    def code_line(case: Case, event: LogEvent) -> Iterator[Finding]:
        yield near.finding("x")

    @far.logged(MEMORY)
    def message(case: Case, event: LogEvent) -> Iterator[Finding]:
        yield far.finding("x")

    assert [f.code for f in triage_text(OUT_OF_MEMORY, [near, far]).findings] == ["RLD210", "RLD201"]


def test_what_a_run_survived_is_a_note() -> None:
    pull = 'Failed to pull image "rl/train:1": rpc error: code = Unknown\n'
    begun = HEALTHY.split("{'train_runtime'")[0]
    (before,) = triage_text(pull + begun).findings
    (after,) = triage_text(begun + pull).findings
    assert (before.code, before.severity) == ("RLD603", Severity.NOTE)
    assert (after.code, after.severity) == ("RLD603", Severity.ERROR)
