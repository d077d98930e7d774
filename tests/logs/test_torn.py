"""Logs that begin in the middle of a traceback, or of which only the exception's own line is left."""

from __future__ import annotations

import pytest

from rldoctor.logs.triage import triage_text
from rldoctor.model import Incident

from .excerpts import HEALTHY

TORN = """\
[rank1]:   File "/opt/venv/lib/python3.11/site-packages/trl/trainer/grpo_trainer.py", line 1626, in _step
[rank1]:     outputs = step(batch)
[rank1]:   File "/home/user/rl/reward.py", line 9, in reward
[rank1]:     return {}["answer"]
[rank1]: KeyError: 'answer'
"""
STACK = """\
Stack (most recent call last):
  File "/home/user/rl/train.py", line 9, in main
    logger.warning("slow", stack_info=True)
Done
"""


def incident(text: str) -> Incident:
    found = triage_text(text).incident
    assert found is not None
    return found


def test_a_traceback_whose_first_line_was_cut_off() -> None:
    found = incident(TORN)
    assert found.exception == "KeyError: 'answer'"
    assert found.first_rank == "1"
    assert found.user_frame is not None and found.user_frame.startswith("/home/user/rl/reward.py")


def test_a_stack_that_ends_in_no_exception_is_none() -> None:
    assert incident(STACK).kind == "unknown"
    assert incident(HEALTHY.partition("{'train_runtime'")[0] + STACK).kind == "finished"


def test_frames_count_once_where_their_traceback_began_in_the_log() -> None:
    whole = "[rank1]: Traceback (most recent call last):\n" + TORN
    assert incident(whole + TORN.replace("'answer'", "'other'")).cascades == ()


def test_the_exceptions_own_line_at_the_end() -> None:
    line = "ValueError: Image features and image tokens do not match: tokens: 281, features 280\n"
    found = triage_text("INFO 11-20 21:24:33 [core.py:133] Initializing\n" + line)
    assert found.incident is not None and found.incident.kind == "crashed"
    assert [finding.code for finding in found.findings] == ["RLD217"]
    assert incident(line + HEALTHY).kind == "finished"


def test_lines_that_name_no_exception() -> None:
    for line in ("Error: retrying", "UserWarning: slow", "KeyError", "INFO ValueError: x", "response: 'ValueError: x'"):
        assert incident(line + "\n").kind != "crashed", line


def test_vllms_earlier_log_format() -> None:
    lines = ("Traceback (most recent call last):", '  File "/opt/vllm/engine.py", line 3, in step', "ValueError: no")
    found = incident("".join(f"ERROR 02-09 02:31:11 engine.py:389] {line}\n" for line in lines))
    assert found.exception == "ValueError: no"


def test_ray_ends_itself() -> None:
    # https://github.com/verl-project/verl/issues/2380
    line = "[2025-07-06 07:14:27,052 C 2915798 2915798] task_receiver.cc:219:  Check failed: objects_valid \n"
    assert incident("(TaskRunner pid=2915798) " + line).kind == "crashed"


FRAMES = TORN.rpartition("[rank1]: KeyError")[0]


def test_frames_whose_beginning_and_end_were_cut_off() -> None:
    deeper = FRAMES + FRAMES.replace("reward.py", "parse.py")
    found = incident(deeper)
    assert (found.kind, found.first_rank) == ("crashed", "1")
    assert found.user_frame is not None and found.user_frame.startswith("/home/user/rl/parse.py")
    assert incident(deeper + "```\nvllm and torch as in the image.\n").kind == "crashed"
    assert incident(FRAMES).kind == "unfinished"  # too few to be sure
    assert incident(deeper + HEALTHY).kind == "finished"


def test_a_traceback_that_ends_behind_the_separator() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/opt/venv/lib/python3.11/subprocess.py", line 571, in run\n'
        "    raise CalledProcessError(retcode)\nsubprocess.CalledProcessError: Command 'ptxas' failed.\n\n"
        "During handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n"
    )
    assert incident(text).exception == "subprocess.CalledProcessError: Command 'ptxas' failed."


def test_ray_names_the_type_of_what_is_cut_off() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/home/user/rl/train.py", line 3, in <module>\n    trainer.fit()\n'
        "ray.exceptions.RayTaskError(KeyError): ray::Worker.step() (pid=7, ip=10.0.0.1)\n"
        '  File "/home/user/rl/worker.py", line 31, in step\n    rows[name]\n'
    )
    assert incident(text).exception == "KeyError"


def test_an_exception_alone_by_the_module_that_holds_it() -> None:
    for line in ("pyarrow.lib.ArrowInvalid: no Parquet file", "acme.exceptions.Refused: not today"):
        assert incident(line + "\n").exception == line
        assert incident(HEALTHY + line + "\n").kind == "crashed"
    assert incident(HEALTHY + "acme.models.Qwen2: loaded in 3 s\n").kind == "finished"


def test_the_plainest_exception_counts_as_a_logs_last_words() -> None:
    line = "Exception: Could not find the transformer layer class to wrap in the model.\n"
    assert incident("INFO 11-20 21:24:33 [core.py:133] Initializing\n" + line).exception == line.strip()
    assert incident(line + HEALTHY).kind == "finished"
    assert incident(line + "INFO 11-20 21:24:33 [core.py:133] Initializing\n").kind != "crashed"


SUMMARY = """\
  time      : 2025-12-23_05:17:58
  host      : node-7
  rank      : 0 (local_rank: 0)
  exitcode  : -11 (pid: 3304209)
  error_file: <N/A>
  traceback : Signal 11 (SIGSEGV) received by PID 3304209
============================================================
"""


def test_the_end_of_a_launchers_summary() -> None:
    found = incident(SUMMARY)
    assert (found.kind, found.exception is not None and found.exception.startswith("SIGSEGV")) == ("crashed", True)
    assert incident(SUMMARY.replace("SIGSEGV", "none")).kind != "crashed"


def test_what_another_stream_of_the_run_still_held_is_no_new_run() -> None:
    failed = (
        'Traceback (most recent call last):\n  File "/opt/venv/lib/python3.7/torch/distributed/launch.py", line 9, in '
        "<module>\n    main()\nsubprocess.CalledProcessError: Command '['python3', 'train.py']' died with "
        "<Signals.SIGSEGV: 11>.\n"
    )
    late = "*" * 41 + "\nSetting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
    assert incident(failed + late).kind == "crashed"
    assert incident(failed + late + HEALTHY).kind == "finished"


def test_a_traceback_without_its_end_says_where_it_is_cut_and_what_to_add() -> None:
    text = TORN.replace("[rank1]: ", "").partition('  File "/home')[0]
    (found,) = triage_text("Traceback (most recent call last):\n" + text).findings
    assert (found.code, found.message.partition(" (")[0]) == ("RLD900", "a traceback is cut off in _step")
    assert "lines that follow" in found.fixes[0].title
    assert found.fixes[1].title == 'search for "outputs = step(batch)", raised by _step of trl'


def test_code_that_is_cut_off_within_the_users_own_has_not_raised() -> None:
    text = "Traceback (most recent call last):\n" + TORN.replace("[rank1]: ", "").partition("KeyError")[0]
    assert [found.code for found in triage_text(text).findings] == ["RLD900"]
    raised = text.replace('return {}["answer"]', 'raise KeyError("answer")')
    assert [found.code for found in triage_text(raised).findings] == ["RLD902"]


def test_a_record_that_is_cut_off_behind_its_level_is_no_exception() -> None:
    text = "[rank1]: Traceback (most recent call last):\n" + TORN.rpartition("[rank1]: Key")[0]
    text = text.replace("[rank1]:", "(EngineCore_DP0 pid=7) ERROR 10-15 08:32:29 [core.py:7]")
    assert incident(text + "(EngineCore_DP0 pid=7) ERROR\n").exception == "unfinished traceback"


def test_what_frames_alone_say_is_asked_too() -> None:
    folder = "/opt/venv/lib/python3.12/site-packages"
    frames = [
        f'File "{folder}/megatron/core/optimizer/distrib_optimizer.py", line 1120, in sharded_state_dict',
        "  self.load_state_dict(self.state_dict())",
        f'File "{folder}/megatron/core/optimizer/distrib_optimizer.py", line 774, in load_state_dict',
        "  self.optimizer.load_state_dict(",
        f'File "{folder}/transformer_engine/pytorch/optimizers/fused_adam.py", line 347, in set_scaled_state',
        "  assert unscaled_state.dtype == torch.int16",
    ]
    assert triage_text("\n".join(f" {line}" for line in frames) + "\n").findings[0].code == "RLD610"


def test_what_ray_hands_over_names_its_type_where_nothing_stands_above_it() -> None:
    # https://github.com/verl-project/verl/issues/4308
    head = "(TaskRunner pid=7) ray.exceptions.RayTaskError(EngineDeadError): ray::vLLMHttpServer.generate() (pid=9)\n"
    frame = '(TaskRunner pid=7)   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/async_llm.py", line 4'
    assert triage_text(f"{head}{frame}05, in generate\n").findings[0].code == "RLD901"


IMPORT = "cannot import name 'AutoModelForCausalLMWithValueHead' from 'trl'"


@pytest.mark.parametrize(
    "text",
    [IMPORT, f"bash run.sh\n\n{IMPORT}\n", f"> {IMPORT} (/opt/venv/trl/__init__.py)", f"`ImportError: {IMPORT}`"],
)
def test_the_words_of_an_import_that_failed_need_no_type(text: str) -> None:
    assert [finding.code for finding in triage_text(text).findings] == ["RLD104"]


@pytest.mark.parametrize(
    "text",
    [
        f"INFO 11-20 21:24:33 [x.py:1] {IMPORT}, using the fallback\nDONE\n",
        f"It may say: {IMPORT} and go on\n",
        f"- Fixed: {IMPORT} with newer releases\n- Faster start\n- Docs\n",
    ],
)
def test_imports_that_somebody_speaks_of(text: str) -> None:
    assert triage_text(text).findings == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("format_reward() takes 1 positional argument but 2 were given", "TypeError: format_reward() takes 1"),
        (
            "GRPO训练时报错\uff1aformat_reward() takes 1 positional argument but 2 were given",
            "TypeError: format_reward() takes 1",
        ),
        ("# 'GRPOTrainer' object has no attribute 'vllm_client'", None),
        ("[Bug]: 'GRPOTrainer' object has no attribute 'vllm_client'", "AttributeError: 'GRPOTrainer' object has no"),
        ("swift fails: name 'reward' is not defined", "NameError: name 'reward' is not defined"),
        ("It says name 'reward' is not defined in some cases", None),
        ("- Fixed: name 'reward' is not defined\n- Faster start\n- Docs", None),
        ("reward: 'a' object has no attribute 'b'\nINFO 11-20 21:24:33 [x.py:1] go on", None),
    ],
)
def test_the_interpreters_words_need_no_type(text: str, said: str | None) -> None:
    found = incident(text + "\n").exception
    assert found is None if said is None else found is not None and found.startswith(said)


def test_what_a_failure_led_to_may_be_cut_off() -> None:
    whole = "[rank1]: Traceback (most recent call last):\n" + TORN
    more = (
        "\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n"
    )
    cut = (
        more
        + '  File "/opt/venv/lib/python3.11/site-packages/uvicorn/h11.py", line 4, in run_asgi\n    result = await app('
    )
    for begun in (whole, TORN):
        found = incident(begun.replace("[rank1]: ", "") + cut + "\n")
        assert found.exception == "KeyError: 'answer'"
        assert found.user_frame is not None and found.user_frame.startswith("/home/user/rl/reward.py")


def test_a_bar_within_a_traceback_is_no_exception() -> None:
    first, rest = TORN.replace("[rank1]: ", "").split("    outputs")
    bar = "Map:  16%|██████   | 16/900 [00:12<01:03, 130.6 examples/s]\n"
    found = incident(f"Traceback (most recent call last):\n{first}{bar}    outputs{rest}")
    assert found.exception == "KeyError: 'answer'"


def test_what_was_thrown_where_the_line_before_it_was_cut_off() -> None:
    text = "  what():  NCCL error in: NCCLUtils.hpp:181, unhandled cuda error, NCCL version 21.0.3\n"
    found = incident(text + "Exception raised from ncclCommAbort at NCCLUtils.hpp:181 (most recent call first):\n")
    assert found.exception is not None and found.exception.startswith("std::terminate: NCCL error in")
    assert incident("It prints what():  nothing\n").kind != "crashed"


NOT_CREATED = (
    "(Engine pid=31) Exception raised in creation task: The actor died because of an error raised in its creation "
    "task, ray::Engine.__init__() (pid=31, ip=10.0.0.1, actor_id=a86)\n"
)
HINT = "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"


def test_an_actor_that_was_not_created_without_its_frames() -> None:
    found = incident(NOT_CREATED)
    assert (found.kind, found.first_rank) == ("crashed", "Engine pid=31, on 10.0.0.1")
    assert [one.code for one in triage_text(NOT_CREATED).findings] == ["RLD901"]
    frames = '(Engine pid=31)   File "/home/user/rl/engine.py", line 3, in __init__\n(Engine pid=31) ValueError: no\n'
    assert incident(NOT_CREATED + frames).exception == "ValueError: no"
    assert incident(NOT_CREATED + HEALTHY).kind == "finished"


def test_hydras_hint_is_no_cause_where_a_failure_follows() -> None:
    assert [one.code for one in triage_text(HINT + NOT_CREATED).findings] == ["RLD901"]


def test_a_blank_that_a_terminal_did_not_copy() -> None:
    said = (
        "ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not\nfound (required by "
        "/opt/venv/vllm/_C.abi3.so)\n"
    )
    text = (
        'Traceback (most recent call last):\n  File "/home/user/rl/run.py", line 2, in <module>\n    import vllm._C\n'
    )
    assert [one.code for one in triage_text(text + said).findings] == ["RLD105"]


def test_a_bar_with_its_loss_is_drawn_once_more_as_it_closes() -> None:
    bar = "steps:   {}%|                 | {}/18165 [07:46<23:24:42,  4.67s/it, loss=0.112]\n"
    torn = TORN.replace("[rank1]: ", "")
    assert incident(torn + bar.format(1, 100)).exception == "KeyError: 'answer'"
    assert incident(torn + bar.format(1, 100) + bar.format(1, 101) + bar.format(1, 102)).kind != "crashed"


def test_places_that_an_editor_shows_as_links() -> None:
    # https://github.com/Dao-AILab/flash-attention/issues/854
    place = "/opt/venv/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so"
    text = f"ImportError: [{place}](https://vscode-remote+ssh.net{place}): undefined symbol: _ZN2at4_ops5zeros\n"
    assert [one.code for one in triage_text(text).findings] == ["RLD105"]
    said = "ValueError: see [the guide](https://example.org/guide) for x.py\n"
    assert incident(said).exception == said.strip()


def test_places_that_colab_shows_as_links() -> None:
    text = (
        "---------------------------------------------------------------------------\n"
        "KeyError                                  Traceback (most recent call last)\n"
        "[/tmp/ipython-input-39.py](https://localhost:8080/#) in <cell line: 0>()\n"
        "----> 1 trainer.train()\n"
        "\n"
        "6 frames\n"
        "[/usr/local/lib/python3.12/dist-packages/unsloth/models/rl.py](https://localhost:8080/#) in patch(a, b)\n"
        '--> 854     last = sampling["x"]\n'
        "\n"
        "KeyError: 'x'\n"
    )
    assert incident(text).frames == (
        "/tmp/ipython-input-39.py:1 in <cell line: 0>",
        "/usr/local/lib/python3.12/dist-packages/unsloth/models/rl.py:854 in patch",
    )


def test_a_cells_error_as_an_editor_copies_it() -> None:
    # https://github.com/unslothai/unsloth/issues/1156
    text = (
        '{\n\t"name": "NameError",\n\t"message": "name \'Unpack\' is not defined",\n\t"stack": "'
        "---------------------------------------------------------------------------\n"
        "NameError                                 Traceback (most recent call last)\n"
        "Cell In[4], line 1\n"
        "----> 1 from unsloth import FastLanguageModel\n"
        "\n"
        "File c:\\\\envs\\\\rl\\\\lib\\\\site-packages\\\\unsloth\\\\__init__.py:157\n"
        "--> 157 from .models import *\n"
        "\n"
        "NameError: name 'Unpack' is not defined\"\n}\n"
    )
    found = incident(text)
    assert found.exception == "NameError: name 'Unpack' is not defined"
    assert found.frames[-1] == "c:/envs/rl/lib/site-packages/unsloth/__init__.py:157 in <module>"


def test_a_notebooks_innermost_frame_alone() -> None:
    # https://github.com/OpenRLHF/OpenRLHF/issues/871
    text = (
        "/opt/venv/lib/python3.12/site-packages/vllm/layers/linear.py:956, in QKV.weight_loader(self, param)\n"
        "    955     if not use_bitsandbytes_4bit:\n"
        "--> 956         loaded_weight = loaded_weight.narrow(output_dim, start_idx,\n"
        "    957                                              shard_size)\n"
        "\n"
        "RuntimeError: a message of its own.\n"
    )
    found = incident(text)
    assert found.exception == "RuntimeError: a message of its own."
    assert "linear.py:956 in QKV.weight_loader" in found.frames[-1]


def test_an_exception_of_a_module_behind_frames_whose_beginning_is_lost() -> None:
    frames = (
        '[rank0]:   File "/opt/venv/lib/python3.11/site-packages/urllib3/connection.py", line 516, in getresponse\n'
        "[rank0]:     return super().getresponse()\n"
    )
    assert incident(frames + "[rank0]: http.client.RemoteDisconnected: Remote end closed\n").exception is not None
    assert incident(frames + "[rank0]: urllib3.pool: reset\n").exception is None


def test_rays_exception_names_the_one_that_it_carries() -> None:
    found = triage_text("ray.exceptions.RayTaskError(CompilationError):\n").findings
    assert [one.code for one in found] == ["RLD901"]


def test_an_assertion_and_its_exception_are_all_that_is_left() -> None:
    said = incident("    assert len(prompts) == len(outputs)\n           ^^^^^^^^^^^^\nAssertionError\n")
    assert said.exception == "AssertionError: assert len(prompts) == len(outputs)"
    assert incident("assert len(prompts) == len(outputs)\nstep 2\nAssertionError\n").exception is None
    assert incident(f"{HEALTHY}assert len(prompts) == len(outputs)\n").exception is None


def test_what_is_unpickled_may_be_an_empty_file_or_a_parent_that_is_gone() -> None:
    cut = (
        'Traceback (most recent call last):\n  File "/env/lib/python3.12/{file}", line 746, in {function}\n'
        "    state = pickle.load(stream)\nEOFError: Ran out of input\n"
    )
    empty = cut.format(file="site-packages/transformer_engine/pytorch/module/base.py", function="set_extra_state")
    (found,) = triage_text(empty).findings
    assert found.code == "RLD610"
    (found,) = triage_text(cut.format(file="multiprocessing/spawn.py", function="_main")).findings
    assert found.code == "RLD901"


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
def test_what_one_process_says_while_another_goes_on(end: str) -> None:
    """Blank lines at the log's end are no part of what was said before the others' steps."""
    steps = [f"(TaskRunner pid=4711) step:{n} - actor/pg_loss:0.0{n} - critic/score/mean:0.3{n}\n" for n in range(9)]
    said = "ValueError: could not convert string to float: 'abc'\n"
    assert incident("".join([*steps[:4], said, *steps[4:]]) + end).kind == "unfinished"
    assert incident("".join([*steps, said]) + end).kind == "crashed"


@pytest.mark.parametrize(
    "line",
    [
        '{"record": {"source_type": "GCS"}, "message": "kept"}',
        '{"source_type": "GCS", "message": ' + "[" * 7000,
        '{"source_type": "GCS", "message": 7}',
    ],
    ids=["quoted", "nested without end", "a number"],
)
def test_a_record_that_only_resembles_an_event_of_rays(line: str) -> None:
    assert incident(f"{line}\n{HEALTHY}").kind == "finished"
