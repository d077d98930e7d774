"""How a log shows that a model does not load (RLD115): the words of hub client, transformers, safetensors and vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent
from rldoctor.api.logs import is_users
from rldoctor.api.models import architecture_since, model_type_since

from ...observed.loading import COMPARES_SHAPES, loads_its_checkpoint
from . import AGAIN, check

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
_UPGRADE = "pip install --upgrade transformers tokenizers"


def _is_not_loaded(case: Case, event: LogEvent) -> bool:
    """A model that does not load ends the program; the same words in a warning are about an optional file."""
    return event.exception is not None or event.fatal


check.signature(
    "is not a valid JSON file",
    pattern=r"[Ii]t looks like the config file at '(?P<file>[^']*)' is not a valid JSON|"
    r"'?(?P<file_2>\S+?)'? is not a valid JSON file",
    when=_is_not_loaded,
    says="a config file of the model is not valid JSON: {file}",
    fixes=(Fix(title="restore the file (config.json, generation_config.json, ...) from the hub"), AGAIN),
)
check.signature(
    "We couldn't connect to '",
    "offline mode is enabled. To enable hub look-ups",
    "outgoing traffic has been disabled",
    unless=("datasets/",),
    pattern=r"couldn't connect to '|offline mode is enabled|outgoing traffic has been disabled",
    when=_is_not_loaded,
    says="the model is not on this node and the hub cannot be reached",
    fixes=(_OFFLINE, _SWITCH),
)
check.signature(
    "Repo id must be in the form",
    "Repo id must use alphanumeric chars",
    pattern=r"Repo id must (?:be in the form|use alphanumeric)[^\n]*?'(?P<path>[^'\n]*)'\. Use"
    r"|Repo id must use alphanumeric[^:]*: '(?P<path_2>[^']*)'|Repo id must",
    when=_is_not_loaded,
    says="no such model directory, so its path was taken for a name on the hub: {path|see the message}",
    fixes=(_PATH,),
)
check.signature(
    "is not a local folder and is not a valid model identifier",
    "Incorrect path_or_model_id: '",
    pattern=r"(?P<model>\S+) is not a local folder and is not a valid model identifier|"
    r"Incorrect path_or_model_id: '(?P<model_2>[^']*)'",
    when=_is_not_loaded,
    says="neither a local directory nor a model of the hub: {model}",
    fixes=(_PATH, _TOKEN),
)
check.signature(
    "Repository Not Found for url: ",
    unless=("/datasets/",),
    pattern=r"Repository Not Found for url: https?://[^/\s]+/(?:api/models/)?(?P<model>[\w.-]+/[\w.-]*\w)",
    when=_is_not_loaded,
    says="there is no model {model} on the hub, or this node's token may not read it",
    fixes=(_PATH, _TOKEN),
)
check.signature(
    "401 Client Error: Unauthorized for url: ",
    "403 Client Error: Forbidden for url: ",
    unless=("/datasets/", "gated repo"),
    pattern=r"40[13] Client Error: \w+ for url: https?://(?:huggingface\.co|hf-mirror\.com)/(?:api/models/)?"
    r"(?P<model>[\w.-]+/[\w.-]*\w)(?=/(?:resolve|raw|tree|revision)/|\s|$)",
    when=_is_not_loaded,
    says="the hub does not give {model} to this node: there is no such model, or its token may not read it",
    fixes=(_PATH, _TOKEN),
)
check.signature(
    "429 Client Error: Too Many Requests",
    unless=("/datasets/",),
    pattern=r"Too Many Requests for (?i:url): (?P<url>\S{1,200})",
    when=_is_not_loaded,
    says="the hub refuses further requests from this address ({url})",
    fixes=(_OFFLINE, _SWITCH),
)
check.signature(
    "You are trying to access a gated repo",
    "Cannot access gated repo for url",
    "Access to model ",
    pattern=r"gated repo|Access to model \S+ is restricted",
    when=_is_not_loaded,
    says="the model is gated and this node has no token that may read it",
    fixes=(_TOKEN, _OFFLINE),
)
check.signature(
    "Error while deserializing header: ",
    "incomplete metadata, file not fully covered",
    pattern=r"Error while deserializing header: (?P<error>.{1,200})",
    when=_is_not_loaded,
    says="a safetensors file is cut off or no weights at all: {error}",
    fixes=(
        Fix(title="compare the size of each *.safetensors with the hub's, and fetch the short one again"),
        Fix(title="if it is a Git LFS pointer: fetch the file itself", commands=("git lfs pull",)),
        AGAIN,
    ),
)
check.signature(
    "PytorchStreamReader failed reading",
    "invalid load key, '",
    "Unable to load weights from pytorch checkpoint file",
    pattern=r"PytorchStreamReader failed reading|invalid load key, '.'|load weights from pytorch checkpoint file for '",
    when=_is_not_loaded,
    says="a weight file cannot be read: it is cut off, or a pointer of git LFS",
    fixes=(AGAIN, Fix(title="fetch what pointers of git LFS stand for", commands=("git lfs pull",))),
)
check.signature(
    "Following weights were not initialized from checkpoint",
    pattern=r"weights were not initialized from checkpoint: \{'(?P<name>[^'\n]{1,200})'",
    when=_is_not_loaded,
    says="the checkpoint lacks weights that this architecture has ({name} among them)",
    fixes=(
        Fix(
            title="save the whole model (its vision part and its head, too), or name in config.json the architecture "
            "that the weights are of"
        ),
        Fix(
            title="see under which names they were saved",
            commands=('grep -o \'"[^"]*weight"\' DIRECTORY/*.index.json',),
        ),
    ),
    url="https://github.com/modelscope/ms-swift/issues/9172",
)
check.signature(
    "Cannot find any model weights with `",
    "Error no file named ",
    "does not appear to have a file named",
    unless=("adapter_config.json", "chat_template", "processor_config"),
    pattern=r"Cannot find any model weights with `(?P<where>[^`]*)`|"
    r"no file named [^\n]*? found in directory (?P<where_2>\S+)|"
    r"(?P<where_3>\S+) does not appear to have a file named (?P<file>\S+?)\.?(?: |$)",
    when=_is_not_loaded,
    says="the model's directory lacks a file that is needed: {where}[[, {file}]]",
    fixes=(AGAIN, Fix(title="where it is a training checkpoint: convert it to the Hugging Face format first")),
)
check.signature(
    "Can't load tokenizer for '",
    "Couldn't instantiate the backend tokenizer",
    "does not exist or is not currently imported",
    pattern=r"Can't load tokenizer for '(?P<what>[^']*)'|(?P<what_2>Couldn't instantiate the backend tokenizer)"
    r"|Tokenizer class (?P<what_3>\w+) does not exist",
    when=_is_not_loaded,
    says="the tokenizer cannot be loaded: {what}",
    fixes=(_TOKENIZER, Fix(title="or install the transformers release that the tokenizer was saved with")),
)
check.signature(
    "did not match any variant of untagged enum ",
    pattern=r"untagged enum (?P<part>\w+) at line \d+",
    when=_is_not_loaded,
    says="tokenizer.json is of a form that the installed tokenizers does not know ({part})",
    fixes=(
        Fix(title="take the transformers and tokenizers that it was saved with, or later ones", commands=(_UPGRADE,)),
        AGAIN,
    ),
    url="https://github.com/huggingface/tokenizers/issues/1366",
)
check.signature(
    "could not parse ModelProto from ",
    pattern=r"could not parse ModelProto from (?P<file>\S+)",
    when=_is_not_loaded,
    says="the SentencePiece model is cut off, or a pointer of git LFS: {file}",
    fixes=(AGAIN, Fix(title="fetch what pointers of git LFS stand for", commands=("git lfs pull",))),
)
check.signature(
    "Unrecognized model in ",
    "Should have a `model_type` key in its config.json",
    pattern=r"Unrecognized model in (?P<model>\S+?)\.? ",
    when=_is_not_loaded,
    says="config.json names no model type that transformers knows: {model}",
    fixes=(_PATH, Fix(title="or restore config.json of the model (an adapter's directory has none)")),
)
check.signature(
    "Failed to load the model config. If the model is a custom model",
    when=_is_not_loaded,
    says="the model has code of its own, or this transformers does not know it",
    fixes=(Fix.unsafe("let its code run, where you trust it", {"engine.trust_remote_code": True}),),
)
check.signature(
    "Please pass the argument `trust_remote_code=True`",
    when=_is_not_loaded,
    says="the model has code of its own, and running it is not allowed",
    fixes=(Fix.unsafe("let its code run, where you trust it", {"model.trust_remote_code": True}),),
)
check.signature(
    "No model architectures are specified",
    when=_is_not_loaded,
    says="config.json names no architecture",
    fixes=(Fix(title='write "architectures": ["..."] into config.json, as the original model has it'),),
)


@check.logged("are not supported for now. Supported architectures", "has no vLLM implementation and the Transformers")
def architecture(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The engine's registry has no such class."""
    found = event.search(r"architectures \['?([^'\]]+)'?\] are not supported|(\w+) has no vLLM implementation and")
    if found is None:
        return
    name = found[1] or found[2]
    if f"'{name}'" in event.line[event.line.find(event.literal) :]:
        return  # it has the class, and could not look at it
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


# A weight of the checkpoint, or a shard of one, has another size than the model made of config.json.
check.signature(
    " exceeds dimension size (",
    "Attempted to load weight (",
    "must match the size of tensor b",
    *COMPARES_SHAPES,
    details=(
        r"length \((?P<wanted>\d+)\) exceeds dimension size \((?P<there>\d+)\)"
        r"|load weight \(torch\.Size\((?P<there_2>.+?)\)\) into parameter \(torch\.Size\((?P<wanted_2>.+?)\)\)"
        r"|size of tensor a \((?P<wanted_3>\d+)\) must match the size of tensor b \((?P<there_3>\d+)\)",
    ),
    when=lambda case, event: (
        loads_its_checkpoint(event)
        and (" tensor b" not in event.literal or event.search("load_weights|weight_loader") is not None)
    ),
    says="the saved weights and config.json disagree on a size[[: {wanted} in the config, {there} in the weights]]",
    fixes=(Fix(title="take the config.json that the weights were saved with, or save them again"), AGAIN),
)


# A model's own ``load_weights`` looks each name of the checkpoint up in a dictionary.
check.signature(
    "KeyError: '",
    pattern=r"KeyError: '(?P<name>(?:[\w-]+\.){2,}[\w.]+)'",
    exception="KeyError",
    when=lambda case, event: event.search(r"load_weights") is not None and loads_its_checkpoint(event),
    says="the checkpoint has a weight that the engine's class of this model has no place for: {name}",
    fixes=(
        Fix(
            title="scales and packed weights (weight_scale, qweight): the engine reads the checkpoint as another "
            "quantization than it was saved with: take one that this release knows, and leave --quantization out"
        ),
        Fix(
            title="else a release of the engine that is not older than the model, and a checkpoint in the form that "
            "its publisher gave it",
            commands=("pip install --upgrade vllm",),
        ),
    ),
    url="https://github.com/vllm-project/vllm/issues/23025",
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
        f"this transformers does not know the model type {found[1]}" + (f" (it came with {since})" if since else ""),
        fixes=(
            Fix(
                title=f"take a transformers that has it{f': {since.release} or later' if since else ''}",
                commands=(f"pip install 'transformers>={since.release}'" if since else "pip install -U transformers",),
            ),
        ),
    )


# What urllib3 says of the hubs' own hosts.
_HUB = r"host='(?P<host>huggingface\.co|hf-mirror\.com|cdn-lfs[\w.-]*|cas-\w+\.[\w.-]*hf\.co|(?:www\.)?modelscope\.cn)'"
check.signature(
    "host='huggingface.co'",
    "host='hf-mirror.com'",
    "host='cdn-lfs",
    "host='cas-",
    "modelscope.cn'",
    unless=("CERTIFICATE_VERIFY_FAILED", "We couldn't connect to '"),
    pattern=_HUB + r"[\s\S]{0,600}?(?P<why>Failed to resolve|Name or service not known|Temporary failure in name "
    r"resolution|Connection refused|Network is unreachable|Read timed out|Connection aborted|timed out)",
    exception=("ConnectionError", "ConnectTimeout", "ReadTimeout", "MaxRetryError", "ProxyError"),
    when=lambda case, event: event.fatal,
    says="this node does not reach {host}: {why}",
    fixes=(_OFFLINE, _SWITCH, Fix(title="or name a mirror that it reaches", commands=("export HF_ENDPOINT=URL",))),
)
check.signature(
    "CERTIFICATE_VERIFY_FAILED",
    pattern=_HUB,
    when=lambda case, event: event.fatal,
    says="the certificate that {host} shows to this node is not one that it trusts: a proxy stands between",
    fixes=(
        Fix(
            title="give Python the proxy's certificates",
            commands=(
                "export REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=$REQUESTS_CA_BUNDLE",
            ),
        ),
        _OFFLINE,
    ),
)
# LLaMA-Factory, as it looks for the value head beside a reward model's weights or adapter.
check.signature(
    "Reward model is not correctly loaded",
    "load_valuehead_params(model, ",
    exception="AssertionError",
    says="the reward model's folder holds no value head (value_head.safetensors or value_head.bin): it was not trained "
    "as a reward model, by another release, or this is the folder of a checkpoint without it",
    fixes=(
        Fix(title="name the folder in which the reward training ended", commands=("ls REWARD_MODEL/value_head*",)),
        Fix(title="or train the reward model (stage: rm) with this release"),
    ),
    url="https://github.com/hiyouga/LLaMA-Factory/issues/857",
)
check.signature(
    "does not have a padding token",
    pattern=r"tokenizer does not have a padding token",
    exception="ValueError",
    says="the tokenizer names no padding token, and sequences of several lengths are to be padded",
    fixes=(
        Fix(title="name one where the tokenizer is loaded: tokenizer.pad_token = tokenizer.eos_token"),
        Fix(title='or write "pad_token" into the model\'s tokenizer_config.json'),
    ),
    url="https://huggingface.co/docs/transformers/pad_truncation",
)
# transformers/models/*/modeling_*.py, ForSequenceClassification: it reads the model's configuration alone.
check.signature(
    "Cannot handle batch sizes > 1 if no padding token is defined",
    exception="ValueError",
    says="the configuration of the model that scores names no padding token, and sequences of several lengths are to "
    "be scored together",
    fixes=(
        Fix(title="name it in the model's configuration, too: model.config.pad_token_id = tokenizer.pad_token_id"),
        Fix(title='or write "pad_token_id" into its config.json'),
    ),
    url="https://huggingface.co/docs/transformers/pad_truncation",
)
# Frameworks go on without a processor that did not load, and fail when the first sample comes.
check.signature(
    "'NoneType' object has no attribute 'image_processor'",
    "'NoneType' object has no attribute 'video_processor'",
    "'NoneType' object has no attribute 'feature_extractor'",
    exception="AttributeError",
    pattern=r"no attribute '(?P<name>\w+)'",
    when=lambda case, event: _a_package_asks(event),
    says="no processor was loaded for the model, and {name} of it is asked for: its folder lacks the processor's "
    "files, or a package that the processor needs is not installed",
    fixes=(
        Fix(
            title="see why it does not load",
            commands=("python -c \"from transformers import AutoProcessor as P; print(P.from_pretrained('MODEL'))\"",),
        ),
        Fix(title="copy preprocessor_config.json and its kin from the base model into the checkpoint's folder"),
    ),
)


def _a_package_asks(event: LogEvent) -> bool:
    return bool(event.frames) and not is_users(event.frames[-1].file)
