"""Tells lines that show a run going on from those that a dying or ending process writes.

What scripts, schedulers and people append to a log (an epilogue, ``pip list``, a message of restart) is neither."""

from __future__ import annotations

import re

from rldoctor.logs.prefixes import Line

# What training prints as it moves: metrics, steps, epochs, finished phases; what a server says of answered requests.
_PROGRESS = re.compile(
    r"\{['\"](?:loss|reward|train_runtime|eval_|kl|grad_norm)"
    r"|(?:^|[\s\[(,'\"])(?:global_|training[_ ]|train[_ ])?(?:step|steps|epoch|iteration|iter|"
    r"episode)['\"]?\s*[:=#/ ]\s*\d+"
    r"|(?:^|\s)(?:loss|reward|kl|rewards?/mean|critic/\S+|actor/\S+)\s*[:=]\s*-?\d"
    # A server that still has requests and did nothing for them goes on printing how little it does.
    r"|\bAvg (?:prompt|generation) throughput\b"
    r"(?!: 0\.0 tokens/s, (?:Avg generation throughput: 0\.0 tokens/s, )?Running: [1-9])"
    r"|^Step \d{1,9} \| "
    r"|\"(?:GET|POST|PUT) /[^\"\s]{0,200} HTTP/[\d.]+\" 2\d\d\b"
)
_SAVED = re.compile(r"(?i:\bsav(?:ed|ing) (?:model |the model |a )?(?:checkpoint|to)\b|\bcheckpoint saved\b)")
# The last words of trainers, and of transformers' under many of them.
_LAST_WORDS = re.compile(
    r"'train_runtime'|\"train_runtime\"|Training completed\. Do not forget to share your model"
    r"|Final validation metrics:|End time of running main: |Max number of (?:steps|epochs) has been reached"
    # Megatron's training.py
    r"|^\[after training is done\] datetime: "
    # pytest's summary of tests that passed.
    r"|^={3,} (?!.*\b(?:failed|errors?)\b).*\b\d+ passed\b.* in [\d.:]+"
)
# What a script prints when it came to its end as planned, and what launchers say of one that did.
_DONE = re.compile(
    r"^\W{0,4}(?:rank \d+ )?(?:DONE|Done|done|OK|SUCCESS|Finished|finished|Success)\W{0,3}$"
    r"|(?i:\btraining (?:is )?(?:completed?|finished|done)\b|\b(?:all|everything) (?:done|finished)\b)"
    r"|\bJob '[^']{1,80}' succeeded|\bexit(?:ed with)? code:? 0\b|\brc 0\b|return code = 0\b"
)
# What a process writes on its way out, or only repeats: none of it shows that work went on.
_NOISE = re.compile(
    r"^\s*$"
    r"|^\s*(?:\^|~)[\^~ ]*$"
    r"|\[shutdown\]"
    r"|^\s*(?:wandb|swanlab):"
    r"|resource_tracker|leaked (?:semaphore|shared_memory|instance|type|function)|nanobind"
    r"|destroy_process_group|ProcessGroupNCCL|c10d|socket\.cpp|TCPStore|HeartbeatMonitor"
    r"|^\s*(?:warnings?\.warn|if is_|return |raise |self\.|File \")"
    r"|Warning:|WARNING|^\s*Exception ignored in"
    r"|(?i:shut(?:ting)? ?down|terminat|kill(?:ed|ing)|exit(?:ed|ing|s)?\b|abort|closing signal|sigterm|cleaning "
    r"up|clean up)"
    r"|(?i:\berror\b|\bexception\b|\bfailed\b|\bfailure\b|traceback)"
    r"|\d{1,3}%\|"
    r"|^\s*[-=*_+#]{6,}\s*$"
    r"|^\s{4,}"
    r"|^\s*(?:class_name|actor_id|pid|namespace|ip|name|time|host|rank|exitcode|error_file|traceback)\s*: "
    r"|^(?:srun|slurmstepd|bash|sh|torchrun|nohup|usage): "
    r"|^\s*(?:\[\d+\]:|Failures:|\S+ FAILED)\s*$"
    r"|(?i:for (?:debugging|more) |please |to (?:fix|troubleshoot|suppress|enable)|see https?:|refer to|consider )"
)
# What somebody reports of a run is none of its steps: ``Training hangs at step 12``.
_TOLD = re.compile(
    r"\b(?:hangs?|hung|stuck|stalls?|freezes|crash(?:es|ed)|dies|died|fails|failed)\b[^\n]{0,40}\bstep\b"
)
# A scheduler's steps are not the training's.
_SCHEDULER = re.compile(r"(?:srun|salloc|slurmstepd(?:-\S{1,80})?): ")
_BAR = re.compile(r"(\d{1,12})/(\d{1,12}) \[")
_COMPLAINTS = ("ERROR", "CRITICAL", "WARNING")
_LOOKED_AT = 400


def is_last_word(line: Line) -> bool:
    """Whether a trainer says that it came to its end."""
    return line.level not in ("ERROR", "CRITICAL") and _LAST_WORDS.search(line.text[:_LOOKED_AT]) is not None


def is_done(line: Line) -> bool:
    """Whether the line says that the program reached its end. Scripts write so after a failure too."""
    if line.level in ("ERROR", "CRITICAL"):
        return False
    return is_last_word(line) or _DONE.search(line.text[:_LOOKED_AT]) is not None


def is_progress(line: Line, ended: bool = False) -> bool:
    """Whether the line says that work went on: a step, an answered request, a trainer's last words; a save only where
    it had not ``ended``, for it saves what it has trained as well."""
    if line.level in _COMPLAINTS or _SCHEDULER.match(line.text):
        return False
    said = line.text[:_LOOKED_AT]
    saves = _SAVED.search(said) is not None
    moved = not ended if saves else _PROGRESS.search(said) is not None
    return (moved and _TOLD.search(said) is None) or is_last_word(line)


def is_ordinary(line: Line) -> bool:
    """Whether the line is neither noise of an ending process nor a complaint."""
    return line.level not in _COMPLAINTS and _NOISE.search(line.text[:_LOOKED_AT]) is None


def bar_position(line: Line) -> int | None:
    """Where a progress bar is, None where the line is none."""
    match = _BAR.search(line.text[:_LOOKED_AT]) if "%|" in line.text[:_LOOKED_AT] else None
    return int(match[1]) if match is not None else None
