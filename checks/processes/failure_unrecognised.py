"""Something failed in a way that no other code describes.

What it looks for
    A rollout on a miniature model that raised, died or ran out of time, heavy packages whose import did, and ranks that
    torchrun starts with an engine object each, as TRL and ms-swift colocate them, where an engine by itself comes up;
    all where none of the other checks knows the reason. Reported are the stage, the exception that began it, its
    innermost frames and the log with the whole output. Of a log: the first failure on the first failing rank, where no
    pattern fits and the user's own code did not raise it, with the releases, the function and the condition that raise
    it where the packages' sources tell them, the patterns that come nearest and why each of them is none, and, beside
    the log of a healthy run (`rldoctor triage run.log --baseline healthy.log`), the lines that are new.

Why it hurts
    What fails on a model of a few megabytes with default settings will fail in training.

How sure it is
    The failure happened here; its cause is not named. An end by the time limit may only mean a slow machine, and an
    optional package that does not import may not be used: both are warnings, and so are ranks on the CPU that stand in
    for the launch's GPUs. An import that misses nothing but the GPU
    driver's libraries, as on a laptop, is not reported.

The fix and its cost
    None is known. The finding names the package, the function, the release and the exact phrase to search for. Where a
    service beside the training refused (a tracker without a key, the API of a judge), its own remedy comes first.

References
    https://github.com/vllm-project/vllm/issues
    https://docs.python.org/3/library/faulthandler.html
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rldoctor.api import (
    Case,
    Check,
    Edit,
    Evidence,
    Finding,
    Fix,
    Grade,
    Kind,
    LogRun,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
)
from rldoctor.api.logs import LoggedException, called_by, is_users, package_of, was_none
from rldoctor.api.seeds import seed_topology

from ..exceptions import fatal_frames, places, root_of
from ..observed.absent_packages import missing
from ..observed.imports import CORE, Failure, distribution, failures, imports, named, rollout_failure, version_of
from ..observed.misfits import mismatch, needs_driver
from ..observed.moved_names import lacking
from ..observed.rollout import Job, describe, failure_text, frames, records, rollouts, scenario_runs

check = Check("RLD900", "failure-unrecognised", __doc__, kind=Kind.FALLBACK)

INNERMOST = 4
# In what an ending says, the seconds are of that run alone.
_LENGTHS = re.compile(r"\b\d+ s$")
# What a rank says when another one has ended before it.
_PEER_GONE = re.compile(r"Connection (?:closed|reset) by peer|Broken pipe|recv, got 0 bytes")


@check.observed(needs=["observations.imports"])
def import_fails(case: Case) -> Iterator[Finding | Reach]:
    """A package does not import, and neither a misfit nor an absent package is why."""
    job: Job = case.observations["imports"].get("stack", {})
    if job.get("ended") == "not-started":
        raise NotChecked(_not_started(job))
    if job.get("ended") != "done":
        yield _job_failed("the import probe", job, [])
    known = (mismatch, missing, lacking)
    unknown = [f for f in failures(case) if not (needs_driver(f) or any(knows(f, case) for knows in known))]
    causes: dict[str, list[Failure]] = {}
    for failure in unknown:
        causes.setdefault(failure.text if failure.root else f"{failure.package} {failure.ended}", []).append(failure)
    for members in causes.values():
        yield _import_finding(members, str(job.get("log")), case)
    yield Reach(f"{len(imports(case))} packages imported or tried")


@check.fallback(needs=["observations.rollout"])
def rollout_fails(case: Case, known: Callable[[Job], bool]) -> Iterator[Finding | Reach]:
    """The rollout, or other traffic on its engines, did not come to its end, and nothing else says why."""
    left = 0
    # Engines that fail alike have one cause.
    alike: dict[tuple[str, ...], tuple[Job, list[str]]] = {}
    for name, job in (*rollouts(case).items(), *((str(records(job).get("stage")), job) for job in scenario_runs(case))):
        if job.get("ended") == "not-started":
            raise NotChecked(_not_started(job))
        if job.get("ended") == "done":
            reach = records(job).get("reach", {})
            if "completions" in reach and "sampled_tokens" in reach:
                done = f"{reach['completions']} completions, {reach['sampled_tokens']} tokens"
                yield Reach(f"{describe(job)}: {done} in {job.get('seconds', 0):.0f} s")
            continue
        left += 1
        if job.get("ended") in ("not-run", "stalled") or job.get("explained"):
            continue  # a boot that failed is judged itself; what stalls is RLD609, what its log explains that code
        failure = rollout_failure(case)
        if failure and (mismatch(failure, case) or missing(failure, case)):
            continue
        if not known(job):
            where = _rollout_frames(job)
            same = (str(job.get("ended")), str(records(job).get("stage")), _LENGTHS.sub("", _ending(job)), *where)
            alike.setdefault(same, (job, []))[1].append(name)
    for job, names in alike.values():
        yield _job_failed(describe(job), job, _rollout_frames(job), names[1:])
    why = next((job["why"] for job in rollouts(case).values() if "why" in job), None)
    if why is not None and not alike:
        raise NotChecked(why)
    if left:
        yield Reach(f"{left} run{'s' if left > 1 else ''} failed in a way that has a code of its own")


@check.observed(needs=["observations.peers"])
def ranks_fail(case: Case) -> Iterator[Finding | Reach]:
    """Ranks with an engine object each, which a launcher starts, did not come to their end, and one engine did."""
    for job in case.observations["peers"].values():
        reported = records(job)
        if job.get("ended") == "not-started":
            raise NotChecked(_not_started(job))
        if job.get("ended") == "done" and reported.get("ended") == "done":
            reach = reported.get("reach", {})
            yield Reach(
                f"{reach.get('ranks')} ranks with an engine object each, {reach.get('completions')} completions"
            )
            continue
        if any(run.get("ended") != "done" for run in rollouts(case).values()):
            raise NotApplicable("a single engine fails as well")
        if case.plan is not None and (found := seed_topology(case.plan)) is not None and found.disagreeing:
            raise NotApplicable("the ranks have different seeds (RLD310)")
        if job.get("ended") != "done":
            yield _job_failed("the peers probe", job, [])
            continue
        answers = [answer for answer in reported["ranks"] if answer["ended"] not in ("done", "absent")]
        if not answers:
            raise NotChecked(
                f"torchrun did not run its ranks here: {(reported.get('launcher') or ['without a word'])[-1]}"
            )
        yield _rank_failed(case, job, _first(answers, reported["ended"]))


def _first(answers: list[Job], ended: str) -> Job:
    """The rank to show: one that waits for others, else one that says why it ended; torchrun ends those that are
    left."""
    waiting = [answer for answer in answers if ended == "timed-out" and answer.get("waiting")]
    raised = [answer for answer in answers if answer["ended"] == "raised"]
    alone = [answer for answer in raised if not _PEER_GONE.search(failure_text({"records": answer}))]
    return (waiting or alone or raised or answers)[0]


def _rank_failed(case: Case, job: Job, rank: Job) -> Finding:
    ended = "timed-out" if records(job)["ended"] == "timed-out" else rank["ended"]
    reported = {**job, "ended": ended, "records": rank, "tail": rank["tail"]}
    here = case.gpus is not None and bool(case.gpus.devices)
    found = _job_failed(
        f"rank {rank['rank']} of {len(records(job)['ranks'])}, started by torchrun with an engine object of its own,",
        reported,
        _rollout_frames(reported),
    )
    return found if here else replace(found, severity=Severity.WARNING)


@check.concluded
def log_not_recognised(case: Case, run: LogRun) -> Iterator[Finding]:
    """The first failure of a log is a cause, and no pattern knows it. The lines that a healthy run does not write
    (``--baseline``) and the nearest patterns are told with it."""
    root = run.root
    if root is None:
        return
    reported = run.incident
    own, found = reported.user_frame, run.raised
    said = _cut_off(root) or _line(reported.exception or str(root))
    none = was_none(_first_cause(root))
    said += f" (`{none}` was None)" if none is not None else ""
    yield check.finding(
        _native_crash(root) or f"{said}: {found.said if found is not None else f'no known pattern{called_by(root)}'}",
        evidence=(
            Evidence(text=str(_first_cause(root))[:600], source=root.source, line=root.line),
            *(Evidence(text=frame, source="traceback") for frame in reported.frames[-INNERMOST:]),
            *((Evidence(text=own, source="innermost frame of your own code"),) if own else ()),
            *(Evidence(text=frame, source="native stack") for frame in _native_frames(root, run)[:_NATIVE_SHOWN]),
            *(found.evidence if found is not None else ()),
            *run.new,
            *(Evidence(text=f"not {n.code} {n.name}: {n.reason}", source="near") for n in run.near),
        ),
        fixes=(*_of_services(root), *(found.fixes if found is not None else ()), *_of_log(case, run, root)),
    )


_THE_REST = Fix(
    title="judge the log with the lines that follow: the exception and its message stand below the last frame"
)


def _cut_off(root: LoggedException) -> str | None:
    """Where a traceback ends that has no exception, None where it has one."""
    if not root.is_cut_off or not root.frames:
        return None
    last = root.frames[-1]
    return f"a traceback is cut off in {last.function} ({last.file}{f':{last.line}' if last.line is not None else ''})"


# The interpreter's own word for a crash below Python. Alone it is no phrase to search for.
_NATIVE = re.compile(r"(?:Segmentation fault|Bus error|Illegal instruction|Floating-point exception)")
_NATIVE_STACK = Fix(
    title="the crash is in native code, below the innermost Python frame: see its stack",
    commands=("gdb -batch -ex run -ex bt --args python SCRIPT",),
)


def _native_crash(root: LoggedException) -> str | None:
    """A crash below Python, by the innermost Python frame, which called what crashed; None for anything else."""
    if not _NATIVE.fullmatch(root.message) or not root.frames:
        return None
    last = root.frames[-1]
    return f"{root.message} in native code, called by {last.function} ({last.file}:{last.line})"


_NATIVE_SHOWN = 3
_SIGNALLED = re.compile(r"SIG[A-Z]{3,5}|Segmentation fault|Bus error|Illegal instruction|Floating.point exception")
# A frame as absl and glog, UCX, torch's handler, torch's exceptions, Ray and gdb write it.
_NATIVE_FRAME = re.compile(
    r"(?m)^[ \t]*(?:(?:PC: )?@\s+0x[0-9a-f]+\s+(?:\(unknown\)|\d+)\s+(?P<absl>[\w:~]+)"
    r"|\d+ +0x[0-9a-f]{6,} (?P<ucx>[\w:~]+)|File \"<unknown>\", line 0, in (?P<torch>[\w:~]+)"
    r"|frame #\d+: (?P<c10>[\w:~]+)"
    r"|\S+\.so\S*\(\S*\) \[0x[0-9a-f]+\] (?P<ray>[\w:~]+)|#\d+ +(?:0x[0-9a-f]+ in )?(?P<gdb>[A-Za-z_][\w:~]*) \()"
)
# What every such stack goes through: the handler, the throw, the interpreter, the thread.
_EVERY_STACKS = re.compile(
    r"_*(?:sigaction|restore_rt|pthread_kill|GI_raise|gsignal|raise|killpg|abort|clone\d?|start_thread|libc_\w+|cxa_\w+)$"
    r"|_?Py|PyObject|std::|ray::(?:operator|RayLog)|c10::(?:Error|detail|\w*Error\b)|c10::cuda::c10_cuda_check|ucs_|absl::"
)


def _native_frames(root: LoggedException, run: LogRun) -> list[str]:
    """The functions of the native stack that a failure prints, innermost first, without those that each has."""
    first = str(root.message or root.type).split("\n", 1)[0].strip()
    below = itertools.dropwhile(lambda text: first not in text, run.tail)
    text = "\n".join((root.message, *(below if first else ())))
    named = (next(filter(None, match.groups())) for match in _NATIVE_FRAME.finditer(text))
    return list(dict.fromkeys(name for name in named if not _EVERY_STACKS.match(name)))


# They validate and carry for whoever calls them.
_FOR_OTHERS = ("pydantic", "httpcore", "httpx", "urllib3", "requests", "aiohttp", "anyio")


def _of_log(case: Case, run: LogRun, root: LoggedException) -> Iterator[Fix]:
    """What to look for, and in which package: that of the innermost frame that belongs to one."""
    link = _first_cause(root)
    native = _NATIVE.fullmatch(link.message) is not None
    if native:
        yield _NATIVE_STACK
    called = [(package_of(frame.file, frame.function), frame) for frame in reversed(link.frames)]
    named = [(name, frame) for name, frame in called if name not in (None, "python")]
    askers = [(name, frame) for name, frame in named if name not in _FOR_OTHERS]
    package, asker = next(iter(askers or named), (None, None))
    function = asker.function if asker is not None else ""
    name = distribution(package, case.packages)
    release = run.versions.get(name) or version_of(name, case) if name else ""
    if link.is_cut_off:
        yield _THE_REST
        last = link.frames[-1] if link.frames else None
        if last is not None and last.code and package_of(last.file, last.function) == package:
            yield _search(last.code, name, release, function)
    elif not link.frames and (stack := _native_frames(root, run)):
        crash = _SIGNALLED.search(f"{link.type} {link.message}")
        yield (
            Fix(title=f'search for {crash[0]} "{stack[0]}", the innermost function of the native stack that tells')
            if crash is not None
            else _search(_phrase(link), function=stack[0])
        )
    elif package is not None or not native:
        yield _search(_phrase(link), name, release, function, asker.code if asker is not None else "")


def _phrase(link: LoggedException) -> str:
    """What to search for: the exception's words, or the line of an assertion that has none."""
    asserted = link.frames[-1].code if link.frames and not is_users(link.frames[-1].file) else ""
    if link.message or not asserted.startswith("assert "):
        return f"{link.type}: {link.message}".removesuffix(": ")
    return asserted


def _of_services(root: LoggedException) -> Iterator[Fix]:
    said = "\n".join(f"{link.type}: {link.message}" for link in root.chain)
    yield from (fix for pattern, fixes in SERVICES if pattern.search(said) for fix in fixes)


def _first_cause(root: LoggedException) -> LoggedException:
    """The first link of a chain that says something: what is to be looked for."""
    return next((link for link in root.chain if link.message or link.frames), root)


def _import_finding(members: list[Failure], log: str, case: Case) -> Finding:
    first = members[0]
    names = ", ".join(sorted(failure.package for failure in members))
    root = first.root or {}
    where = places(root.get("frames", ()))[-INNERMOST:]
    where = where or [str(frame["text"]) for frame in fatal_frames(first.tail)[:INNERMOST]]
    serious = first.ended != "timed-out" and any(failure.package in CORE for failure in members)
    what = {"died": "its process died", "timed-out": "it did not end in time"}.get(first.ended, first.text)
    return check.finding(
        f"the import of {names} fails: {_line(what)}",
        severity=Severity.ERROR if serious else Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=(
            Evidence(text=f"{named(first.package, case)}: {first.text}"[:600], source="import probe"),
            *(Evidence(text=place, source="traceback") for place in where),
            Evidence(text="its whole output", source=log),
        ),
        fixes=(_search(what, first.package, version_of(first.package, case)),),
    )


def _job_failed(what: str, job: Job, where: list[str], others: Sequence[str] = ()) -> Finding:
    stage = records(job).get("stage")
    at = f" at stage {stage}" if stage else ""
    evidence = [Evidence(text=place, source="traceback") for place in where]
    tail = [str(line) for line in job.get("tail", ())]
    if not where and tail:
        evidence.append(Evidence(text=f"last line: {tail[-1][:300]}", source=str(job.get("log"))))
    if records(job).get("out_of_memory_kills"):
        evidence.append(
            Evidence(text="the kernel killed a process for want of memory meanwhile", source="/proc/vmstat")
        )
    if played := records(job).get("played"):
        done = f"after {played['requests']} requests in {played['cycles']} cycles of {', '.join(played['parts'])}"
        evidence.insert(0, Evidence(text=done, source="soak"))
    if others:
        evidence.append(Evidence(text=f"the same on {', '.join(others)}", source="rollout probe"))
    evidence.append(Evidence(text=f"its whole output after {job.get('seconds', 0):.0f} s", source=str(job.get("log"))))
    return check.finding(
        f"{what} {_ending(job)}{at}",
        severity=Severity.WARNING if job.get("ended") == "timed-out" else Severity.ERROR,
        grade=Grade.OBSERVED,
        evidence=tuple(evidence),
        fixes=(
            _search(_ending(job).partition(" with ")[2] or _ending(job))
            if job.get("ended") != "timed-out"
            else _MORE_TIME,
        ),
    )


def _ending(job: Job) -> str:
    error: Mapping[str, Any] = job.get("error") or {}
    if job.get("ended") == "raised":
        root = root_of(records(job).get("exceptions", ())) or error
        return f"failed with {root.get('type')}: {_line(str(root.get('message')))}"
    if job.get("ended") == "timed-out":
        return f"did not end within {job.get('seconds') or 0:.0f} s"
    if job.get("signal"):
        return f"was ended by {job['signal']}"
    return "ended without a word" if job.get("exit_code") is None else f"ended with exit code {job['exit_code']}"


def _rollout_frames(job: Job) -> list[str]:
    if job.get("ended") == "raised":
        return places(frames(job))[-INNERMOST:]
    crashed = fatal_frames(tuple(str(line) for line in job.get("tail", ())))
    return [str(frame["text"]) for frame in crashed[:INNERMOST]]


def _not_started(job: Job) -> str:
    error: Mapping[str, Any] = job.get("error") or {}
    return f"the interpreter could not be started: {error.get('message')}"


def _line(text: str) -> str:
    """The first line of a message, which carries its sense; the rest stands in the log."""
    return next((line.strip() for line in text.splitlines() if line.strip()), text)[:300]


_MORE_TIME = Fix(title="give it more time (--time-limit SECONDS); where it stands still its output ends in all stacks")
# What differs from run to run in a message: paths, addresses, numbers, what stands in quotation marks and is no name.
_OWN = re.compile(
    r"(?:/[\w.@+=-]+){2,}/?|\b0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|\b\d[\d.,:]*\d\b"
    r"|'(?![\w.<>]+')[^']{24,}'|\"(?![\w.<>]+\")[^\"]{24,}\""
)
_PHRASE = 90
_AROUND = " ,.;:='\"`"
# What the interpreter says of code by its names is a phrase as a whole.
_NAMES = re.compile(
    r"(?:type object |module )?'[\w.]+' (?:object )?has no attribute '\w+'"
    r"|\b[\w.]+\(\) (?:got an unexpected keyword argument|missing \d+ required positional arguments?:) '\w+'"
)
# What says nothing without the line that raised it.
_SAYS_LITTLE = re.compile(
    r"(?:\w+\.)*(?:IndexError|KeyError|ZeroDivisionError|StopIteration)\b|[^\n]*(?:NoneType|to unpack)"
)
# Of a validator's message the sense stands behind its head.
_VALIDATED = re.compile(r"(?s)\d+ validation errors? for \w+\s+(?P<why>.+?)(?: \[type=|\n\s*For further|$)")


def _search(said: str, package: str = "", release: str = "", function: str = "", code: str = "") -> Fix:
    """The words by which others have met a message, the longest part that is not of this run alone, and who raises
    it, with the line that does where the words say little."""
    validated = _VALIDATED.search(said)
    line = f"ValidationError: {' '.join(validated['why'].split())}" if validated is not None else _line(said)
    kind, colon, message = line.partition(": ")
    part = _bare(max(_OWN.split(message if colon else line), key=len, default=""))
    named = _NAMES.search(line)
    phrase = named[0] if named is not None else _closed(_short(part))
    kind = kind.rpartition(".")[2] if colon else ""
    words = f"{kind} " if kind and kind not in phrase else ""
    place = " of ".join(part for part in (function, f"{package} {release}".rstrip()) if part)
    line = f' at "{code[:_PHRASE]}"' if place and code and _SAYS_LITTLE.match(said) else ""
    return Fix(title=f'search for {words}"{phrase}"' + (f", raised by {place}{line}" if place else ""))


def _short(part: str) -> str:
    """The first words of a piece, the last of them whole: a name that is long tells more than what stands before it."""
    if len(part) <= _PHRASE:
        return part
    words = part[:_PHRASE].rpartition(" ")[0]
    return words if len(words) > _PHRASE // 2 else part[: part.find(" ", _PHRASE) if " " in part[_PHRASE:] else None]


def _bare(part: str) -> str:
    """A piece of a message without what stands around it; a name in quotation marks at its end keeps both."""
    bare, quoted = part.strip(_AROUND), part.strip(_AROUND.strip("'\"`"))
    return quoted if bare.count("'") % 2 and not quoted.count("'") % 2 else bare


def _closed(phrase: str) -> str:
    """The longest piece of a phrase in which every bracket has its other half: ``call wandb.login`` of ``call
    wandb.login(key=[the``; as it is where that is nothing."""
    ends, open_ = [-1], []
    for place, letter in enumerate(phrase):
        if letter in "([{":
            open_.append(place)
        elif letter in ")]}":
            if open_:
                open_.pop()
            else:
                ends.append(place)
    ends = sorted([*ends, *open_, len(phrase)])
    pieces = (_bare(phrase[first + 1 : last]) for first, last in itertools.pairwise(ends))
    return max(pieces, key=len) or phrase


# What services beside the training refuse, by their clients' own words, and the remedy. The training itself is sound,
# and ends all the same.
_NO_TRACKER = Fix(title="or report to nobody", edits=(Edit(option="trainer.trackers", value="console"),))
_OFFLINE = "export WANDB_MODE=offline"
SERVICES: tuple[tuple[re.Pattern[str], tuple[Fix, ...]], ...] = (
    (
        re.compile(r"wandb[\s\S]*(?:api_key not configured|No API key configured|API key must be|Invalid API key)"),
        (
            Fix(
                title="give wandb its key where the process runs: WANDB_API_KEY in the job's environment (on Ray also "
                "in runtime_env), as there is no terminal to type it",
                commands=("wandb login --verify",),
            ),
            Fix(title="or keep the records on the node", commands=(_OFFLINE,)),
            _NO_TRACKER,
        ),
    ),
    (
        re.compile(r"wandb[\s\S]*(?:CommError|Run initialization has timed out|Failed to establish|upsertBucket)"),
        (
            Fix(title="wandb's server is not reached: keep the records on the node", commands=(_OFFLINE,)),
            Fix(title="or correct entity and project: the key's account must be allowed to write there"),
            _NO_TRACKER,
        ),
    ),
    (
        re.compile(r"swanlab[\s\S]*(?:(?i:api[_ ]?key)|KeyFileError|ApiError|ValidationError|login)"),
        (
            Fix(
                title="give SwanLab its key where the process runs",
                commands=("export SWANLAB_API_KEY=KEY", "swanlab login"),
            ),
            Fix(title="or keep the records on the node", commands=("export SWANLAB_MODE=local",)),
            _NO_TRACKER,
        ),
    ),
    (
        re.compile(r"mlflow\.exceptions\.(?:Mlflow|Rest)Exception: "),
        (
            Fix(
                title="name an MLflow server that is up, or a folder",
                commands=("export MLFLOW_TRACKING_URI=file:///path/mlruns",),
            ),
            _NO_TRACKER,
        ),
    ),
    (
        re.compile(r"openai\.(?:Authentication|PermissionDenied|NotFound)Error: "),
        (
            Fix(
                title="set the key and the address of the API where the process runs (OPENAI_API_KEY, OPENAI_BASE_URL; "
                "on Ray in runtime_env), and name a model that the server serves",
                commands=('curl -H "Authorization: Bearer $OPENAI_API_KEY" $OPENAI_BASE_URL/models',),
            ),
        ),
    ),
    (
        re.compile(r"openai\.RateLimitError: "),
        (
            Fix(
                title="ask the API less often at once, and again after a pause (max_retries of the client), or serve "
                "the judge"
            ),
        ),
    ),
)
