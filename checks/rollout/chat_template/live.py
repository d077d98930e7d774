"""What the tokens scenario shows: the rendered conversation, and how completions end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, NotChecked, Reach, Severity, cite

from ...exceptions import root_of
from ...observed.answers import no_stop_tokens, require_own, require_true_ends
from ...observed.rollout import Job, describe, records, require, runs
from . import MEND, URL, asks_for_template, check, templates

OTHER = "an end that generation_config.json names"
ENDS = {"eos": "the tokenizer's end of sequence", "turn": "the template's end of turn", "other": OTHER}


@check.observed(needs=["observations.tokens"])
def rendered(case: Case) -> Iterator[Finding | Reach]:
    """A question and an answer, as this environment's transformers renders them."""
    asks = case.plan is not None and asks_for_template(case.plan)
    files = templates(case.model) if case.model is not None else []
    for job in runs(case, "tokens"):
        tokenizer, template = require(job, "tokenizer"), require(job, "template")
        if "exceptions" in template:
            root = root_of(template["exceptions"]) or {}
            yield check.finding(
                f"the chat template raises on a plain question and answer: {root.get('message')}"[:300],
                severity=Severity.ERROR if asks else Severity.WARNING,
                grade=Grade.OBSERVED,
                evidence=(Evidence(text=str(root.get("type")), source="tokens probe"),),
                fixes=(MEND,),
                url=URL,
            )
        elif not template["given"]:
            if files and asks:
                yield check.finding(
                    f"the template in {files[0]} is not found by this transformers, which refuses to render prompts",
                    grade=Grade.OBSERVED,
                    evidence=(
                        _version(job),
                        *(cite(case.plan, "model.apply_chat_template") if case.plan is not None else ()),
                    ),
                    fixes=(
                        Fix(
                            title="copy the template into tokenizer_config.json (chat_template), or a newer "
                            "transformers"
                        ),
                    ),
                    url=URL,
                )
            yield Reach("the tokenizer has no chat template")
        elif template["ids"][:2] == [tokenizer["bos"]] * 2:
            yield check.finding(
                f"the chat template begins the sequence twice: token ids {template['ids'][:4]}",
                severity=Severity.WARNING,
                grade=Grade.OBSERVED,
                evidence=(Evidence(text=f"rendered: {template['text'][:80]!r}", source="tokens probe"),),
                fixes=(Fix(title="take the second {{ bos_token }} out of the template"),),
                url=URL,
            )
        else:
            twice = template["encoded"][:2] == [tokenizer["bos"]] * 2
            yield Reach(
                f"{len(template['ids'])} tokens of a question"
                + (" (tokenize its text with add_special_tokens=False, or it begins twice)" if twice else "")
                + ("" if tokenizer["own"] else ", on a tokenizer of bytes")
            )


@check.observed(needs=["observations.tokens"])
def read_by_the_engine(case: Case) -> Iterator[Finding | Reach]:
    """Prompts that are handed over as text, or as messages, against the tokenizer's own ids."""
    require_own(case)
    for job in runs(case, "tokens"):
        require(job, "tokenizer")
        found = require(job, "read")
        rows = [row for row in found if "refused" not in row]
        if not rows:
            raise NotChecked(f"the engine takes no text: {found[0]['refused'] if found else 'none was given'}"[:300])
        wrong = [row for row in rows if row["engine"] != row["tokenizer"]]
        if wrong:
            what = " and ".join(dict.fromkeys(row["about"] for row in wrong))
            yield check.finding(
                f"{describe(job)} reads {what} as other tokens than the tokenizer makes of it with the same files",
                # Many frameworks render conversations themselves.
                severity=Severity.WARNING if what == "messages" else Severity.ERROR,
                grade=Grade.OBSERVED,
                evidence=tuple(
                    Evidence(text=f"{row['about']}: {_first_difference(row)}", source="tokens probe") for row in wrong
                ),
                fixes=(
                    Fix(
                        title="hand token ids to the engine, or releases of vLLM and transformers that fit",
                        commands=("rldoctor compat",),
                    ),
                ),
            )
        else:
            yield Reach(f"reads {', '.join(row['about'] for row in rows)} as the tokenizer does")


def _first_difference(row: dict[str, Any]) -> str:
    engine, own = row["engine"], row["tokenizer"]
    place = next((n for n, pair in enumerate(zip(engine, own, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(engine), len(own)) if place is None else place
    return f"from place {at} on {engine[at : at + 4]} for {own[at : at + 4]}, {len(engine)} tokens for {len(own)}"


@check.observed(needs=["observations.tokens"])
def ends_of_completions(case: Case) -> Iterator[Finding | Reach]:
    """The engine, made to choose the end of sequence and the end of turn."""
    require_own(case)
    require_true_ends(case)
    for job in runs(case, "tokens"):
        require(job, "tokenizer")
        ends = require(job, "ends")
        for name, what in ENDS.items():
            reported = ends.get(name)
            if reported is None or (name == "turn" and reported["token"] == ends.get("eos", {}).get("token")):
                continue
            if reported["token"] not in reported["token_ids"]:
                yield check.finding(
                    f"{describe(job)} leaves {what} ({reported['token']}) out of its completions: they look cut off",
                    grade=Grade.OBSERVED,
                    evidence=(_asked(reported),),
                    fixes=(Fix(title="keep the token ids as the engine gives them, and another release of vLLM"),),
                )
            elif reported["finish_reason"] != "stop":
                # Other ends than the first are stop tokens to the engine.
                if name != "eos" and no_stop_tokens(case):
                    raise NotApplicable("stop_token_ids are not applied as they are asked for (RLD219)")
                yield _runs_on(case, job, reported, what)
            else:
                yield Reach(f"stops at {what} ({reported['token']}) and keeps it")


def _runs_on(case: Case, job: Job, reported: dict[str, Any], what: str) -> Finding:
    ids = list(case.plan.value("sampling.stop_token_ids") or ()) if case.plan is not None else []
    return check.finding(
        f"{describe(job)} does not stop at {what} ({reported['token']}): a policy that ends its turns runs on to the "
        "length limit",
        # Base models are prompted with templates on purpose, and learn to stop.
        severity=Severity.NOTE if what.startswith("the template") else Severity.ERROR,
        grade=Grade.REPRODUCED if case.plan is not None else Grade.OBSERVED,
        evidence=(
            _asked(reported),
            *(cite(case.plan, "sampling.stop", "sampling.stop_token_ids") if case.plan else ()),
        ),
        fixes=(
            Fix.unsafe(
                "stop there: a stop token of sampling"
                + ("" if what == OTHER else ", or an eos_token_id in generation_config.json"),
                {"sampling.stop_token_ids": [*ids, reported["token"]]},
                side_effects="completions end where they ran on before",
            ),
        ),
        url="https://github.com/huggingface/open-r1/issues/271",
    )


def _asked(reported: dict[str, Any]) -> Evidence:
    return Evidence(
        text=f"made to choose {reported['token']} it gave {reported['token_ids']} "
        f"and finished with {reported['finish_reason']}",
        source="tokens probe",
    )


def _version(job: Job) -> Evidence:
    return Evidence(text=f"transformers {records(job).get('versions', {}).get('transformers')}", source="tokens probe")
