"""Observations as the probes leave them, for tests that judge one."""

from __future__ import annotations

from typing import Any

from rldoctor.api import Case, RolloutPlan
from rldoctor.api.facts import Distribution, Packages


def link(type_: str, message: str, *places: str, **more: Any) -> dict[str, Any]:
    """One exception of a chain. A place is ``package/file.py:line``; libraries in the message belong to the package
    above them."""
    frames = [
        {
            "file": f"/venv/lib/python3.11/site-packages/{place.partition(':')[0]}",
            "line": int(place.partition(":")[2] or 1),
            "function": "<module>",
            "package": place.partition("/")[0].partition(".")[0],
        }
        for place in places
    ]
    files = [word.strip("`'():") for word in message.split() if ".so" in word and "site-packages/" in word]
    libraries = [
        {"file": f, "package": f.partition("site-packages/")[2].partition("/")[0].split(".")[0]} for f in files
    ]
    reported = {"type": type_, "message": message, "frames": frames, "libraries": libraries, "name": None, "link": None}
    return {**reported, **more}


def failed(*links: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An import that raised."""
    return {"ended": "raised", "version": None, "exceptions": list(links), "exit_code": 1, "tail": [], **more}


def died(exit_code: int, *tail: str, **more: Any) -> dict[str, Any]:
    """An import whose process fell by a signal."""
    return {"ended": "died", "version": None, "exceptions": [], "exit_code": exit_code, "tail": list(tail), **more}


def imported(version: str = "1.0", **more: Any) -> dict[str, Any]:
    return {"ended": "done", "version": version, "through": None, **more}


def packages(requires: dict[str, list[str]] | None = None, **versions: str) -> Packages:
    """Installed distributions by name, with what they declare; an underscore in a name stands for a hyphen."""
    named = {name.replace("_", "-"): version for name, version in versions.items()}
    distributions = tuple(
        Distribution(name=name, version=version, requires=tuple((requires or {}).get(name, ())))
        for name, version in named.items()
    )
    return Packages(python="3.11", distributions=distributions, executable="/venv/bin/python")


def imports_case(installed: Packages, **reported: dict[str, Any]) -> Case:
    """A case in which the import probe ran; an underscore in a name stands for a hyphen."""
    records = {"packages": {name.replace("_", "-"): record for name, record in reported.items()}}
    job = {"ended": "done", "records": records, "log": "/tmp/log.txt", "tail": [], "seconds": 9.0}
    return Case(packages=installed, observations={"imports": {"stack": job}})


def completion(
    token_ids: list[int], logprob: float | str = -4.0, request: str = "group", **more: Any
) -> dict[str, Any]:
    reported = {
        "request": request,
        "temperature": 1.0,
        "seed": None,
        "max_tokens": 16,
        "index": 0,
        "finish_reason": "length",
    }
    return {**reported, "token_ids": token_ids, "logprobs": [logprob] * len(token_ids), **more}


def rollout_case(ended: str = "done", job: dict[str, Any] | None = None, **records: Any) -> Case:
    """A case in which the rollout probe ran on a healthy engine, but for the records that are given."""
    healthy: dict[str, Any] = {
        "stage": "generate again",
        "versions": {"vllm": "0.11.0"},
        "engine": {"engine": "V1", "device": "cuda", "max_model_len": 2048, "enforce_eager": True, "seed": 0},
        "devices": {
            "expected": "cuda:0",
            "parameters": {"count": {"cuda:0": 17}, "elsewhere": {}},
            "buffers": {"count": {"cuda:0": 2}, "elsewhere": {}},
            "kv_cache": {"count": {"cuda:0": 2}, "elsewhere": {}},
        },
        "rotary": [{"module": "model.rotary_emb", "kind": "RotaryEmbedding", "rows": 2048}],
        "completions": [completion(list(range(i, i + 16)), index=i) for i in range(8)],
        "unread": {},
        "reach": {"completions": 8, "sampled_tokens": 128},
    }
    reported = {name: value for name, value in {**healthy, **records}.items() if value is not None}
    made = {"ended": ended, "records": reported, "seconds": 15.0, "log": "/tmp/log.txt", "tail": [], **(job or {})}
    return Case(packages=packages(vllm="0.11.0", torch="2.8.0"), observations={"rollout": {"miniature": made}})


def scenario_case(
    scenario: str,
    ended: str = "done",
    plan: RolloutPlan | None = None,
    engine: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None,
    **records: Any,
) -> Case:
    """A case in which one run of a scenario recorded this on a miniature in bfloat16."""
    reported = {
        "versions": {"vllm": "0.11.0", "transformers": "4.57.0"},
        "miniature": {"weights": "written", "like": None},
        "engine": {"engine": "V1", "device": "cuda", "dtype": "bfloat16", "enforce_eager": True, **(engine or {})},
        "unread": {},
        "reach": {"longest": 48},
        **records,
    }
    made = {"ended": ended, "records": reported, "seconds": 2.0, "log": "/tmp/log.txt", "tail": [], "boot": "miniature"}
    observations = {scenario: {scenario: {**made, **(job or {})}}, "rollout": {}}
    return Case(packages=packages(vllm="0.11.0"), plan=plan, observations=observations)
