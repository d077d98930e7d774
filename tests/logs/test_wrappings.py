"""However a log is kept or pasted, the verdict, the code and the rank stay the same."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from rldoctor.logs.layers import learned
from rldoctor.logs.triage import triage_text

from .excerpts import HEALTHY, OUT_OF_MEMORY, REWARD_RAISES, ranked
from .raising import traceback
from .wrapping import WRAPPINGS, wrapped

REAL = sorted(Path(__file__).with_name("real").glob("*.log"))
# One pair in so many is tried, by a hash of its names: a new log changes nothing for the others. `make wrappings` tries
# them all.
ONE_IN = 8
# What a wrapping takes away or adds: where the lines of a signal's dump ended; a machine that would explain the rank
# that did not arrive.
LOST = {("flattened", "ray_segfault"), ("an inventory", "dist_rank_hangs")}
Verdict = tuple[str, str | None, str | None]


@cache
def verdict(text: str) -> Verdict:
    report = triage_text(text)
    assert report.incident is not None
    code = report.findings[0].code if report.findings else None
    rank = report.incident.first_rank
    # A wrapping may name the machine besides.
    return report.incident.kind, code, rank.partition(", on ")[0] if rank is not None else None


@cache
def plain(path: Path) -> Verdict:
    return verdict(path.read_text("utf-8"))


def pairs(name: str) -> list[Path]:
    """The logs that keep their verdict in a wrapping."""
    return [path for path in REAL if (name, path.stem) not in LOST]


def is_tried(name: str, path: Path) -> bool:
    """Whether a quick run tries a log in a wrapping."""
    return crc32(f"{name}/{path.stem}".encode()) % ONE_IN == 0


@pytest.mark.parametrize("name", WRAPPINGS)
def test_a_failure_is_the_same_in_every_wrapping(name: str) -> None:
    for path in pairs(name):
        if is_tried(name, path):
            assert verdict(wrapped(name, path.read_text("utf-8"))) == plain(path), path.stem


def test_a_whole_frame_may_have_the_width_of_a_fold() -> None:
    path = Path(__file__).with_name("real") / "dist_rank_hangs.log"
    assert verdict(wrapped("folded and padded", path.read_text("utf-8"))) == plain(path)


BEGUN = HEALTHY.replace("DONE\n", "")
XID = "[Sat Sep  5 03:51:10 2026] NVRM: Xid (PCI:0000:9c:00): {}\n"
# Forms that a run says its end in, ends that are none of its own, and a run behind another one.
SAID = {
    "a raylet": BEGUN
    + traceback("ray.exceptions.LocalRayletDiedError: The task's local raylet died. Check raylet.out"),
    "a registry": BEGUN
    + traceback("KeyError: 'grpo'", "swift/plugin/loss.py f", code="return LOSS_MAPPING[loss_type]"),
    "no step": BEGUN + traceback("AssertionError", "megatron/core/o.py f", code="assert self.lr_decay_steps > 0"),
    "a job": BEGUN + traceback("areal.infra.utils.launcher.JobException: Job me:llm_server JobState.FAILED at node x"),
    "a device": BEGUN + "".join(XID.format(f"{number}, pid=21012, name=python") for number in (48, 63, 94, 154)),
    "others' jobs": BEGUN + "1234567  grpo  gpu  CANCELLED by 1001  0:0\n1234568  grpo  gpu  COMPLETED  0:0\n",
    "a search": BEGUN + "trial 3 was stopped by ASHA\n",
    "a tool": BEGUN + "tool container swe-17 OOMKilled (exit 137), observation returned to the policy\n",
    "an old run": BEGUN + OUT_OF_MEMORY + "run sh: `python rlhf.py`\n" + BEGUN + REWARD_RAISES,
}
# A logger gave these lines a level of no weight.
LIGHT = {("loguru", "a device"), ("a launcher's logger", "a device")}


@pytest.mark.parametrize("name", WRAPPINGS)
def test_what_a_log_says_of_an_end_is_the_same_in_every_wrapping(name: str) -> None:
    first = list(WRAPPINGS).index(name) % 3
    for said, text in list(SAID.items())[first::3]:
        if (name, said) not in LIGHT:
            assert verdict(wrapped(name, text)) == verdict(text), said


def test_a_colour_that_all_lines_of_a_short_log_have_is_no_prefix() -> None:
    text = traceback("AssertionError", "megatron/core/o.py f", code="assert self.lr_decay_steps > 0")
    assert verdict(wrapped("coloured", text)) == verdict(text)


def test_a_width_of_which_few_lines_fill_a_sample() -> None:
    path = Path(__file__).with_name("real") / "vllm_unknown_arch.log"
    assert verdict(wrapped("boxed", path.read_text("utf-8"))) == plain(path)


def test_a_frame_may_have_a_title() -> None:
    path = Path(__file__).with_name("real") / "trl_unknown_arg.log"
    top, *more = wrapped("boxed", path.read_text("utf-8")).splitlines(keepends=True)
    assert verdict("".join([top.replace("─────────", "─ train ─", 1), *more])) == plain(path)


def test_a_table_in_a_frame_does_not_keep_the_frame() -> None:
    table = "┏━━━━━━┳━━━━━━┓\n┃ kl   ┃ loss ┃\n┡━━━━━━╇━━━━━━┩\n│ 0.01 │ 0.2  │\n└──────┴──────┘\n"
    assert verdict(wrapped("boxed", table + REWARD_RAISES)) == verdict(REWARD_RAISES)


def test_a_page_that_a_run_prints_is_none_of_its_own() -> None:
    shown = "reward: the judge answered\n<html>\n<pre>ValueError: no <b>score</b><br>\n</pre>\n</html>\n"
    assert verdict(shown + HEALTHY) == verdict(HEALTHY)


@pytest.mark.parametrize("tasks", ["task 0", "tasks 0-7", "tasks 0,2"])
def test_a_scheduler_that_names_its_tasks_names_no_rank(tasks: str) -> None:
    ended = f"srun: error: gpu-07: {tasks}: Exited with exit code 1\n"
    assert verdict(REWARD_RAISES + ended) == verdict(REWARD_RAISES)
    assert verdict(HEALTHY + ended)[0] == "crashed"


def test_a_warning_of_what_may_come_is_none() -> None:
    warned = (
        "WARNING 11-20 21:24:33 [utils.py:20] Found ulimit of 20000 and failed to automatically increase. This can "
        "cause fd limit errors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n\n"
    )
    assert verdict(warned + HEALTHY + "command terminated with exit code 1\n")[1] == "RLD901"


@pytest.mark.parametrize("name", WRAPPINGS)
def test_a_run_that_finished_has_finished_in_every_wrapping(name: str) -> None:
    assert verdict(wrapped(name, HEALTHY)) == ("finished", None, None)


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_plain_log_has_no_layers(path: Path) -> None:
    assert learned(path.read_bytes()) == []


@pytest.mark.parametrize("text", [HEALTHY * 30, "step:1 - actor/entropy:0.3 - critic/score/mean:0.5\n" * 30])
def test_lines_that_look_alike_are_no_prefix(text: str) -> None:
    assert learned(text.encode()) == []


def test_a_table_of_samples_is_not_unpacked() -> None:
    rows = "".join(f"│ what is {i}? │ torch.OutOfMemoryError: CUDA out of memory. │ 0.{i} │\n" for i in range(40))
    table = "╭────┬────┬────╮\n" + rows + "╰────┴────┴────╯\n"
    lines = HEALTHY.splitlines(keepends=True)
    assert verdict("".join([*lines[:3], table, *lines[3:]])) == ("finished", None, None)


def _entry(pod: str, minute: int, text: str) -> str:
    labels = {"labels": {"pod_name": pod}}
    return json.dumps({"textPayload": text, "timestamp": f"2026-03-02T10:{minute:02d}:00Z", "resource": labels})


def test_pods_that_write_in_turns_are_taken_apart() -> None:
    queues = {"trainer-0": REWARD_RAISES.splitlines(), "trainer-1": OUT_OF_MEMORY.splitlines()}
    lines = [_entry(pod, i, queue[i]) for i in range(10) for pod, queue in queues.items() if i < len(queue)]
    incident = triage_text("\n".join(lines) + "\n").incident
    assert incident is not None and incident.exception == "KeyError: 'answer'"
    assert "torch.OutOfMemoryError" in incident.cascades[0] and "trainer-1" in incident.cascades[0]


def test_containers_of_a_pod_are_taken_apart() -> None:
    lines = OUT_OF_MEMORY.splitlines()
    beside = "[pod/trainer-0/istio-proxy] 2026-03-02T10:00:00Z info xdsproxy connected to upstream XDS server"
    incident = triage_text("".join(f"[pod/trainer-0/main] {line}\n{beside}\n" for line in lines)).incident
    assert incident is not None and (incident.exception or "").startswith("torch.OutOfMemoryError")


def test_metrics_with_keys_are_no_records() -> None:
    assert learned("".join(f'step={i} loss=0.{i} note="all well" lr=1e-6\n' for i in range(1, 40)).encode()) == []


@pytest.mark.parametrize("mark", ["> ", ">", "  > "])
def test_a_single_quoted_line(mark: str) -> None:
    line = "ValueError: Image features and image tokens do not match: tokens: 1333, features 1332."
    assert verdict(f"{mark}{line}\n") == verdict(f"{line}\n") == ("crashed", "RLD217", None)
    assert learned(b">>> import torch\n>>> torch.zeros(1)\n") == []


def test_a_quotation_among_other_lines() -> None:
    quoted = "".join(f"> {line}\n" for line in REWARD_RAISES.splitlines())
    assert verdict(f"Ann wrote:\n\n{quoted}\nHave you tried a newer release?\n") == verdict(REWARD_RAISES)
    assert verdict(quoted + "$ pip list\nPackage Version\nray     2.9.0\n" * 12) == verdict(REWARD_RAISES)
    assert learned(f"{HEALTHY}{quoted}".encode()) == []  # a run shows it


def test_one_label_in_front_of_all_lines_is_no_rank() -> None:
    """A launcher that a scheduler started as its task 3 has ranks of its own."""
    labelled = "".join(f" 3: {line}\n" for line in ranked(5, OUT_OF_MEMORY).splitlines())
    assert verdict(labelled)[2] == "5"


def test_a_patch_that_adds_a_log_without_a_traceback() -> None:
    added = "".join(f"+{line}\n" for line in HEALTHY.splitlines())
    assert verdict(added) == verdict(HEALTHY)


def test_a_fold_through_a_number() -> None:
    text = (Path(__file__).with_name("real") / "dist_rank_exit.log").read_text("utf-8")
    assert verdict(wrapped("folded and padded", text)) == verdict(text)


def test_the_longest_of_a_few_lines_is_no_fold() -> None:
    # The first line has by chance the width of a terminal.
    refused = "Could not override 'actor_rollout_ref.rollout.max_model_lenn', no such key ...."[:79] + "s"
    told = "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."
    assert len(refused) == 80
    assert learned(f"{refused}\n{told}\n".encode()) == []
    assert learned(f"{'a' * 79}b\nrest of the word\nshort\n".encode())


def test_records_of_one_kind_and_of_one_width_are_no_fold() -> None:
    rows = [f"loss {step} ".ljust(99, "x") + "a" for step in range(3)]
    assert learned("\n".join([*rows, "end of the epoch", ""]).encode()) == []


@pytest.mark.parametrize("fields", [("prompt", "answer"), ("problem", "solution"), ("role", "content")])
@pytest.mark.parametrize("between", [", ", ",\n ", "}\n"])
def test_a_data_set_that_quotes_a_failure_is_no_log(fields: tuple[str, str], between: str) -> None:
    asked, told = fields
    row = {asked: "user", told: "Mend this:\n" + REWARD_RAISES}
    rows = between.replace("}", "").join(json.dumps(one) for one in (row, {asked: "user", told: "4"}))
    text = rows if "}" in between else f"[{rows}]"
    assert verdict(text + "\n")[0] == "unknown"
    assert verdict(json.dumps({"messages": [row]}))[0] == "unknown"


def test_an_array_of_prompts_is_no_log() -> None:
    prompts = [
        f"Mend this:\nTraceback (most recent call last):\n{OUT_OF_MEMORY[-300:]}",
        "What is 2 + 2?",
        "And 3 + 3?",
    ]
    assert learned(json.dumps([prompt.rstrip() for prompt in prompts]).encode()) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 700 + "1" + "}" * 700,
        json.dumps({"result": [{"line": "x", "stream": {}, "values": [["1"], 2]}]}),
        f"@@ -1,{'9' * 5000} +1,2 @@\n a\n b\n@@ -8 +9 @@\n",
    ],
    ids=["nested deeply", "a stream whose lines are none", "a hunk without an end"],
)
def test_what_no_store_and_no_diff_writes_is_read_all_the_same(text: str) -> None:
    assert verdict(text + "\n")[0] == "unknown"


def test_steps_that_begin_alike_are_no_prefix() -> None:
    said = ("Segmentation fault (core dumped), scored 0", "timed out", "KeyError: 'x' in its code", "done")
    steps = "".join(f"step {n} | reward 0.4{n} | tool: {text}\n" for n, text in enumerate(said))
    assert learned(steps.encode()) == []
