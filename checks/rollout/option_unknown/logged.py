"""How parsers and config classes refuse an option."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import Case, Finding, Fix, LogEvent
from rldoctor.api.logs import package_of

from . import check


@check.logged(
    "error: unrecognized arguments: ",
    "error: ambiguous option: ",
    "error: the following arguments are required: ",
    "error: argument ",
    "error: invalid choice: ",
)
def refused_by_argparse(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``train.py: error: unrecognized arguments: --foo``."""
    text = event.line
    missing = re.search(r"following arguments are required: (.+)", text)
    ranks = re.search(r"--?local[_-]rank", text)
    if ranks:
        yield check.finding(
            "the script requires --local_rank as a command-line argument, and torchrun sets LOCAL_RANK in the "
            "environment instead"
            if missing
            else "the launcher gives --local-rank on the command line, and the script does not take it",
            fixes=(
                Fix(
                    title="read the rank from the environment: int(os.environ['LOCAL_RANK']), not from --local_rank",
                ),
                Fix(
                    title="or let the script take --local-rank too (both spellings in one add_argument) and start it "
                    "with python -m torch.distributed.launch, which passes that; before torch 2.0 it was --local_rank"
                )
                if missing
                else Fix(title="or start with torchrun, which does not pass --local-rank"),
            ),
            url="https://docs.pytorch.org/docs/stable/elastic/run.html",
        )
        return
    unknown = re.search(r"(?:unrecognized arguments|ambiguous option):[ \t]*(\S.*)", text)
    choice = re.search(r"error: argument (\S+?): (.+)", text)
    if unknown:
        options = [word for word in unknown[1].split() if word.startswith("-")] or [unknown[1].split()[0]]
        named = ", ".join(options[:5])
        yield check.finding(f"this release does not know {named}", fixes=_rename(event, options[0]))
    elif missing:
        yield check.finding(
            f"options that the program requires are not given: {missing[1]}", fixes=(Fix(title=f"give {missing[1]}"),)
        )
    elif choice:
        yield check.finding(
            f"{choice[1]} does not take the value it is given: {choice[2][:200]}",
            fixes=(Fix(title=f"give {choice[1]} a value that this release takes"),),
        )


def _rename(event: LogEvent, option: str) -> tuple[Fix, ...]:
    reported = ", ".join(f"{name} {version}" for name, version in list(event.versions.items())[:4])
    return (
        Fix(
            title=f"take {option} out, or write it as the installed release calls it"
            + (f" ({reported})" if reported else "")
        ),
        Fix(title="or install the release that the launch file was written for"),
    )


@check.logged(
    "is not in struct",
    "Could not override '",
    "Could not append to config. An item is already at",
    "Could not delete ",
    "' not in '",
    "Error merging override",
)
def refused_by_hydra(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``Key 'foo' is not in struct``, ``Could not override 'a.b.c'``."""
    found = event.search(
        r"Could not override '([^']+)'|Key '([^']+)' (?:is )?not in (?:struct|'\w+')|Error merging override (\S+)"
        r"|Could not append to config\. An item is already at '([^']+)'"
        r"|Could not delete (?:from config\. '([^']+)' does not exist|'([^']+)'\. No match in the defaults list)"
        r"|Could not delete from config\. The value of '([^']+)' is "
    )
    if found is None:
        return
    key = event.search(r"full_key: (\S+)")
    name = key[1] if key else next(group for group in found.groups() if group)
    if found[4]:
        yield check.finding(
            f"{name} exists already: a leading + is for keys that the config lacks",
            fixes=(Fix(title=f"write {name}=... or ++{name}=..."),),
        )
        return
    if found[7]:
        fix = Fix(title=f"write ~{name} without a value")
        yield check.finding(f"{name} has another value than the one that ~ is to delete", fixes=(fix,))
        return
    if found[5] or found[6]:
        fix = Fix(title=f"write the key as this release calls it, or leave ~{name} out")
        yield check.finding(f"the config of this release has no {name} that ~ could delete", fixes=(fix,))
        return
    yield check.finding(
        f"the config of this release has no {name}",
        fixes=(
            Fix(title=f"write the key as this release calls it, or take {name} out"),
            Fix(title=f"or, where the code reads it all the same, add it: +{name}=..."),
        ),
        url="https://hydra.cc/docs/advanced/override_grammar/basic/",
    )


@check.logged(
    "got an unexpected keyword argument '",
    "Some keys are not used by the HfArgumentParser",
    "Some specified arguments are not used by the HfArgumentParser",
    "remaining_argv: [",
    "Unexpected keyword argument [type=unexpected_keyword_argument",
    "Extra inputs are not permitted [type=extra_forbidden",
    "had unknown keys (",
)
def refused_by_a_config_class(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``GRPOConfig.__init__() got an unexpected keyword argument 'foo'`` and its relatives."""
    call = event.search(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
    if event.literal.startswith("got an unexpected") and (call is None or not _CONFIG.search(call[1])):
        return
    if event.literal == "remaining_argv: [":
        rest = event.search(r"remaining_argv: \[(.+?)\]")
        if rest is None or not event.fatal:
            return
        name = rest[1][:120]
    elif call is not None:
        name = call[2]
    else:
        reported = event.search(
            r"not used by the HfArgumentParser: \[(.+?)\]|unknown keys \(([^)\n]*)"
            r"|^\s*(\w+)\n\s*(?:Unexpected keyword|Extra inputs)",
            re.MULTILINE,
        )
        name = next((g for g in reported.groups() if g), "an option")[:120] if reported else "an option"
    owner = f"{call[1]} of this release" if call is not None else "this release"
    assigned = _assigned_by(event, call[1]) if call is not None else None
    said = f", which {assigned} assigns" if assigned else ""
    yield check.finding(
        f"{owner} does not know {name}{said}",
        fixes=_fitting(assigned, name) if assigned else _rename(event, name),
    )


# Code that hands on what the launch gives; a name that it passes is the user's.
_PARSERS = re.compile(r"argparse|hf_argparser|dataclasses|hydra|omegaconf|config|cli/|arguments|args\.py")


# vLLM's own classes, which its entry points fill with what they are called with.
_ENGINES = re.compile(r"(?:Engine|Async)\w*Args|SamplingParams|LLM|\w*EngineConfig")


def _assigned_by(event: LogEvent, called: str) -> str | None:
    """The package whose own code makes the call, None where the launch or the user's script may be where it is from."""
    frames = list(event.exception.frames) if event.exception is not None else []
    while frames and _ENGINES.fullmatch(called) and package_of(frames[-1].file) == "vllm":
        frames.pop()
    if not frames or _PARSERS.search(frames[-1].file):
        return None
    package = package_of(frames[-1].file)
    return None if package == "python" else package


def _fitting(package: str, name: str) -> tuple[Fix, ...]:
    return (
        Fix(
            title=f"install releases that go together: {package}'s own code passes {name}, no launch file does",
            commands=("rldoctor compat",),
        ),
    )


# Classes that hold settings; a call inside a library that meets another version of it is RLD101 to RLD104.
_CONFIG = re.compile(r"(Config|Arguments|Args|EngineArgs|SamplingParams)$")


@check.logged(
    "yaml.scanner.ScannerError",
    "yaml.parser.ParserError",
    "yaml.constructor.ConstructorError",
    "ruamel.yaml.scanner.ScannerError",
    "ruamel.yaml.parser.ParserError",
    "omegaconf.errors.GrammarParseError",
    "mismatched input '",
    "tomllib.TOMLDecodeError",
)
def config_does_not_parse(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A YAML file or an override that is not well formed."""
    place = event.search(r'in "([^"]+)", line (\d+), column (\d+)')
    if place is not None:
        where = f"{place[1]}, line {place[2]}, column {place[3]}"
        yield check.finding(
            f"{where} is not valid YAML",
            fixes=(
                Fix(
                    title=f"correct line {place[2]} of {place[1]}: indentation, a colon inside a value, a tab or a "
                    f"missing quote"
                ),
            ),
        )
    elif event.literal in ("mismatched input '", "omegaconf.errors.GrammarParseError"):
        if event.search(r"hydra|OverrideParse|GrammarParse") is None:
            return
        yield check.finding(
            "an override is not well formed for Hydra: brackets, commas, quotes and = need quoting",
            fixes=(Fix(title="quote the value twice: 'key=\"value\"', lists as 'key=[a,b]'"),),
            url="https://hydra.cc/docs/advanced/override_grammar/basic/",
        )
    else:
        yield check.finding(
            "a config file is not well formed", fixes=(Fix(title="mend the file that the message names"),)
        )


# A loss that this release of the trainer does not have; it is compared only at the first update.
check.signature(
    "Unknown loss type: ",
    "Invalid loss type: ",
    "Unknown loss_type: ",
    details=(r"(?:Unknown|Invalid) loss[ _]type: (?P<name>[\w.-]+)",),
    says="this release of the trainer has no loss [['{name}'||the loss type]]",
    fixes=(Fix(title="take a loss_type that its config documents, or a release that has this one"),),
)


# The arguments that transformers renamed are RLD104: releases of different times.
check.signature(
    "Trainer.__init__() got an unexpected keyword argument '",
    pattern=r"(?P<owner>\w*Trainer)\.__init__\(\) got an unexpected keyword argument '(?!tokenizer'|processing_class')"
    r"(?P<name>\w+)'",
    says="{owner} of this release takes no argument {name}",
    fixes=(
        Fix(title="write {name} as the installed release calls it, or move it into the trainer's config"),
        Fix(title="or install the release that the script was written for"),
    ),
)


check.signature(
    "route_mapping[method_name]",
    pattern=r"KeyError: '(?P<name>[\w-]+)'",
    exception="KeyError",
    says="the program has no subcommand {name}",
    fixes=(
        Fix(
            title="methods of reinforcement learning are types of one subcommand",
            commands=("swift rlhf --rlhf_type {name} ...",),
        ),
    ),
    url="https://swift.readthedocs.io/en/latest/Instruction/Command-line-parameters.html",
)


# A package looks an option's value up in a table of its own: losses, estimators, rewards, templates.
_LOOKED_UP = re.compile(
    r"\b(?P<table>[A-Z][A-Z_]*(?:MAPPING|REGISTRY))\[(?:\w+\.)*"
    r"(?P<option>\w+_(?:type|name|estimator|impl|mode|backend|strategy|func))\]"
)


@check.logged("MAPPING[", "REGISTRY[")
def no_such_choice(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``KeyError: 'grpo'`` at ``LOSS_MAPPING[loss_type]``; of models it is transformers' age (RLD103)."""
    error = event.exception
    at = error.frames[-1] if error is not None and error.type == "KeyError" and error.frames else None
    looked = _LOOKED_UP.search(at.code) if at is not None else None
    if error is None or at is None or looked is None or "model" in looked["option"]:
        return
    package = package_of(at.file)
    if package in (None, "python", "transformers", "vllm"):
        return
    yield check.finding(
        f"{looked['option']} has the value {error.message}, which {package} does not know here ({looked['table']})",
        fixes=(
            Fix(title=f"give {looked['option']} a value that this release documents, or leave it out"),
            Fix(title="or start the subcommand, or the release, that the value belongs to"),
        ),
    )


# Hydra's own tests of the name of a configuration and of the choices of a group.
check.signature(
    "Cannot find primary config '",
    "': Could not find '",
    "Primary config directory not found",
    "Primary config module '",
    pattern=r"Cannot find primary config '(?P<name>[^'\n]{1,200})'"
    r"|In '[^'\n]{1,200}': Could not find '(?P<name_2>[^'\n]{1,200})'"
    r"|config directory '(?P<name_3>[^'\n]{1,300})'|config module '(?P<name_4>[^'\n]{1,200})'",
    details=(r"Available options in '[^'\n]*':\n(?P<choices>(?:[ \t]+[\w.-]+\n?){1,20})",),
    says="Hydra finds no configuration {name}",
    fixes=lambda case, event, words: (
        Fix(title=f"there are: {', '.join(words['choices'].split())}")
        if words.get("choices")
        else Fix(title="correct --config-path and --config-name: the path is relative to the script, or absolute"),
    ),
    url="https://hydra.cc/docs/advanced/search_path/",
    silent=True,  # without HYDRA_FULL_ERROR there is no exception to be seen
)


# An OpenAI-compatible server knows the models (and adapters) under the names that it was started with.
check.signature(
    "` does not exist.",
    pattern=r"The model `(?P<name>[^`\n]{1,200})` does not exist\.",
    exception=("NotFoundError", "HTTPStatusError", "HTTPError"),
    says="the server serves no model under the name {name}",
    fixes=(
        Fix(title="ask for a name that it serves", commands=("curl http://HOST:PORT/v1/models",)),
        Fix(title="or serve it under that name", commands=("vllm serve MODEL --served-model-name {name}",)),
    ),
    url="https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
)
check.signature(
    "Could not find the transformer layer class ",
    pattern=r"transformer layer class (?P<name>\w+) in the model",
    says="FSDP is to wrap layers of the class {name}, which this model does not have",
    fixes=(
        Fix(
            title="name the model's own decoder layer (fsdp_transformer_layer_cls_to_wrap), or leave the option out: "
            "the model knows it (_no_split_modules)"
        ),
    ),
    url="https://huggingface.co/docs/accelerate/usage_guides/fsdp",
)
