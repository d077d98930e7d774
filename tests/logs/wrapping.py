"""The ways in which the world keeps and pastes a log: envelopes around each line, and what follows or precedes a run.
Each keeps the failure and its cause."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable

Lines = list[str]
Wrapping = Callable[[Lines], Lines]


def _clock(i: int) -> str:
    return f"{10 + i // 3600 % 14:02d}:{i // 60 % 60:02d}:{i % 60:02d}"


def _iso(i: int) -> str:
    return f"2026-03-02T{_clock(i)}.{i % 1000:03d}417Z"


def each(line: Callable[[int, str], str]) -> Wrapping:
    return lambda lines: [line(i, text) for i, text in enumerate(lines)]


def folded(width: int) -> Wrapping:
    return lambda lines: [line[at : at + width] for line in lines for at in range(0, max(1, len(line)), width)]


def boxed(lines: Lines) -> Lines:
    width = max(map(len, lines))
    return ["╭" + "─" * (width + 2) + "╮", *(f"│ {line:{width}} │" for line in lines), "╰" + "─" * (width + 2) + "╯"]


def beside_another_rank(lines: Lines) -> Lines:
    """A healthy process with a prefix of its own writes in between."""
    found: Lines = []
    for i, line in enumerate(lines):
        found.append(line)
        if i % 3 == 0:
            found.append(f"(Monitor pid=4711) INFO 03-02 {_clock(i)} [watch.py:17] device 5 is used at {i % 100} %")
    return found


def after(*more: str) -> Wrapping:
    return lambda lines: [*lines, *more]


def then(*wrappings: Wrapping) -> Wrapping:
    def apply(lines: Lines) -> Lines:
        for wrapping in wrappings:
            lines = wrapping(lines)
        return lines

    return apply


def _cloud(i: int, text: str) -> str:
    return json.dumps({"insertId": f"x{i}", "textPayload": text, "timestamp": _iso(i), "severity": "ERROR",
                       "resource": {"type": "k8s_container", "labels": {"pod_name": "trainer-0"}}})  # fmt: skip


def _loki(i: int, text: str) -> str:
    return json.dumps({"labels": {"app": "rl", "pod": "trainer-0"}, "line": text, "timestamp": _iso(i)})


WRAPPINGS: dict[str, Wrapping] = {
    "stern": each(lambda i, t: f"trainer-7d9f6c-x2x8k main {t}"),
    "stern with a bar": each(lambda i, t: f"trainer-7d9f6c-x2x8k main │ {t}"),
    "Cloud Logging": each(_cloud),
    "Cloud Logging, an array": lambda lines: json.dumps(
        [json.loads(_cloud(i, t)) for i, t in enumerate(lines)], indent=1
    ).split("\n"),
    "Cloud Logging, newest first": lambda lines: [
        json.dumps([json.loads(_cloud(i, t)) for i, t in reversed(list(enumerate(lines)))])
    ],
    "Loki": each(_loki),
    "logcli": each(lambda i, t: f'{_iso(i)} {{app="rl", pod="trainer-0"}} {t}'),
    "docker json-file": each(lambda i, t: json.dumps({"log": t + "\n", "stream": "stderr", "time": _iso(i)})),
    "docker compose": each(lambda i, t: f"trainer-1  | {t}"),
    "CRI": each(lambda i, t: f"{_iso(i)} stderr F {t}"),
    "Airflow": each(lambda i, t: f"[2026-03-02, {_clock(i)} UTC] {{subprocess.py:93}} INFO - {t}"),
    "loguru": each(lambda i, t: f"2026-03-02 {_clock(i)}.123 | INFO     | runner:stream:41 - {t}"),
    "a launcher's logger": each(lambda i, t: f"2026-03-02 {_clock(i)},123 - launcher - INFO - {t}"),
    "ts": each(lambda i, t: f"Mar 02 {_clock(i)} {t}"),
    "ts -s": each(lambda i, t: f"{_clock(i)} {t}"),
    "journald": each(lambda i, t: f"Mar  2 {_clock(i)} gpu-07 train.sh[80746]: {t}"),
    "journald, short-iso": each(lambda i, t: f"2026-03-02T{_clock(i)}+0000 gpu-07 python3[812]: {t}"),
    "kubectl --timestamps": each(lambda i, t: f"{_iso(i)} {t}"),
    "kubectl --prefix": each(lambda i, t: f"[pod/trainer-0/main] {t}"),
    "gh run view": each(lambda i, t: f"train\tRun bash train.sh\t{_iso(i)} {t}"),
    "GitHub, unknown step": each(lambda i, t: f"train\tUNKNOWN STEP\t{_iso(i)} {t}"),
    "pdsh": each(lambda i, t: f"gpu-node-07: {t}"),
    "an unknown prefix": each(lambda i, t: f"<job 8812/out> {t}"),
    "a counted prefix": each(lambda i, t: f"#{i:06d}# run-a | {t}"),
    "process numbers": each(lambda i, t: f"[80746] {t}"),
    "line numbers": each(lambda i, t: f"{i + 1:6d}\t{t}"),
    "line numbers with a colon": each(lambda i, t: f"{i + 1}: {t}"),
    "grep -n": each(lambda i, t: f"run.log:{i + 1}:{t}"),
    "mail": each(lambda i, t: f"> {t}"),
    "mail twice": each(lambda i, t: f">> {t}"),
    "indented": each(lambda i, t: f"    {t}"),
    "boxed": boxed,
    "Markdown": lambda lines: ["### What happens", "", "It stops:", "", "```shell", *lines, "```", "", "Any idea?"],
    "Markdown, details": lambda lines: ["<details>", "<summary>Log</summary>", "", "```", *lines, "```", "</details>"],
    "colours without ESC": each(lambda i, t: f"[32m{t}[0m"),
    "colours with a caret": each(lambda i, t: f"^[[32m{t}^[[0m"),
    "coloured": each(lambda i, t: f"\x1b[31m{t}\x1b[0m"),
    "a web page": lambda lines: ["<pre><code>", *map(html.escape, lines), "</code></pre>"],
    "folded at 60": folded(60),
    "folded at 80": folded(80),
    "folded at 120": folded(120),
    "CRLF": each(lambda i, t: t + "\r"),
    "flattened": lambda lines: [" ".join(lines)],
    "one string": lambda lines: [json.dumps("\n".join(lines))],
    "repeated": lambda lines: [*lines, *lines],
    "another rank": beside_another_rank,
    "a shell around it": lambda lines: ["$ bash train.sh", *lines, "$ echo $?", "1", "$ "],
    "an epilogue": after("Job finished at Fri Nov 20 18:04:11 UTC 2026", "exit code 1:0, elapsed 05:12:44"),
    "an epilogue that says done": after("+ echo DONE", "DONE", "Training finished, uploading the logs", "upload: done"),
    "a list of packages": after("$ pip list", "Package    Version", "---------- -------", "numpy      2.1.0",
                                "ray        2.46.0", "vllm       0.9.1", "wandb      0.19"),
    "an inventory": after("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)", "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)",
                          "Filesystem 1K-blocks Used", "/dev/sda1 1000 20", "free: 1000", "node gpu-07 is drained"),
    "mail in the journal": then(each(lambda i, t: f"> {t}"), each(lambda i, t: f"Mar 02 {_clock(i)} h x[1]: {t}")),
    "Markdown in docker": then(
        lambda lines: ["The log:", "", "```text", *lines, "```"],
        each(lambda i, t: json.dumps({"log": t + "\n", "stream": "stdout", "time": _iso(i)})),
    ),
    "a fold of the journal": then(each(lambda i, t: f"Mar 02 {_clock(i)} h x[1]: {t}"), folded(100)),
    "numbered mail": then(each(lambda i, t: f"{i + 1:5d}  {t}"), each(lambda i, t: f"> {t}")),
}  # fmt: skip


def wrapped(name: str, text: str) -> str:
    """The log in one of the :data:`WRAPPINGS`."""
    return "\n".join(WRAPPINGS[name](text.removesuffix("\n").split("\n"))) + "\n"


def names() -> Iterable[str]:
    return WRAPPINGS
