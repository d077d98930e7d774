"""Exceptions as Python, Ray, torch's DataLoader and process pools print them."""

from __future__ import annotations

import traceback

import pytest

from rldoctor.logs.dumps import DumpParser, SummaryParser
from rldoctor.logs.model import Frame, LoggedException, Origin
from rldoctor.logs.prefixes import parse
from rldoctor.logs.tracebacks import TracebackParser
from rldoctor.logs.triage import triage_text


def read(text: str) -> LoggedException:
    lines = text.strip("\n").split("\n")
    parser = TracebackParser(Origin(), "log")
    parser.begin(parse(lines[0]), 1)
    for number, line in enumerate(lines[1:], 2):
        if not parser.feed(parse(line), number):
            break
    found = parser.result()
    assert found is not None
    return found


def links(exception: LoggedException) -> list[tuple[str, str]]:
    return [(link.type, link.message) for link in exception.chain]


def test_what_python_prints_comes_back() -> None:
    def inner() -> None:
        raise ZeroDivisionError("division by zero")

    try:
        try:
            inner()
        except ZeroDivisionError as error:
            error.add_note("while dividing") if hasattr(error, "add_note") else None
            raise KeyError("answer") from error
    except KeyError:
        found = read(traceback.format_exc())
    assert [type_ for type_, _ in links(found)] == ["ZeroDivisionError", "KeyError"]
    assert found.message == "'answer'"
    assert found.chain[0].frames[-1].function == "inner"
    assert found.chain[0].frames[-1].code == 'raise ZeroDivisionError("division by zero")'
    assert found.chain[0].message.startswith("division by zero")


def test_of_an_endless_chain_the_beginning_and_the_end_are_kept() -> None:
    one = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: {}\n'
    joint = "\nDuring handling of the above exception, another exception occurred:\n\n"
    found = links(read(joint.join(one.format(number) for number in range(3000))))
    assert len(found) == 41 and [found[0], found[-1]] == [("ValueError", "0"), ("ValueError", "2999")]


def test_an_exception_during_handling_is_chained_too() -> None:
    try:
        try:
            int("x")
        except ValueError:
            raise RuntimeError("second") from None
    except RuntimeError:
        assert links(read(traceback.format_exc())) == [("RuntimeError", "second")]
    try:
        try:
            int("x")
        except ValueError:
            int("y")
    except ValueError:
        assert len(read(traceback.format_exc()).chain) == 2


def test_a_deep_recursion_keeps_its_ends() -> None:
    def deep(n: int) -> int:
        return deep(n - 1) if n else 1 // n

    try:
        deep(200)
    except ZeroDivisionError:
        found = read(traceback.format_exc())
    assert found.type == "ZeroDivisionError"
    assert found.frames[0].function == "test_a_deep_recursion_keeps_its_ends"
    assert found.frames[-1].function == "deep"


RAY = """
Traceback (most recent call last):
  File "main.py", line 10, in <module>
    ray.get(x)
    ^^^^^^^^^^
  File "/venv/lib/python3.10/site-packages/ray/_private/worker.py", line 1055, in get_objects
    raise value
ray.exceptions.RayTaskError(OutOfMemoryError): ray::main_task() (pid=1, ip=10.0.0.1)
  File "/home/user/verl/verl/trainer/main_ppo.py", line 99, in main_task
    trainer.fit()
ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.update() (pid=7, ip=10.0.0.2, actor_id=ab, repr=<verl.X>)
  File "/home/user/verl/verl/workers/actor.py", line 5, in update
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 13.91 GiB.
"""


def test_rays_nested_tracebacks_end_in_the_worker_that_failed() -> None:
    found = read(RAY)
    inner = found.chain[0]
    assert (inner.type, inner.origin) == ("torch.OutOfMemoryError", Origin(None, "WorkerDict", "7", "10.0.0.2"))
    assert inner.frames == (Frame("/home/user/verl/verl/workers/actor.py", 5, "update", "loss.backward()"),)
    assert [link.frames[0].function for link in found.chain] == ["update", "main_task", "<module>"]


def test_a_data_loaders_worker_sends_its_traceback_along() -> None:
    found = read(
        """
Traceback (most recent call last):
  File "a.py", line 6, in <module>
    f()
RuntimeError: Caught RuntimeError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/x/worker.py", line 349, in _worker_loop
    data = fetcher.fetch(index)
RuntimeError: unable to allocate shared memory
"""
    )
    assert links(found)[0] == ("RuntimeError", "unable to allocate shared memory")
    assert found.message == "Caught RuntimeError in DataLoader worker process 0."


def test_a_process_pools_remote_traceback() -> None:
    found = read(POOL)
    assert [link.frames[-1].file for link in found.chain] == ["/x/process.py", "a.py"]


POOL = '''
Traceback (most recent call last):
  File "/x/process.py", line 256, in _process_worker
    r = call_item.fn()
ValueError: bad sample
"""

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "a.py", line 6, in <module>
    f()
ValueError: bad sample
'''


def test_an_exception_group_with_its_members() -> None:
    found = read(
        """
  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 28, in <module>
  |     raise ExceptionGroup("eg", [ValueError(1), TypeError("x")])
  | ExceptionGroup: eg (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "b.py", line 3, in f
    |     g()
    | TypeError: x
    +------------------------------------
"""
    )
    assert (found.type, found.message) == ("ExceptionGroup", "eg (2 sub-exceptions)")
    assert [(m.type, m.message) for m in found.group] == [("ValueError", "1"), ("TypeError", "x")]
    assert found.group[1].frames[0].file == "b.py"


def test_multi_line_messages_end_where_another_line_begins() -> None:
    found = read(
        """
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    x()
pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig
  Value error, max_num_batched_tokens (64) is smaller than max_model_len (2048).
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
  0%|          | 0/4 [00:01<?, ?it/s]
"""
    )
    assert "max_num_batched_tokens (64)" in found.message
    assert "0/4" not in found.message


def test_a_loggers_lines_belong_to_its_own_message_only() -> None:
    tag = "(EngineCore pid=22) ERROR 11-20 20:23:37 [core.py:1510] "
    found = read(
        f"{tag}Traceback (most recent call last):\n"
        f'{tag}  File "/x/core.py", line 1, in f\n{tag}    g()\n{tag}ValueError: first\n{tag}second line\n'
        "(EngineCore pid=22) INFO 11-20 20:23:38 [core.py:9] something else\n"
    )
    assert (found.type, found.message) == ("ValueError", "first\nsecond line")


def test_two_processes_that_print_the_same_without_prefixes() -> None:
    found = read(
        """
Traceback (most recent call last):
Traceback (most recent call last):
  File "a.py", line 3, in <module>
  File "a.py", line 3, in <module>
    f()
    f()
RuntimeError: Distributed package doesn't have NCCL built in
RuntimeError: Distributed package doesn't have NCCL built in
"""
    )
    assert links(found) == [("RuntimeError", "Distributed package doesn't have NCCL built in")]
    assert len(found.frames) == 1


def test_the_interpreters_own_dump_turns_its_frames_round() -> None:
    parser = DumpParser(parse("Fatal Python error: Segmentation fault"), 1, "log")
    assert (parser.at_start, parser.confirmed) == (True, False)
    dump = (
        "",
        "Thread 0x00007f (most recent call first):",
        '  File "/x/threading.py", line 320 in wait',
        "Current thread 0x00007ff18fe23b80 (most recent call first):",
        '  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at',
        '  File "/home/user/rl/train.py", line 7 in <module>',
        "Extension modules: numpy",
    )
    for number, text in enumerate(dump, 2):
        assert parser.feed(parse(text), number)
    assert not parser.feed(parse("Aborted (core dumped)"), 9)
    assert (parser.confirmed, parser.first, parser.last) == (True, 1, 8)
    found = parser.result()
    assert (found.type, found.message) == ("Fatal Python error", "Segmentation fault")
    assert [frame.function for frame in found.frames] == ["<module>", "string_at"]


def test_cpp_terminate_with_what_it_says() -> None:
    parser = DumpParser(parse("terminate called after throwing an instance of 'c10::DistBackendError'"), 1, "log")
    assert parser.feed(parse("  what():  [Rank 3] Watchdog caught"), 2)
    assert not parser.feed(parse(""), 3)
    assert parser.confirmed
    assert (parser.result().type, parser.result().message) == ("c10::DistBackendError", "[Rank 3] Watchdog caught")


def test_torchelastics_summary_names_the_rank() -> None:
    parser = SummaryParser(1)
    for text in ("[0]:", "  time      : 2026-11-20_20:49:05", "  rank      : 11 (local_rank: 3)"):
        assert parser.feed(parse(text))
    parser.feed(parse("  exitcode  : -11 (pid: 7599)  (SIGSEGV)"))
    reported = parser.result("run.log")
    assert (reported.rank, reported.local_rank, reported.pid, reported.code) == ("11", "3", "7599", -11)


def test_a_notebooks_traceback() -> None:
    found = read(
        """
RuntimeError                              Traceback (most recent call last)
Cell In[1], line 6
      5 import torch
----> 6 from unsloth import FastLanguageModel
      7 from datasets import load_dataset

File ~/lib/python3.11/site-packages/unsloth/models/loader.py:376, in FastLanguageModel.from_pretrained(model_name, x)
    375 if fast_inference:
--> 376     model, tokenizer = dispatch_model(model_name)
    377

/usr/local/lib/python3.11/dist-packages/unsloth/save.py in save(self)
---> 12     raise RuntimeError("no")
RuntimeError: no
"""
    )
    assert links(found) == [("RuntimeError", "no")]
    assert [frame.function for frame in found.frames] == ["<module>", "FastLanguageModel.from_pretrained", "save"]
    assert found.frames[1].line == 376
    assert found.frames[2].line == 12


def test_loguru_marks_a_frame() -> None:
    text = 'Traceback (most recent call last):\n> File "/opt/run.py", line 7, in main\n    run()\nValueError: no'
    assert read(text).frames[0].function == "main"


def test_the_hubs_reason_stands_behind_an_empty_line() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/site-packages/huggingface_hub/utils/_http.py", line 1, in hf_raise_for_status\n'
        "    raise\n"
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-2)\n\n"
        "Cannot access gated repo for url https://huggingface.co/meta-llama/Llama-3.2-1B/resolve/main/config.json.\n"
        "Access to model meta-llama/Llama-3.2-1B is restricted.\n\n"
        "uploading the logs\n"
    )
    incident = triage_text(text).incident
    assert incident is not None and "GatedRepoError" in str(incident.exception)
    assert [finding.code for finding in triage_text(text).findings] == ["RLD115"]


def test_without_a_colon_there_is_no_message() -> None:
    found = read(
        'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    assert x\nAssertionError\nplease help'
    )
    assert (found.type, found.message) == ("AssertionError", "")


def test_compiled_code_carries_the_traceback_of_what_it_called_back() -> None:
    found = read(
        'Traceback (most recent call last):\n  File "train.py", line 8, in <module>\n    step(state)\n'
        "xla.RuntimeError: INTERNAL: callback failed: Traceback (most recent call last):\n"
        '  File "reward.py", line 5, in score\n    return table[row]\nKeyError: 7'
    )
    assert links(found) == [("KeyError", "7"), ("xla.RuntimeError", "INTERNAL: callback failed:")]


# rich wraps what is wider than the terminal wherever that is.
BOXED = """\
╭───────────── Traceback (most recent call last) ─────────────╮
│ /data/chat/training/step3/main.py:518 in <module>           │
│                                                             │
│   517 if __name__ == "__main__":                            │
│ ❱ 518 │   main()                                            │
│                                                             │
│ /usr/local/lib/python3.10/site-packages/deepspeed/runtime/h │
│ ybrid_engine.py:207 in                                      │
│ generate                                                    │
│                                                             │
│ ❱ 207 │   │   self._fuse_lora(self.layer_params[layer_id])  │
╰─────────────────────────────────────────────────────────────╯
RuntimeError: The size of tensor a (5120) must match the size of tensor b (20480) at non-singleton dimension 0
"""


def test_a_box_of_rich_is_a_traceback() -> None:
    found = read(BOXED)
    assert found.frames == (
        Frame("/data/chat/training/step3/main.py", 518, "<module>", "main()"),
        Frame(
            "/usr/local/lib/python3.10/site-packages/deepspeed/runtime/hybrid_engine.py",
            207,
            "generate",
            "self._fuse_lora(self.layer_params[layer_id])",
        ),
    )
    assert found.type == "RuntimeError"
    assert [finding.code for finding in triage_text(f"[2026-03-02 10:00:01] start\n{BOXED}").findings] == ["RLD111"]


def test_boxes_of_rich_that_grew_from_each_other() -> None:
    first = BOXED.replace("RuntimeError: The size", "ValueError: The size")
    said = "During handling of the above exception, another exception occurred:"
    assert [kind for kind, _ in links(read(f"{first}\n{said}\n\n{BOXED}"))] == ["ValueError", "RuntimeError"]


# With the source around the line that raised, and with the variables.
SHOWN = """\
╭───────────── Traceback (most recent call last) ─────────────╮
│ /data/rl/reward.py:5 in reward                              │
│                                                             │
│   3 │   except Exception:  # CUDA out of memory.            │
│   4 │   │   last = "CUDA out of memory."                    │
│ ❱ 5 │   return completions["answer"]                        │
│                                                             │
│ ╭──────────────────── locals ────────────────────╮          │
│ │ file = '/data/rl/judge.py:7 in judge'          │          │
│ │ last = 'CUDA out of memory.'                   │          │
│ ╰────────────────────────────────────────────────╯          │
╰─────────────────────────────────────────────────────────────╯
KeyError: 'answer'
"""


@pytest.mark.parametrize("indent", ["", " " * 11])
def test_what_a_box_shows_beside_the_line_that_raised_is_not_said(indent: str) -> None:
    text = "".join(f"{indent}{line}\n" for line in SHOWN.splitlines())
    found = read(text)
    assert found.frames == (Frame("/data/rl/reward.py", 5, "reward", 'return completions["answer"]'),)
    assert (found.type, found.message) == ("KeyError", "'answer'")
    assert [finding.code for finding in triage_text(f"[2026-03-02 10:00:01] start\n{text}").findings] == ["RLD902"]


def test_an_exception_that_kept_the_indent_of_the_code_above_it() -> None:
    # https://github.com/verl-project/verl/issues/4418
    found = read(
        "Traceback (most recent call last):\n"
        'File "/opt/venv/lib/python3.12/site-packages/vllm/lora/ops/lora_shrink_op.py", line 149, in _lora_shrink\n'
        "    assert token_lora_mapping.size(0) == M\n    AssertionError"
    )
    assert (found.type, found.frames[-1].code) == ("AssertionError", "assert token_lora_mapping.size(0) == M")
