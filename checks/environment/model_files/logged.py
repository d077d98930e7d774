"""How a log shows that a model does not load (RLD115): the words of hub client, transformers, safetensors and vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rldoctor.api import Case, Check, Finding, Fix, LogEvent
from rldoctor.api.models import architecture_since, model_type_since

AGAIN = Fix(
    title="download the model again (what an interrupted download or copy left is completed)",
    commands=("hf download MODEL --local-dir DIRECTORY",),
)
_PATH = Fix(
    title="name a directory that exists on every node (with a config.json), or the model's name on the hub",
    commands=("ls DIRECTORY/config.json",),
)
_OFFLINE = Fix(
    title="download the model where there is a network, put it on every node, and name that directory as the model",
    commands=("hf download MODEL --local-dir DIRECTORY",),
)
_SWITCH = Fix.unsafe("with a filled cache: keep transformers and vLLM from asking the hub", {"env.HF_HUB_OFFLINE": "1"})
_TOKEN = Fix(
    title="accept the model's licence on the hub and give a token",
    commands=("hf auth login",),
)
_TOKENIZER = Fix(
    title="put the tokenizer's files (tokenizer.json, tokenizer_config.json, vocabulary) beside the weights, or name "
    "the original model as tokenizer",
)


@dataclass(frozen=True)
class Refusal:
    """One way in which a model does not load. ``pattern`` must be found; ``said`` may use its groups."""

    literals: tuple[str, ...]
    pattern: str
    said: str
    fixes: tuple[Fix, ...]
    unless: tuple[str, ...] = ()


REFUSALS = (
    Refusal(
        ("is not a valid JSON file",),
        r"[Ii]t looks like the config file at '([^']*)' is not a valid JSON|'?(\S+?)'? is not a valid JSON file",
        "a config file of the model is not valid JSON: {0}",
        (Fix(title="restore the file (config.json, generation_config.json, ...) from the hub"), AGAIN),
    ),
    Refusal(
        (
            "We couldn't connect to '",
            "offline mode is enabled. To enable hub look-ups",
            "outgoing traffic has been disabled",
        ),
        r"couldn't connect to '([^']*)'|(offline mode is enabled)|(outgoing traffic has been disabled)",
        "the model is not on this node and the hub cannot be reached",
        (_OFFLINE, _SWITCH),
        unless=("datasets/",),
    ),
    Refusal(
        ("Repo id must be in the form", "Repo id must use alphanumeric chars"),
        r"Repo id must (?:be in the form|use alphanumeric)[^\n]*?'([^'\n]*)'\. Use"
        r"|Repo id must use alphanumeric[^:]*: '([^']*)'|Repo id must",
        "no such model directory, so its path was taken for a name on the hub: {0}",
        (_PATH,),
    ),
    Refusal(
        ("is not a local folder and is not a valid model identifier", "Incorrect path_or_model_id: '"),
        r"(\S+) is not a local folder and is not a valid model identifier|Incorrect path_or_model_id: '([^']*)'",
        "neither a local directory nor a model of the hub: {0}",
        (_PATH, _TOKEN),
    ),
    Refusal(
        ("Repository Not Found for url: ",),
        r"Repository Not Found for url: https?://[^/\s]+/(?:api/models/)?([\w.-]+/[\w.-]*\w)",
        "there is no model {0} on the hub, or this node's token may not read it",
        (_PATH, _TOKEN),
        unless=("/datasets/",),
    ),
    Refusal(
        ("401 Client Error: Unauthorized for url: ", "403 Client Error: Forbidden for url: "),
        r"40[13] Client Error: \w+ for url: https?://(?:huggingface\.co|hf-mirror\.com)/(?:api/models/)?"
        r"([\w.-]+/[\w.-]*\w)(?=/(?:resolve|raw|tree|revision)/|\s|$)",
        "the hub does not give {0} to this node: there is no such model, or its token may not read it",
        (_PATH, _TOKEN),
        unless=("/datasets/", "gated repo"),
    ),
    Refusal(
        ("429 Client Error: Too Many Requests",),
        r"Too Many Requests for url: (\S+)",
        "the hub refuses further requests from this address ({0})",
        (_OFFLINE, _SWITCH),
        unless=("/datasets/",),
    ),
    Refusal(
        ("You are trying to access a gated repo", "Cannot access gated repo for url", "Access to model "),
        r"gated repo|Access to model (\S+) is restricted",
        "the model is gated and this node has no token that may read it",
        (_TOKEN, _OFFLINE),
    ),
    Refusal(
        ("Error while deserializing header: ", "incomplete metadata, file not fully covered"),
        r"Error while deserializing header: (.+)",
        "a safetensors file is cut off or no weights at all: {0}",
        (
            Fix(title="compare the size of each *.safetensors with the hub's, and fetch the short one again"),
            Fix(title="if it is a Git LFS pointer: fetch the file itself", commands=("git lfs pull",)),
            AGAIN,
        ),
    ),
    Refusal(
        (
            "PytorchStreamReader failed reading",
            "invalid load key, '",
            "Unable to load weights from pytorch checkpoint file",
        ),
        r"PytorchStreamReader failed reading ([^\n]*)|invalid load key, '(.)'"
        r"|load weights from pytorch checkpoint file for '([^']*)'",
        "a weight file cannot be read: it is cut off, or a pointer of git LFS",
        (AGAIN, Fix(title="fetch what pointers of git LFS stand for", commands=("git lfs pull",))),
    ),
    Refusal(
        ("Cannot find any model weights with `", "Error no file named ", "does not appear to have a file named"),
        r"Cannot find any model weights with `([^`]*)`|no file named [^\n]*? found in directory (\S+)"
        r"|(\S+) does not appear to have a file named (\S+?)\.? ",
        "the model's directory lacks a file that is needed: {0}",
        (AGAIN, Fix(title="where it is a training checkpoint: convert it to the Hugging Face format first")),
        unless=("adapter_config.json", "chat_template", "processor_config"),
    ),
    Refusal(
        (
            "Can't load tokenizer for '",
            "Couldn't instantiate the backend tokenizer",
            "does not exist or is not currently imported",
        ),
        r"Can't load tokenizer for '([^']*)'|(Couldn't instantiate the backend tokenizer)"
        r"|Tokenizer class (\w+) does not exist",
        "the tokenizer cannot be loaded: {0}",
        (_TOKENIZER, Fix(title="or install the transformers release that the tokenizer was saved with")),
    ),
    Refusal(
        ("Unrecognized model in ", "Should have a `model_type` key in its config.json"),
        r"Unrecognized model in (\S+?)\.? ",
        "config.json names no model type that transformers knows: {0}",
        (_PATH, Fix(title="or restore config.json of the model (an adapter's directory has none)")),
    ),
    Refusal(
        ("Failed to load the model config. If the model is a custom model",),
        r"Failed to load the model config",
        "the model has code of its own, or this transformers does not know it",
        (Fix.unsafe("let its code run, where you trust it", {"engine.trust_remote_code": True}),),
    ),
    Refusal(
        ("Please pass the argument `trust_remote_code=True`",),
        r"(\S+) contains custom code which must be executed|trust_remote_code=True",
        "the model has code of its own, and running it is not allowed",
        (Fix.unsafe("let its code run, where you trust it", {"model.trust_remote_code": True}),),
    ),
    Refusal(
        ("No model architectures are specified",),
        r"No model architectures are specified",
        "config.json names no architecture",
        (Fix(title='write "architectures": ["..."] into config.json, as the original model has it'),),
    ),
)


def register(check: Check) -> None:
    """Gives a check the signatures of this module."""

    for refusal in REFUSALS:
        _add(check, refusal)

    @check.logged(
        "are not supported for now. Supported architectures", "has no vLLM implementation and the Transformers"
    )
    def architecture(case: Case, event: LogEvent) -> Iterator[Finding]:
        """The engine's registry has no such class."""
        found = event.search(r"architectures \['?([^'\]]+)'?\] are not supported|(\w+) has no vLLM implementation and")
        if found is None:
            return
        name = found[1] or found[2]
        since = architecture_since(name)
        yield check.finding(
            f"this vLLM has no implementation of {name}" + (f" (it came with {since})" if since else ""),
            fixes=(
                Fix(
                    title=f"take a vLLM that has it: {since.release} or later",
                    commands=(f"pip install 'vllm>={since.release}'",),
                    valid_for=f"vllm<{since.release}",
                )
                if since
                else Fix(title="write the class that vLLM has for this model into config.json's architectures"),
            ),
            url="https://docs.vllm.ai/en/latest/models/supported_models.html",
        )

    @check.logged(" exceeds dimension size (")
    def other_shapes(case: Case, event: LogEvent) -> Iterator[Finding]:
        """A shard of a weight is taken from a tensor of another size while the model is loaded."""
        sizes = event.search(r"length \((\d+)\) exceeds dimension size \((\d+)\)")
        error = event.exception
        if sizes is None or error is None or not any("load_model" in frame.function for frame in error.frames):
            return
        yield check.finding(
            f"the saved weights and config.json disagree on a size: {sizes[1]} in the config, {sizes[2]} in the "
            f"weights",
            fixes=(Fix(title="take the config.json that the weights were saved with, or save them again"), AGAIN),
        )

    @check.logged("Transformers does not recognize this architecture", "KeyError: '")
    def model_type(case: Case, event: LogEvent) -> Iterator[Finding]:
        """transformers' registry has no such type; its first words differ over the releases."""
        found = event.search(r"has model type `(\w+)` but Transformers does not recognize")
        if found is None and event.exception is not None and event.exception.type == "KeyError":
            frames = event.exception.frames[-2:]
            if any("configuration_auto.py" in frame.file for frame in frames):
                found = re.search(r"'(\w+)'", event.exception.message)
        if found is None:
            return
        since = model_type_since(found[1])
        yield check.finding(
            f"this transformers does not know the model type {found[1]}"
            + (f" (it came with {since})" if since else ""),
            fixes=(
                Fix(
                    title=f"take a transformers that has it{f': {since.release} or later' if since else ''}",
                    commands=(
                        f"pip install 'transformers>={since.release}'" if since else "pip install -U transformers",
                    ),
                ),
            ),
        )


def _add(check: Check, refusal: Refusal) -> None:
    @check.logged(*refusal.literals, unless=refusal.unless)
    def refused(case: Case, event: LogEvent) -> Iterator[Finding]:
        found = event.search(refusal.pattern)
        # A model that does not load ends the program; the same words in a warning are about an optional file.
        if found is None or (event.exception is None and not event.fatal):
            return
        named = ", ".join(group for group in found.groups() if group) or "see the message"
        yield check.finding(refusal.said.format(named[:200]), fixes=refusal.fixes)
