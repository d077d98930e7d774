"""The ways in which the world keeps and pastes a log: envelopes around each line, and what follows or precedes a run.
Each keeps the failure and its cause."""

from __future__ import annotations

import csv
import html
import io
import json
import re
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


def _of_html(text: str) -> str:
    """What nbconvert makes of a line, its colours included."""
    return re.sub(r"\b\w+Error\b", r'<span class="ansi-red-fg">\g<0></span>', html.escape(text, quote=False))


def exported(lines: Lines) -> Lines:
    """A notebook as nbconvert exports it: a page whose outputs keep their lines."""
    head = ["<!DOCTYPE html>", "<html>", "<head><title>grpo</title>", "<style>", ".ansi-red-fg { color: #E75C58; }"]
    cell = ['</style></head><body><div class="highlight"><pre>trainer.train()', "</pre></div>"]
    first, *more = map(_of_html, lines)
    output = ['<div class="jp-OutputArea-output">', f"<pre>{first}", *more, "</pre>", "</div></body></html>"]
    return [*head, *cell, *output]


def broken(lines: Lines) -> Lines:
    """A part of a page: each line ends with a break."""
    first, *more = (f"{_of_html(line)}<br>" for line in lines)
    return [f"<pre>{first}", *more, "</pre>"]


def table(header: Lines, row: Callable[[int, str], Lines], newest_first: bool = False) -> Wrapping:
    """Rows with commas, as consoles export them."""

    def apply(lines: Lines) -> Lines:
        rows = [row(i, text) for i, text in enumerate(lines)]
        text = io.StringIO()
        csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
            [header, *(reversed(rows) if newest_first else rows)]
        )
        return text.getvalue().removesuffix("\n").split("\n")

    return apply


def _kibana(i: int, text: str) -> Lines:
    return [f"Mar 2, 2026 @ {_clock(i)}.{i % 1000:03d}", "trainer-0", text]


def notebook(lines: Lines) -> Lines:
    output = {"name": "stdout", "output_type": "stream", "text": [f"{line}\n" for line in lines]}
    cell = {"cell_type": "code", "metadata": {}, "outputs": [output], "source": ["!bash train.sh"]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}, indent=1).split("\n")


def paged(lines: Lines) -> Lines:
    """less -N in a terminal of 120 columns."""
    found = []
    for i, line in enumerate(lines, 1):
        found.append(f"{i:>7} {line[:112]}")
        found += [f"{'':7} {line[at : at + 112]}" for at in range(112, len(line), 112)]
    return found


def _stored(*path: str, records: Callable[[Lines], list[object]]) -> Wrapping:
    """What a store of logs answers to a query: its records below some names."""

    def apply(lines: Lines) -> Lines:
        held: object = records(lines)
        for name in reversed(path):
            held = {name: held}
        return json.dumps(held, indent=1).split("\n")

    return apply


def _streams(lines: Lines) -> list[object]:
    return [{"stream": {"pod": "trainer-0"}, "values": [[str(10**18 + i), t] for i, t in enumerate(lines)]}]


def _hits(lines: Lines) -> list[object]:
    found = [{"_id": str(i), "_source": {"@timestamp": _iso(i), "message": t}} for i, t in enumerate(lines)]
    return list(reversed(found))


def _events(lines: Lines) -> list[object]:
    return [{"timestamp": 1772445600000 + i, "message": t, "ingestionTime": 1772445609999} for i, t in enumerate(lines)]


def answer(lines: Lines) -> Lines:
    return json.dumps({"job_id": "j-18", "status": "FAILED", "logs": "\n".join(lines)}, indent=2).split("\n")


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
    "journald, short-full": each(lambda i, t: f"Mon 2026-03-02 {_clock(i)} UTC gpu-07 train.sh[80746]: {t}"),
    "journald, short-iso": each(lambda i, t: f"2026-03-02T{_clock(i)}+0000 gpu-07 python3[812]: {t}"),
    "kubectl --timestamps": each(lambda i, t: f"{_iso(i)} {t}"),
    "kubectl --prefix": each(lambda i, t: f"[pod/trainer-0/main] {t}"),
    "gh run view": each(lambda i, t: f"train\tRun bash train.sh\t{_iso(i)} {t}"),
    "GitHub, unknown step": each(lambda i, t: f"train\tUNKNOWN STEP\t{_iso(i)} {t}"),
    "a name in bars": each(lambda i, t: f"2026-03-02 {_clock(i)}.{i % 1000:03d} | info | x7k2m9 | {t}"),
    "folded and padded": lambda lines: [line.ljust(120) for line in folded(120)(lines)],
    "pdsh": each(lambda i, t: f"gpu-node-07: {t}"),
    "an unknown prefix": each(lambda i, t: f"<job 8812/out> {t}"),
    "a counted prefix": each(lambda i, t: f"#{i:06d}# run-a | {t}"),
    "process numbers": each(lambda i, t: f"[80746] {t}"),
    "line numbers": each(lambda i, t: f"{i + 1:6d}\t{t}"),
    "line numbers with a bar": each(lambda i, t: f"{i + 1}|{t}"),
    "numbers right before": each(lambda i, t: f"{i + 1}{t}"),
    "numbers above": each(lambda i, t: f"{i + 1}\n{t}"),
    "code spans": each(lambda i, t: f"`{t}`"),
    "a table with code": lambda lines: ["| # | log |", "|--:|:--|", *(f"| {i} | `{t}` |" for i, t in enumerate(lines))],
    "letters of print": each(lambda i, t: t.replace("ffi", "\ufb03").replace("fi", "\ufb01").replace("fl", "\ufb02")),
    "structlog": each(lambda i, t: json.dumps({"event": t, "level": "info", "timestamp": _iso(i)})),
    "GELF": each(lambda i, t: json.dumps({"version": "1.1", "host": "h", "short_message": t, "timestamp": 17e8 + i})),
    "stern, JSON": each(lambda i, t: json.dumps({"message": t, "podName": "trainer-0", "containerName": "main"})),
    "line numbers with a colon": each(lambda i, t: f"{i + 1}: {t}"),
    "grep -n": each(lambda i, t: f"run.log:{i + 1}:{t}"),
    "mail": each(lambda i, t: f"> {t}"),
    "mail twice": each(lambda i, t: f">> {t}"),
    "indented": each(lambda i, t: f"    {t}"),
    "boxed": boxed,
    "Determined, its containers": each(lambda i, t: f"[{_iso(i)}] [3fa2b1c0] || INFO: {t}"),
    "an exported notebook": exported,
    "a page with breaks": broken,
    "Markdown": lambda lines: ["### What happens", "", "It stops:", "", "```shell", *lines, "```", "", "Any idea?"],
    "Markdown, details": lambda lines: ["<details>", "<summary>Log</summary>", "", "```", *lines, "```", "</details>"],
    "colours without ESC": each(lambda i, t: f"[32m{t}[0m"),
    "colours by name": each(lambda i, t: f"ESC[0;36m{t}ESC[0;0m"),
    "a stream's logger": each(lambda i, t: f"2026-03-02 {_clock(i)} | ERROR | stderr | {t}"),
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
    "Kibana": table(["@timestamp", "kubernetes.pod_name", "message"], _kibana),
    "Kibana, newest first": table(["@timestamp", "kubernetes.pod_name", "message"], _kibana, newest_first=True),
    "CloudWatch": table(["timestamp", "message"], lambda i, t: [str(1772445600000 + i), t]),
    "Splunk": each(lambda i, t: json.dumps({"preview": False, "result": {"_raw": t, "_time": _iso(i)}})),
    "logcli, newest first": lambda lines: [f"{_iso(i)} {t}" for i, t in reversed(list(enumerate(lines)))],
    "a notebook": notebook,
    "Kaggle": each(lambda i, t: f"{i * 0.37:.1f}s\t{i + 1}\t{t}"),
    "Kaggle, the file": lambda lines: [
        f"{',' if i else '['}{json.dumps({'stream_name': 'stderr', 'time': i * 0.37, 'data': line + chr(10)})}"
        for i, line in enumerate(lines)
    ] + ["]"],
    "an array of texts": lambda lines: json.dumps(lines, indent=2).split("\n"),
    "an array of texts in one line": lambda lines: [json.dumps([f"{line}\n" for line in lines])],
    "an answer": answer,
    "GitLab with times": each(lambda i, t: f"{_iso(i)} 0{i % 2}{'OE'[i % 2]} {t}"),
    "Buildkite": each(lambda i, t: f"\x1b_bk;t={1772445600000 + i}\x07{t}"),
    "syslog's octal": each(lambda i, t: f"#033[34m{t}#033[0m"),
    "Vertex": each(lambda i, t: f"ERROR\t2026-03-02 {_clock(i)} +0000\tworkerpool0-0\t{t}"),
    "SageMaker": each(lambda i, t: f"[1,mpirank:0,algo-1]<stderr>:{t}"),
    "mpirun": each(lambda i, t: f"[1,0]<stderr>:{t}"),
    "SkyPilot": each(lambda i, t: f"\x1b[36m(rl-run, pid=3178)\x1b[0m {t}"),
    "Determined": each(lambda i, t: f"[{_iso(i)}] [rank=0] || {t}"),
    "journald, short-precise": each(lambda i, t: f"Mar 02 {_clock(i)}.{i:06d} gpu-07 train.sh[80746]: {t}"),
    "k9s": each(lambda i, t: f"trainer-0 {_iso(i)} {t}"),
    "less -N": paged,
    "a copied terminal": each(lambda i, t: f"{t:200}"),
    "rows of a page": lambda lines: ["<html><body>", *(f'<div class="line"><span>{html.escape(t)}</span></div>'
                                                       for t in lines), "</body></html>"],
    "breaks of a page": lambda lines: [f"<p>It stops:</p><p>{'<br>'.join(map(html.escape, lines))}</p>"],
    "blanks that do not break": each(lambda i, t: t.replace(" ", "\u00a0")),
    "a page that is no code": each(lambda i, t: t.lstrip()),
    "a block among words": lambda lines: ["It fails:", "", *(f"    {t}" for t in lines), "", "What now?"],
    "bytes that Python shows": lambda lines: [repr(("\n".join(lines) + "\n").encode())],
    "numbered mail": then(each(lambda i, t: f"{i + 1:5d}  {t}"), each(lambda i, t: f"> {t}")),
    "times apart": lambda lines: [part for i, t in enumerate(lines) for part in (f"2026-03-02 {_clock(i)}.123", t)],
    "times and streams apart": lambda lines: [
        part for i, t in enumerate(lines) for part in (t, f"2026-03-02 {_clock(i)}", "", "2855e530…vdumckda")
    ],
    "Datadog": each(lambda i, t: json.dumps({"id": f"A{i}", "attributes": {"message": t, "timestamp": _iso(i)}})),
    "Elasticsearch": each(lambda i, t: json.dumps({"_index": "logs", "_source": {
        "@timestamp": _iso(i), "message": t, "log": {"file": {"path": "/var/log/run.log"}}}})),
    "Loki's API": each(lambda i, t: json.dumps({"stream": {"pod": "trainer-0"}, "values": [[str(1772445600 + i), t]]})),
    "Azure Monitor": table(["TimeGenerated [UTC]", "ContainerId", "LogEntry"],
                           lambda i, t: [f"3/2/2026, {_clock(i)} AM", "9f2c", t]),
    "Papertrail": each(lambda i, t: f"{1700 + i}\t2026-03-02T{_clock(i)}Z\t99\tgpu-07\tUser\tInfo\ttrainer\t{t}"),
    "SageMaker, coloured": each(lambda i, t: f"\x1b[34m[1,mpirank:0,algo-1]<stderr>:{t}\x1b[0m"),
    "syslog with priorities": each(lambda i, t: f"<134>1 {_iso(i)} gpu-07 trainer 4711 - - {t}"),
    "a terminal's recording": each(lambda i, t: f"\x1b(B\x1b[m\x1b[?25l{t}\x1b[?12l\x1b[?25h\x1b[K\r"),
    "daemontools": each(lambda i, t: f"@400000006{i:07x}0e3f8a24 {t}"),
    "supervisord": lambda lines: [
        part for i, t in enumerate(lines) for part in (f"2026-03-02 {_clock(i)},120 DEBG 'run' stderr output:", t)
    ],
    "grep -C": each(lambda i, t: f"train.log{'-:'[i % 5 == 0]}{i + 1}{'-:'[i % 5 == 0]}{t}"),
    "rg": lambda lines: ["logs/train.log", *(f"{i}:{t}" for i, t in enumerate(lines, 1))],
    "bat": lambda lines: ["─────┬────", "     │ File: train.log", "─────┼────",
                          *(f"{i:4d} │ {t}" for i, t in enumerate(lines, 1)), "─────┴────"],
    "git show": lambda lines: ["commit 3e757656", "Author: a <a@example.org>", "", "    a failing run", "",
                               "diff --git a/run.log b/run.log", "new file mode 100644", "index 0000000..3e75765",
                               "--- /dev/null", "+++ b/run.log", f"@@ -0,0 +1,{len(lines)} @@",
                               *(f"+{t}" for t in lines)],
    "lines of a page": lambda lines: ["<pre>", *(f'<span class="l"><span class="red">{html.escape(t, quote=False)}'
                                                 "</span></span>" for t in lines), "</pre>"],
    "reStructuredText": lambda lines: ["It ends with::", "", *(f"   {t}" for t in lines), "", "Versions below."],
    "a text in YAML": lambda lines: ["steps:", "  - name: train", "    output: |", *(f"      {t}" for t in lines)],
    "Fluent Bit": each(
        lambda i, t: (
            f"[{i}] kube.rl.log: [[{1772445600 + i}.000417000, {{}}], "
            f'{{"stream"=>"stderr", "log"=>{json.dumps(t)}, "kubernetes"=>{{"pod_name"=>"trainer-0"}}}}]'
        )
    ),
    "logfmt": each(lambda i, t: f"time={_iso(i)} level=info stream=stderr msg={json.dumps(t)}"),
    "logfmt behind a collector's prefix": each(
        lambda i, t: f'{_iso(i)}  INFO sink{{kind="console"}}: out: message={json.dumps(t)} pod=trainer-0 stream=stderr'
    ),
    "Loki's answer": _stored("data", "result", records=_streams),
    "Elasticsearch's answer": _stored("hits", "hits", records=_hits),
    "CloudWatch's answer": _stored("events", records=_events),
    "aws logs tail": each(lambda i, t: f"{_iso(i)} train/algo-1-1772445600 {t}"),
    "a comment": each(lambda i, t: f"# {t}".rstrip()),
    "a diff in a chat": lambda lines: ["```diff", *(f"- {line}" for line in lines), "```"],
    "marks without a width": each(lambda i, t: f"\u200b{t}"),
    "GitLab with sections": lambda lines: [
        'section_start:1700000000:step_script\r\x1b[0K\x1b[36;1mExecuting "step_script" stage\x1b[0;m',
        *each(lambda i, t: f"{_iso(i)} 01O {t}")(lines),
        "section_end:1700000100:step_script\r\x1b[0K",
        "\x1b[31;1mERROR: Job failed: exit code 1\x1b[0;m",
    ],
    "a host of a service": lambda lines: [
        *each(lambda i, t: f"{_iso(i)} algo-1-x7k2p {t}")(lines),
        "2026-03-02 12:00:00 Failed - Training job failed",
    ],
    "a typescript": lambda lines: [
        "Script started on 2026-03-02 10:00:01+00:00 [COLUMNS=200]",
        *each(lambda i, t: t + "\r")(lines),
        "Script done on 2026-03-02 10:10:01+00:00",
    ],
    "a chat": lambda lines: ["alice  10:12 AM", "it ends so:", "```", *lines, "```", "bob  10:14 AM", "which vLLM?"],
}  # fmt: skip


def wrapped(name: str, text: str) -> str:
    """The log in one of the :data:`WRAPPINGS`."""
    return "\n".join(WRAPPINGS[name](text.removesuffix("\n").split("\n"))) + "\n"


def names() -> Iterable[str]:
    return WRAPPINGS
