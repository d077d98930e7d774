"""What is said of a record: which rank the others wait for, and what stays quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rldoctor.api import Finding, Outcome, Severity
from rldoctor.facts.blocked import Blocked, Holder
from rldoctor.hang.incident import incident_of
from rldoctor.hang.model import (
    Collective,
    FlightRecord,
    LogTail,
    RayActor,
    RayBundles,
    RayCluster,
    RayDemand,
    Seen,
    Thread,
)
from rldoctor.hang.view import StalledRun
from rldoctor.logs.model import Frame
from tests.hang.records import (
    ALL_REDUCE,
    BROADCAST,
    C10D,
    CORE,
    ENGINE_IDLE,
    GENERATE,
    IN_PACE,
    LLM,
    LOGGER,
    MAIN,
    QUEUE,
    REWARD,
    SAVE,
    STANDS,
    findings,
    hang,
    judged,
    rank,
    seen,
)

SITE = "/env/lib/python3.11/site-packages"
THREADING = "/usr/lib/python3.11/threading.py"
ALL = ("RLD210", "RLD321", "RLD406", "RLD602", "RLD606", "RLD609", "RLD610")


def verdict(*processes: object, **more: object) -> dict[str, tuple[Finding, ...]]:
    """Every check's findings, by code."""
    found = {code: findings(code, hang(*processes, **more)) for code in ALL}  # type: ignore[arg-type]
    return {code: said for code, said in found.items() if said}


def _receives(number: int, peer: int, call: str = "recv") -> Seen:
    """A rank in a call from point to point."""
    one = rank(
        number, (MAIN, Frame("/srv/pipe.py", 7, "exchange", f"dist.{call}(x, {peer})"), Frame(C10D, 9, call)), size=3
    )
    return replace(one, threads=(replace(one.threads[0], places={"peer": peer}),))


class TestRanks:
    def test_the_rank_that_is_elsewhere_is_named_with_its_line(self) -> None:
        said = verdict(*(rank(n, ALL_REDUCE, size=8) for n in range(7)), rank(7, REWARD, size=8))
        assert list(said) == ["RLD321"]
        (finding,) = said["RLD321"]
        assert finding.severity is Severity.ERROR
        assert finding.message == (
            "ranks 0-6 wait in all_reduce at train.py:12 in train; rank 7 is not there: "
            "it is at reward.py:5 in compute_score"
        )
        assert (finding.evidence[0].source, finding.evidence[0].line) == ("/srv/reward.py", 5)

    def test_a_rank_that_has_ended_but_for_a_thread(self) -> None:
        ends = Thread(id=101, name="MainThread", main=True, frames=(Frame(THREADING, 1590, "_shutdown", ""),))
        beats = Thread(id=102, name="heartbeat", frames=(Frame("/srv/train.py", 44, "beat", "time.sleep(60)"),))
        (finding,) = verdict(rank(0, ALL_REDUCE), replace(rank(1, ()), threads=(ends, beats)))["RLD321"]
        assert finding.message.endswith(
            "rank 1 is not there: it has ended but for its thread heartbeat, which is at train.py:44 in beat"
        )

    def test_a_rank_that_computes_in_one_line_may_be_slow(self) -> None:
        (finding,) = verdict(rank(0, ALL_REDUCE), rank(1, REWARD, cpu=0.98))["RLD321"]
        assert finding.severity is Severity.WARNING
        assert "98% of a core" in finding.message

    def test_quiet_for_little_longer_than_its_steps_take_is_a_warning(self) -> None:
        log = LogTail(file="/srv/run.log", quiet=40.0, limit=20.0)
        (finding,) = verdict(rank(0, ALL_REDUCE, log=log), rank(1, REWARD, log=log))["RLD321"]
        assert finding.severity is Severity.WARNING

    def test_quiet_for_no_longer_than_its_steps_take_is_no_stall(self) -> None:
        assert verdict(rank(0, ALL_REDUCE, log=IN_PACE), rank(1, REWARD, log=IN_PACE)) == {}
        assert verdict(rank(0, ALL_REDUCE, log=IN_PACE), rank(1, ALL_REDUCE, log=IN_PACE)) == {}

    def test_where_nothing_tells_the_pace_it_is_not_judged(self) -> None:
        for log in (None, LogTail(file="/srv/run.log", quiet=90.0)):
            result = judged("RLD321", hang(rank(0, ALL_REDUCE, log=log), rank(1, REWARD, log=log)))
            assert result.outcome is Outcome.NOT_CHECKED
            assert "rank 1 is not there: it is at reward.py:5 in compute_score" in str(result.reason)
            assert "look again later, with its output in a file" in str(result.reason)

    def test_watched_for_ten_minutes_it_stands_without_a_log(self) -> None:
        record = hang(rank(0, ALL_REDUCE, log=None), rank(1, REWARD, log=None), seconds=700.0)
        assert [f.severity for f in findings("RLD321", record)] == [Severity.WARNING]

    def test_ranks_that_receive_from_each_other_in_a_ring(self) -> None:
        (finding,) = verdict(*(_receives(n, (n - 1) % 3) for n in range(3)))["RLD321"]
        assert finding.severity is Severity.ERROR
        assert finding.message == (
            "ranks wait for each other: rank 0 in recv at pipe.py:7 for rank 2, "
            "rank 2 in recv at pipe.py:7 for rank 1, rank 1 in recv at pipe.py:7 for rank 0"
        )
        assert "batch_isend_irecv" in str(finding.fixes)

    def test_actors_in_a_ring_are_known_by_their_variables(self) -> None:
        actors = [
            replace(_receives(n, (n - 1) % 3), role="ray worker", rank=None, name="ray::Worker.fit") for n in range(3)
        ]
        numbered = [replace(a, threads=(replace(a.threads[0], places={"peer": (n - 1) % 3, "rank": n}),))
                    for n, a in enumerate(actors)]  # fmt: skip
        (finding,) = verdict(*numbered)["RLD321"]
        assert finding.message.startswith(
            "ranks wait for each other: ray::Worker.fit (pid 100) in recv at pipe.py:7 for "
        )
        (finding,) = verdict(*actors)["RLD321"]
        assert "wait for each other" not in finding.message

    def test_what_is_sent_to_who_receives_it_is_no_ring(self) -> None:
        (finding,) = verdict(_receives(0, 1), _receives(1, 0, call="send"))["RLD321"]
        assert "wait for each other" not in finding.message

    def test_ten_minutes_are_long_for_any_collective(self) -> None:
        log = LogTail(file="/srv/run.log", quiet=700.0)
        assert "RLD321" in verdict(rank(0, ALL_REDUCE, log=log), rank(1, REWARD, log=log))

    def test_a_rank_that_moves_is_no_stall(self) -> None:
        elsewhere = (MAIN, Frame("/srv/reward.py", 9, "parse"))
        for log in (replace(STANDS, quiet=500.0), replace(STANDS, limit=400.0), replace(STANDS, limit=None)):
            both = rank(0, ALL_REDUCE, log=log), rank(1, REWARD, elsewhere, log=log)
            assert verdict(*both) == {}
            assert "and moves" in str(judged("RLD321", hang(*both)).reason)

    def test_a_rank_that_moves_far_beyond_its_pace_may_ask_in_vain(self) -> None:
        retries = (MAIN, Frame("/srv/reward.py", 9, "compute_score", "time.sleep(1)"))
        (finding,) = verdict(rank(0, ALL_REDUCE), rank(1, REWARD, retries))["RLD321"]
        assert finding.severity is Severity.NOTE
        assert "rank 1 is not there: it is at reward.py:5 in compute_score; it moves, yet its log" in finding.message
        steps = replace(seen(9, ENGINE_IDLE, REWARD, role="engine", cpu=0.9))
        assert verdict(rank(0, ALL_REDUCE), rank(1, GENERATE, REWARD), steps) == {}

    def test_a_run_in_which_every_rank_moves_is_no_stall(self) -> None:
        assert verdict(rank(0, ALL_REDUCE, REWARD), rank(1, REWARD, ALL_REDUCE)) == {}

    def test_one_collective_after_the_other_is_no_stall(self) -> None:
        goes_on: dict[str, Any] = {"cpu": 0.4, "switches": 900.0}
        assert verdict(rank(0, ALL_REDUCE, **goes_on), rank(1, ALL_REDUCE, **goes_on)) == {}

    def test_a_wait_that_spins_or_looks_around_is_one(self) -> None:
        for cpu, switches in ((1.0, 0.5), (0.01, 90.0)):
            assert "RLD321" in verdict(rank(0, ALL_REDUCE, cpu=cpu, switches=switches), rank(1, REWARD))

    def test_one_rank_that_works_alone_is_no_stall(self) -> None:
        assert verdict(rank(0, REWARD, cpu=1.0, size=1)) == {}

    def test_ranks_in_different_collectives(self) -> None:
        (finding,) = verdict(rank(0, ALL_REDUCE), rank(1, BROADCAST))["RLD321"]
        assert finding.message == (
            "every rank waits in a collective, and not in the same, so they call them in another order: rank 0 in "
            "all_reduce at train.py:12, rank 1 in broadcast at train.py:20"
        )
        assert finding.severity is Severity.ERROR

    def test_the_incident_is_the_rank_that_is_alone_in_its_call(self) -> None:
        for calls, first in (((ALL_REDUCE, ALL_REDUCE, BROADCAST), "2"), ((ALL_REDUCE, BROADCAST), "0")):
            record = hang(*(rank(number, call, size=len(calls)) for number, call in enumerate(calls)))
            assert incident_of(record, findings("RLD321", record)).first_rank == first

    def test_two_groups_in_opposite_order_by_the_lines_of_the_calls(self) -> None:
        def call(group: str, line: int) -> tuple[Frame, ...]:
            return (MAIN, Frame("/srv/train.py", line, "sync", f"dist.all_reduce(x, group={group})"), *ALL_REDUCE[2:])

        first, second = call("self.tp_group", 8), call("self.dp_group", 9)
        (finding,) = verdict(rank(0, first, size=3), rank(1, second, size=3), rank(2, first, size=3))["RLD321"]
        assert finding.message.endswith(
            "call them in another order: rank 1 in all_reduce of self.dp_group at train.py:9, ranks 0, 2 in all_reduce "
            "of self.tp_group at train.py:8"
        )

    def test_two_groups_through_one_helper_by_who_called_it(self) -> None:
        def call(group: str, line: int) -> tuple[Frame, ...]:
            helper = Frame("/srv/comm.py", 3, "reduce", "dist.all_reduce(x, group=group)")
            return (MAIN, Frame("/srv/train.py", line, "sync", f"reduce(x, {group})"), helper, *ALL_REDUCE[2:])

        first, second = call("self.tp_group", 8), call("self.dp_group", 9)
        (finding,) = verdict(rank(0, first, size=3), rank(1, second, size=3), rank(2, first, size=3))["RLD321"]
        assert finding.message.endswith(
            "call them in another order: rank 1 in all_reduce of group at comm.py:3, called at train.py:9, ranks 0, 2 "
            "in all_reduce of group at comm.py:3, called at train.py:8"
        )

    def test_one_line_that_calls_a_helper_is_one_call(self) -> None:
        helper = Frame("/srv/comm.py", 3, "reduce", "dist.all_reduce(x, group=group)")
        stack = (MAIN, Frame("/srv/train.py", 8, "sync", "reduce(x, mine)"), helper, *ALL_REDUCE[2:])
        (finding,) = verdict(rank(0, stack), rank(1, stack))["RLD321"]
        assert "group need not be the same group on each" in finding.message

    def test_the_two_ends_of_a_call_are_one_call(self) -> None:
        def ends(function: str) -> tuple[Frame, ...]:
            return (*ALL_REDUCE[:-1], Frame(C10D, 2000, function))

        (finding,) = verdict(rank(0, ends("send")), rank(1, ends("recv")))["RLD321"]
        assert "waits in the same collective" in finding.message

    def test_what_the_missing_rank_waits_for_is_followed_to_its_end(self) -> None:
        loads = (MAIN, Frame("/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py", 1, "_try_get_data"))
        item = (Frame("/srv/data.py", 7, "Prompts.__getitem__", "time.sleep(600)"),)
        waits = rank(1, loads)
        on = Blocked("poll", "pipe", holders=(Holder(200, "python"),))
        waits = replace(waits, threads=(replace(waits.threads[0], blocked=on),))
        worker = replace(seen(200, item, role="helper", name="train.py"), parent=101)
        (finding,) = verdict(rank(0, ALL_REDUCE), waits, worker)["RLD321"]
        assert finding.message.endswith(
            "it waits for the data loader at train.py:40 in <module>; it reads a pipe that train.py (pid 200) writes "
            "to, which is at data.py:7 in __getitem__"
        )

    def test_a_worker_that_is_stopped_ends_the_chain(self) -> None:
        loads = (MAIN, Frame("/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py", 1, "_try_get_data"))
        waits = rank(1, loads)
        on = Blocked("poll", "pipe", holders=(Holder(200, "python"),))
        waits = replace(waits, threads=(replace(waits.threads[0], blocked=on),))
        worker = replace(seen(200, REWARD, role="helper", state="T"), parent=101)
        back = replace(worker.threads[0], blocked=Blocked("read", "pipe", holders=(Holder(101, "python"),)))
        record = hang(rank(0, ALL_REDUCE), waits, replace(worker, threads=(back,)))
        (finding,) = findings("RLD321", record)
        assert finding.message.endswith("writes to, which is stopped by a signal at reward.py:5 in compute_score")
        exception = incident_of(record, (finding,)).exception
        assert exception == "train.py (pid 200) is stopped by a signal at reward.py:5 in compute_score"

    def test_two_that_read_from_each_other(self) -> None:
        one, other = rank(1, REWARD), replace(seen(200, REWARD, role="helper"), parent=101)
        pair = [
            replace(a, threads=(replace(a.threads[0], blocked=Blocked("read", "pipe", holders=(Holder(b.pid, "p"),))),))
            for a, b in ((one, other), (other, one))
        ]
        (finding,) = verdict(rank(0, ALL_REDUCE), *pair)["RLD321"]
        assert finding.message.endswith(
            "it reads a pipe that train.py (pid 200) writes to, which is at reward.py:5 in compute_score; it reads a "
            "pipe that rank 1 (pid 101) writes to, which is at reward.py:5 in compute_score"
        )

    @pytest.mark.parametrize(
        ("frames", "wait", "told"),
        [
            ((Frame("/srv/metrics.py", 7, "logger"),), "futex_do_wait", True),
            # It sleeps for a time, or in a library.
            ((Frame("/srv/metrics.py", 7, "logger"),), "hrtimer_nanosleep", False),
            ((Frame("/srv/metrics.py", 7, "logger"), Frame(QUEUE, 171, "Queue.get")), "futex_do_wait", False),
        ],
        ids=["a lock", "a pause", "a queue"],
    )
    def test_threads_that_sleep_at_locks_are_told_together(
        self, frames: tuple[Frame, ...], wait: str, told: bool
    ) -> None:
        late = rank(1, REWARD)
        main = replace(late.threads[0], wait="futex_do_wait")
        other = Thread(id=9, name="metrics-logger", frames=frames, state="S", wait=wait, cpu=0.0)
        (finding,) = verdict(rank(0, ALL_REDUCE), replace(late, threads=(main, other)))["RLD321"]
        said = "its thread metrics-logger sleeps at a lock, too, at metrics.py:7 in logger"
        assert (said in finding.message) is told

    @pytest.mark.parametrize(("works", "stands"), [(False, True), (True, False)])
    def test_a_file_lock_is_followed_to_who_holds_it(self, works: bool, stands: bool) -> None:
        asks = (*REWARD, Frame("/env/lib/python3.11/site-packages/filelock/_api.py", 1, "BaseFileLock.acquire"))
        waits = rank(1, asks)
        on = Blocked("poll", "lock", "/srv/cache.lock", (Holder(200, "python"),))
        waits = replace(waits, threads=(replace(waits.threads[0], blocked=on),))
        holder = seen(200, REWARD, name="tokenize.py", cpu=0.9 if works else 0.0)
        said = verdict(rank(0, ALL_REDUCE), waits, holder)
        assert bool(said) is stands
        if stands:
            assert said["RLD321"][0].message.endswith(
                "it waits for a file lock at reward.py:5 in compute_score; it waits for the lock on /srv/cache.lock, "
                "held by tokenize.py (pid 200), which is at reward.py:5 in compute_score"
            )

    def test_ranks_in_containers_of_their_own_see_nobody_else(self) -> None:
        meets = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        alone = seen(100, ALL_REDUCE, role="rank", rank="0", environment={**meets, "RANK": "0"})
        (finding,) = verdict(alone)["RLD321"]
        assert "ranks 1-2 were not looked at" in finding.message and finding.severity is Severity.NOTE
        two = seen(101, ALL_REDUCE, role="rank", rank="1", environment={**meets, "RANK": "1"})
        (finding,) = verdict(alone, two)["RLD321"]
        assert "rank 2 has no process here" in finding.message and finding.severity is Severity.ERROR

    def test_a_rank_that_was_not_started_yet(self) -> None:
        young = {"age": 20.0, "log": None}
        result = judged("RLD321", hang(*(rank(n, ALL_REDUCE, size=3, **young) for n in (0, 1))))
        assert result.outcome is Outcome.NOT_CHECKED

    def test_a_rank_that_waits_for_an_engine_at_work_is_no_stall(self) -> None:
        steps = seen(9, (ENGINE_IDLE[0], Frame(CORE, 674, "EngineCore.step")), ENGINE_IDLE, role="engine", cpu=0.9)
        assert verdict(rank(0, GENERATE), rank(1, ALL_REDUCE), steps) == {}
        idle = seen(9, ENGINE_IDLE, role="engine")
        assert "RLD321" in verdict(rank(0, GENERATE), rank(1, ALL_REDUCE), idle)

    @pytest.mark.parametrize(("moved", "stands"), [(21_888, False), (80, True), (None, True)])
    def test_an_engine_that_asked_its_workers_meanwhile_is_at_work(self, moved: int | None, stands: bool) -> None:
        """In each sample it may spin in the same wait, and so may the worker that waits for the next step."""
        vllm = CORE.removesuffix("v1/engine/core.py")
        spins = (
            Frame(f"{vllm}v1/executor/multiproc_executor.py", 103, "_wait_for_response"),
            Frame(f"{vllm}distributed/utils.py", 46, "sched_yield"),
        )
        engine = seen(9, (ENGINE_IDLE[0], Frame(CORE, 674, "EngineCore.step"), *spins), role="engine", cpu=0.9)
        engine = replace(engine, threads=(replace(engine.threads[0], moved=moved, cpu=0.86),))
        assert ("RLD321" in verdict(rank(0, GENERATE), rank(1, ALL_REDUCE), engine)) is stands

    @pytest.mark.parametrize(("on", "woken", "stands"), [
        ("socket", 8, False), ("full pipe", 3, False), ("socket", 0, True), ("pipe", 1, True), ("lock", 8, True),
        ("a kind of a newer release", 0, True),
    ])  # fmt: skip
    def test_a_rank_that_gets_or_gives_bytes_is_no_stall(self, on: str, woken: int, stands: bool) -> None:
        slow = rank(1, REWARD)
        thread = replace(slow.threads[0], blocked=Blocked(call="read", on=on), woken=woken)
        assert bool(verdict(rank(0, ALL_REDUCE), replace(slow, threads=(thread,)))) is stands

    @pytest.mark.parametrize(("moved", "stands"), [(1 << 20, False), (200, True)])
    def test_a_checkpoint_that_grows_is_no_stall(self, moved: int, stands: bool) -> None:
        slow = rank(1, SAVE)
        thread = replace(slow.threads[0], moved=moved)
        assert bool(verdict(rank(0, ALL_REDUCE), replace(slow, threads=(thread,)))) is stands

    def test_a_rank_that_waits_for_a_tool_at_work_is_no_stall(self) -> None:
        waits = rank(1, (MAIN, Frame("/usr/lib/python3.11/subprocess.py", 1, "Popen.wait")))
        for cpu, stalled in ((0.9, False), (0.0, True)):
            tool = replace(seen(9, cpu=cpu, name="g++"), parent=101)
            assert bool(verdict(rank(0, ALL_REDUCE), waits, tool)) is stalled

    def test_an_actor_that_ray_has_seen_end(self) -> None:
        waits = seen(7, ALL_REDUCE, role="ray worker", name="ray::Trainer.fit")
        dead = RayActor(kind="Trainer", name="trainer_1", state="DEAD", pid=8)
        (finding,) = verdict(waits, ray=(RayCluster(address="a:1", actors=(dead,)),))["RLD321"]
        assert finding.message.endswith("actor trainer_1 (pid 8) has ended") and finding.severity is Severity.ERROR

    def test_all_ranks_in_one_collective(self) -> None:
        (finding,) = verdict(rank(0, ALL_REDUCE), rank(1, ALL_REDUCE))["RLD321"]
        assert "does not go on" in finding.message and finding.severity is Severity.WARNING

    def test_a_rank_without_a_process(self) -> None:
        (finding,) = verdict(*(rank(n, ALL_REDUCE, size=4) for n in (0, 1, 3)))["RLD321"]
        assert "rank 2 has no process here that this user may see" in finding.message
        assert finding.severity is Severity.ERROR

    def test_ranks_of_another_host_are_not_missed(self) -> None:
        (finding,) = verdict(*(rank(n, ALL_REDUCE, size=4, local=2) for n in (0, 1)))["RLD321"]
        assert finding.severity is Severity.NOTE
        assert "ranks 2-3 were not looked at: on another host, or another user's" in finding.message

    def test_a_rank_of_the_second_of_two_agents_on_one_host(self) -> None:
        def of_agent(number: int, local_rank: int, local: int) -> Seen:
            one = rank(number, ALL_REDUCE, size=5, local=local)
            agent = {"TORCHELASTIC_RUN_ID": "none", "LOCAL_RANK": str(local_rank)}
            return replace(one, environment={**one.environment, **agent})

        (finding,) = verdict(of_agent(0, 0, 1), of_agent(2, 1, 2))["RLD321"]
        assert "rank 1 has no process here that this user may see" in finding.message
        assert finding.severity is Severity.ERROR

    def test_a_rank_between_those_that_one_program_spawned(self) -> None:
        ones = [seen(100 + n, ALL_REDUCE, role="rank", rank=str(n)) for n in (0, 2)]
        (finding,) = verdict(*ones)["RLD321"]
        assert "rank 1 has no process here that this user may see" in finding.message

    def test_two_hosts_judged_together(self) -> None:
        there = [rank(n, ALL_REDUCE, size=4, local=2, host="two") for n in (2, 3)]
        here = [rank(0, ALL_REDUCE, size=4, local=2), rank(1, REWARD, size=4, local=2)]
        (finding,) = verdict(*here, *there, hosts=("one", "two"))["RLD321"]
        assert finding.message.startswith("ranks 0, 2-3 wait in all_reduce")

    def test_ranks_that_wait_for_the_device_behind_a_collective(self) -> None:
        item = (MAIN, Frame("/srv/train.py", 33, "train", "total = loss.item()"))
        processes = [rank(n, item, cpu=1.0, size=4) for n in range(3)]
        (finding,) = verdict(*processes, rank(3, REWARD, size=4))["RLD321"]
        assert finding.message.startswith("ranks 0-2 wait for the device at train.py:33 in train; rank 3")

    def test_a_checkpoint_that_one_rank_saves(self) -> None:
        said = verdict(rank(0, SAVE, state="D"), rank(1, ALL_REDUCE))
        assert list(said) == ["RLD610"]
        assert "the storage does not answer" in said["RLD610"][0].message

    def test_a_weight_sync_that_one_rank_does_not_enter(self) -> None:
        sync = (
            MAIN,
            Frame("/env/lib/python3.11/site-packages/trl/trainer/grpo_trainer.py", 7, "_move_model_to_vllm"),
            Frame(LOGGER, 83, "wrapper"),
            Frame(C10D, 3252, "broadcast"),
        )
        said = verdict(rank(0, sync), rank(1, REWARD))
        assert list(said) == ["RLD406"]
        assert said["RLD406"][0].message.startswith("the weight sync stands: rank 0 waits in broadcast")

    def test_no_stacks_is_not_checked_and_never_a_pass(self) -> None:
        result = judged("RLD321", hang(rank(0, ()), rank(1, ()), lacking=("stacks: py-spy is not installed",)))
        assert result.outcome is Outcome.NOT_CHECKED
        assert "py-spy is not installed" in str(result.reason)

    def test_without_stacks_the_kernel_tells_them_apart(self) -> None:
        def blind(number: int, wait: str) -> object:
            one = rank(number, ())
            return replace(one, threads=(replace(one.threads[0], wait=wait),))

        said = verdict(blind(0, "poll_schedule_timeout"), blind(1, "hrtimer_nanosleep"), lacking=("no py-spy",))
        assert list(said) == ["RLD609"]
        assert "hrtimer_nanosleep" in said["RLD609"][0].message
        assert verdict(blind(0, "futex_wait"), blind(1, "futex_wait")) == {}


class TestEngines:
    client = seen(1, GENERATE)

    def test_a_stopped_engine(self) -> None:
        engine = seen(2, ENGINE_IDLE, role="engine", name="VLLM::EngineCore", state="T")
        said = verdict(self.client, engine)
        assert list(said) == ["RLD609"]
        (finding,) = said["RLD609"]
        assert "VLLM::EngineCore (pid 2) is stopped by a signal" in finding.message
        assert finding.fixes[0].commands == ("kill -CONT 2",)

    def test_a_dead_engine_that_its_client_waits_for(self) -> None:
        said = verdict(self.client, seen(2, role="engine", name="VLLM::EngineCor", state="Z"))
        assert list(said) == ["RLD606"]
        assert "still waits for the engine's answer" in said["RLD606"][0].message

    def test_a_lost_request(self) -> None:
        (finding,) = verdict(seen(1, GENERATE), seen(2, ENGINE_IDLE, role="engine"))["RLD609"]
        assert "a request or its answer is lost" in finding.message and finding.severity is Severity.ERROR

    def test_an_engine_that_steps_is_no_stall(self) -> None:
        step = (ENGINE_IDLE[0], Frame(CORE, 674, "EngineCore.step"))
        assert verdict(self.client, seen(2, step, ENGINE_IDLE, role="engine", cpu=0.7)) == {}

    def test_an_engine_that_the_last_sample_met_between_two_steps_is_no_stall(self) -> None:
        step = (ENGINE_IDLE[0], Frame(CORE, 674, "EngineCore.step"))
        parent = (Frame("/usr/lib/python3.11/multiprocessing/connection.py", 430, "Connection._recv_bytes"),)
        engine = seen(2, ENGINE_IDLE, step, role="engine", cpu=0.7)
        looks_after_it = Thread(id=9, name="WorkerMonitor", frames=parent)
        for threads in ((*engine.threads, looks_after_it), (looks_after_it, *engine.threads)):
            assert verdict(self.client, replace(engine, threads=threads)) == {}

    def test_an_idle_server_is_no_stall(self) -> None:
        loop = (
            Frame("/usr/lib/python3.11/asyncio/runners.py", 1, "run"),
            Frame("/usr/lib/python3.11/selectors.py", 1, "select"),
        )
        assert verdict(seen(1, loop, role="server"), seen(2, ENGINE_IDLE, role="engine")) == {}

    def test_two_threads_inside_one_engine(self) -> None:
        def inside(number: int, name: str, line: int) -> Thread:
            frames = (Frame("/srv/train.py", line, name), *GENERATE[1:])
            return Thread(id=number, name=name, main=number == 1, frames=frames)

        both = replace(self.client, threads=(inside(1, "MainThread", 4), inside(9, "async-eval", 8)))
        said = verdict(both)
        assert "MainThread, async-eval" in said["RLD210"][0].message
        assert "RLD210" not in verdict(replace(self.client, threads=(inside(1, "MainThread", 4),)))
        assert LLM in str(said["RLD210"][0].evidence)


class TestRay:
    def cluster(self, *nodes: dict[str, float], **more: object) -> RayCluster:
        actor = RayActor(kind="Trainer", name="trainer_0", state="PENDING_CREATION")
        return RayCluster(**{"address": "here:6379", "actors": (actor,), "nodes": nodes, **more})  # type: ignore[arg-type]

    def test_more_than_any_node_has(self) -> None:
        asks = (RayDemand(resources={"GPU": 8.0, "CPU": 1.0}),)
        said = verdict(seen(1, REWARD), ray=(self.cluster({"GPU": 4.0, "CPU": 64.0}, demands=asks),))
        assert list(said) == ["RLD602"]
        (finding,) = said["RLD602"]
        assert (
            "asked for 1 CPU, 8 GPU on one node, and no node has that: 1 with at most 64 CPU, 4 GPU" in finding.message
        )
        assert "actor trainer_0 (Trainer) is PENDING_CREATION" in finding.evidence[0].text

    def called(self, pid: int, kind: str, line: int, **more: Any) -> Seen:
        waits = (
            Frame("/srv/actors.py", line, kind, "ray.get(call)"),
            Frame(f"{SITE}/ray/_private/worker.py", 1, "get"),
        )
        return seen(pid, waits, role="ray worker", name=f"ray::{kind}", **more)

    def test_actors_that_call_each_other(self) -> None:
        pair = self.called(7, "Trainer.step", 12), self.called(8, "Rollout.generate", 6)
        alive = tuple(RayActor(kind=kind, state="ALIVE", pid=pid) for pid, kind in ((7, "Trainer"), (8, "Rollout")))
        both = self.cluster({"CPU": 8.0}, actors=alive)
        (finding,) = verdict(*pair, ray=(both,))["RLD609"]
        assert finding.message == (
            "nothing moved for 5 s: 2 Ray actors are in calls that wait for each other, and no other actor is in any: "
            "ray::Trainer.step (pid 7) waits for Ray at actors.py:12 in step; ray::Rollout.generate (pid 8) "
            "waits for Ray at actors.py:6 in generate"
        )

    def test_of_actors_in_a_ring_one_is_the_incidents_and_not_the_driver(self) -> None:
        pair = self.called(7, "Trainer.step", 12), self.called(8, "Rollout.generate", 6)
        alive = tuple(RayActor(kind=kind, state="ALIVE", pid=pid) for pid, kind in ((7, "Trainer"), (8, "Rollout")))
        driver = replace(self.called(3, "main", 40), role="ray driver", name="main.py")
        record = hang(driver, *pair, ray=(self.cluster({"CPU": 8.0}, actors=alive),))
        assert incident_of(record, findings("RLD609", record)).first_rank == "ray::Trainer.step (pid 7)"

    def test_an_actor_that_waits_for_what_another_holds(self) -> None:
        saves = seen(7, REWARD, role="ray worker", name="ray::Saver.save")
        on = Blocked("flock", "lock", "/srv/ckpt.lock", (Holder(8, "ray::Saver"),))
        saves = replace(saves, threads=(replace(saves.threads[0], blocked=on),))
        holds = seen(8, (), role="ray worker", name="ray::Saver")
        (finding,) = verdict(saves, holds)["RLD609"]
        assert "it waits for the lock on /srv/ckpt.lock, held by ray::Saver (pid 8)" in finding.message

    def test_actors_that_may_wait_for_something_else(self) -> None:
        pair = self.called(7, "Trainer.step", 12), self.called(8, "Rollout.generate", 6)
        alive = tuple(RayActor(kind=kind, state="ALIVE", pid=pid) for pid, kind in ((7, "Trainer"), (8, "Rollout")))
        both = self.cluster({"CPU": 8.0}, actors=alive)
        elsewhere = replace(both, actors=(*alive, RayActor(kind="Judge", state="ALIVE", pid=70)))
        queue = replace(both, demands=(RayDemand(resources={"CPU": 1.0}),))
        loop = replace(pair[0].threads[0], id=9, name="AsyncIO Thread: default", main=False, frames=())
        hides = replace(pair[0], threads=(*pair[0].threads, loop))
        for processes, cluster in ((pair, elsewhere), (pair, queue), ((hides, pair[1]), both)):
            assert "wait for each other" not in str(verdict(*processes, ray=(cluster,)))
        works = seen(9, REWARD, role="ray worker", name="ray::Judge.score", cpu=0.9)
        assert verdict(*pair, works, ray=(both,)) == {}

    def test_what_others_hold_is_a_warning(self) -> None:
        reported = self.cluster(
            {"GPU": 8.0}, demands=(RayDemand(resources={"GPU": 8.0}),), total={"GPU": 8.0}, available={"GPU": 0.0}
        )
        (finding,) = verdict(seen(1, REWARD), ray=(reported,))["RLD602"]
        assert finding.severity is Severity.WARNING and "0 GPU free of 8 GPU" in finding.message

    def test_a_task_that_no_node_can_take(self) -> None:
        asks = (RayDemand(resources={"CPU": 1.0, "judge": 1.0}, count=2),)
        said = verdict(seen(1, REWARD), ray=(self.cluster({"CPU": 8.0}, actors=(), demands=asks),))
        assert list(said) == ["RLD602"]
        assert "asked for 1 CPU, 1 judge on one node, and no node has that" in said["RLD602"][0].message
        grows = self.cluster({"CPU": 8.0}, actors=(), demands=asks, grows=True)
        assert "RLD602" not in verdict(seen(1, REWARD), ray=(grows,))

    def test_tasks_that_wait_for_their_turn_are_a_healthy_queue(self) -> None:
        asks = (RayDemand(resources={"CPU": 1.0}, count=500),)
        free = {"total": {"CPU": 8.0}, "available": {"CPU": 0.0}}
        queue = self.cluster({"CPU": 8.0}, actors=(), demands=asks, **free)
        assert "RLD602" not in verdict(seen(1, REWARD), ray=(queue,))

    def test_a_strict_group_that_fits_bundle_by_bundle_and_never_as_a_whole(self) -> None:
        group = RayBundles(name="pool", state="PENDING", strategy="STRICT_SPREAD", bundles=({"CPU": 1.0},) * 3)
        two = self.cluster({"CPU": 8.0}, {"CPU": 8.0}, actors=(), bundles=(group,))
        (finding,) = verdict(seen(1, REWARD), ray=(two,))["RLD602"]
        assert "asks for 3 bundles of 1 CPU, each bundle on a node of its own (STRICT_SPREAD)" in finding.message
        assert "2 nodes of the cluster can never hold that: 3 nodes are needed, and 2 have" in finding.message
        assert finding.severity is Severity.ERROR
        three = self.cluster({"CPU": 8.0}, {"CPU": 8.0}, {"CPU": 1.0}, actors=(), bundles=(group,))
        (finding,) = verdict(seen(1, REWARD), ray=(three,))["RLD602"]
        assert "others hold" in finding.message and finding.severity is Severity.WARNING

    def test_groups_of_one_job_that_the_cluster_cannot_hold_together(self) -> None:
        whole = RayBundles(name="trainer", state="CREATED", strategy="STRICT_PACK", bundles=({"GPU": 8.0},), job="01")
        second = replace(whole, name="engines", state="PENDING")
        (finding,) = verdict(seen(1, REWARD), ray=(self.cluster({"GPU": 8.0}, actors=(), bundles=(whole, second)),))[
            "RLD602"
        ]
        assert finding.severity is Severity.ERROR
        assert "beside the 1 group that its job has, and the 1 node of the cluster can never hold" in finding.message
        others = (replace(whole, job="02"), second)
        (finding,) = verdict(seen(1, REWARD), ray=(self.cluster({"GPU": 8.0}, actors=(), bundles=others),))["RLD602"]
        assert finding.severity is Severity.WARNING

    def test_a_placement_group_of_too_many(self) -> None:
        group = RayBundles(name="pool", state="PENDING", strategy="STRICT_PACK", bundles=({"GPU": 16.0},))
        (finding,) = verdict(seen(1, REWARD), ray=(self.cluster({"GPU": 8.0}, actors=(), bundles=(group,)),))["RLD602"]
        assert "16 GPU on one node" in finding.message

    def test_a_cluster_in_which_all_is_placed(self) -> None:
        alive = RayActor(kind="Rollout", state="ALIVE", pid=2)
        elsewhere = (MAIN, Frame("/srv/train.py", 50, "other"))
        assert verdict(seen(1, REWARD, elsewhere), ray=(self.cluster({"GPU": 8.0}, actors=(alive,)),)) == {}


class TestFlightRecorders:
    def record(self, number: int, last: int, state: str = "scheduled") -> FlightRecord:
        frame = Frame("/srv/train.py", 12, "train")
        newest = Collective(group="0", number=last, operation="all_reduce", state=state, frame=frame)
        return FlightRecord(file=f"/tmp/rank_{number}", written=1.0, rank=str(number), last=(newest,))

    records = property(lambda self: (self.record(0, 27), self.record(1, 27), self.record(2, 26, "completed")))
    moves = seen(1, REWARD, (MAIN, Frame("/srv/train.py", 50, "other")))

    def test_the_rank_that_did_not_begin_it(self) -> None:
        (finding,) = findings("RLD321", hang(seen(1, REWARD), records=self.records))
        assert finding.message == (
            "in group 0 ranks 0-1 began all_reduce number 27 at /srv/train.py:12 in train, and rank 2 did not: "
            "the last there is all_reduce number 26"
        )

    def test_dumps_from_before_say_nothing_of_a_run_that_goes_on(self) -> None:
        assert findings("RLD321", hang(self.moves, records=self.records)) == ()

    def test_dumps_count_where_ranks_wait_for_one_that_moves(self) -> None:
        record = hang(rank(0, ALL_REDUCE), rank(1, REWARD, SAVE), records=self.records)
        assert len(findings("RLD321", record)) == 1

    def crossed(self, rank: str, *begun: tuple[str, int, str]) -> FlightRecord:
        last = tuple(Collective(group=g, number=n, operation="all_reduce", state=state) for g, n, state in begun)
        groups: dict[str, tuple[int, ...]] = {"tp": (0, 1, 2), "dp": (0, 1, 2)}
        return FlightRecord(file=f"/tmp/rank_{rank}", written=1.0, rank=rank, groups=groups, last=last)

    def test_two_groups_in_opposite_order_are_a_ring(self) -> None:
        others = [("tp", 5, "scheduled"), ("dp", 4, "completed")]
        records = (
            self.crossed("0", *others),
            self.crossed("1", ("tp", 4, "completed"), ("dp", 5, "scheduled")),
            self.crossed("2", *others),
        )
        waiting = [rank(n, ALL_REDUCE, size=3, log=IN_PACE) for n in range(3)]
        (finding,) = findings("RLD321", hang(*waiting, records=records))
        assert finding.message == (
            "ranks wait for each other: rank 0 waits in all_reduce number 5 of group tp for rank 1, rank 1 waits in "
            "all_reduce number 5 of group dp for ranks 0, 2; the collectives are called in another order by rank 1 "
            "than by ranks 0, 2"
        )
        assert finding.severity is Severity.ERROR  # no slow step ends a ring

    def test_two_groups_of_which_one_rank_is_late_are_no_ring(self) -> None:
        records = (
            self.crossed("0", ("tp", 5, "scheduled")),
            self.crossed("1", ("tp", 4, "completed")),
            self.crossed("2", ("tp", 5, "scheduled")),
        )
        assert StalledRun(hang(records=records)).cycle == []

    def test_a_ring_of_pairs_whose_records_name_no_members(self) -> None:
        # As gloo's: who has used a group belongs to it.
        records = tuple(
            FlightRecord(
                file=f"/tmp/rank_{one}",
                written=1.0,
                rank=str(one),
                last=(
                    Collective(group=f"pair{one}", number=5, operation="all_reduce", state="scheduled"),
                    Collective(group=f"pair{(one - 1) % 3}", number=4, operation="all_reduce", state="completed"),
                ),
            )
            for one in range(3)
        )
        (finding,) = findings("RLD321", hang(*(rank(n, ALL_REDUCE, size=3) for n in range(3)), records=records))
        assert finding.message.startswith(
            "ranks wait for each other: rank 0 waits in all_reduce number 5 of group pair0"
        )
        assert finding.message.endswith("for rank 0; each calls these collectives in an order of its own")

    def test_one_number_with_two_operations(self) -> None:
        other = Collective(group="0", number=27, operation="broadcast", state="scheduled")
        records = (self.record(0, 27), replace(self.record(1, 27), last=(other,)))
        (finding,) = findings("RLD321", hang(seen(1, REWARD), records=records))
        assert finding.message == (
            "collective number 27 of group 0 is not the same on all ranks: all_reduce on rank 0, broadcast on rank 1"
        )

    def test_recorders_that_agree(self) -> None:
        assert findings("RLD321", hang(seen(1, REWARD), records=(self.record(0, 5), self.record(1, 5)))) == ()


def test_nothing_that_moves_in_a_plain_program_says_where_it_stands() -> None:
    (finding,) = verdict(seen(1, REWARD))["RLD609"]
    assert finding.severity is Severity.ERROR
    assert "nothing moved for 5 s: train.py (pid 1): is at reward.py:5 in compute_score" in finding.message


def test_a_debugger_is_reported_from_a_signal() -> None:
    (finding,) = verdict(seen(1, REWARD, state="t"))["RLD609"]
    assert "held by a debugger" in finding.message


def test_a_poll_is_no_movement() -> None:
    deeper = (*ALL_REDUCE[:-1], Frame(C10D, 3260, "all_reduce"))
    assert "RLD321" in verdict(rank(0, ALL_REDUCE, deeper), rank(1, REWARD))
