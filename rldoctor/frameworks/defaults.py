"""What option tables say of a launch: names that its version does not know, and the defaults of what is not given."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rldoctor.case import Unknown
from rldoctor.formats.native import Native
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.option_table import OptionTable
from rldoctor.frameworks.translating import other_name, translated
from rldoctor.plan.model import Form, UnknownOption
from rldoctor.plan.vocabulary import terms

if TYPE_CHECKING:
    from rldoctor.frameworks.dialect import Dialect
    from rldoctor.tables.options.optionset import OptionSet

# Where a run goes, what starts it, the search path: keys of Hydra's own configuration, which every launch has.
_HYDRAS_OWN = re.compile(r"hydra[./]")


def unknown_option(dialect: Dialect, launch: Launch, native: Native) -> UnknownOption | Unknown | None:
    """The native setting as an unknown option; as Unknown where nobody can say whether the release has it; None where
    it is known, or nobody lists such settings."""
    if native.form not in dialect.strict or native.form is Form.VARIABLE:
        return None
    if native.form is Form.OVERRIDE and (launch.own_config or (dialect.signs and _HYDRAS_OWN.match(native.key))):
        return None
    if native.form is Form.OVERRIDE and (misplaced := _sign(dialect, launch, native)) is not None:
        return misplaced
    if native.operator in ("+", "++"):
        return None if dialect.signs else _signed(dialect, launch, native)
    key, group = native.key, dialect.option_group(launch, native)
    for prefix, other in dialect.owners.items():
        if key.startswith(prefix):
            key, group = key[len(prefix) :], other
    if native.form is Form.KEYWORD:
        key = key.removeprefix(dialect.calls.get(native.group, ""))
    options = launch.options(group) if group is not None else None
    exactly = options is not None and dialect.exact and native.form is Form.OPTION
    if options is not None and exactly and (declared := _declared_as(native, options)) is not None:
        return replace(native.as_unknown(owner=options.source, nearest=(declared,)), exact=True)
    if options is None:
        return None
    if options.known(key) is not False:
        return options.doubtful(key)
    if (choice := _choice(dialect, launch, group or "", key)) is not None:
        unknown = native.as_unknown(owner=options.source, ignored=not options.rejects)
        return replace(unknown, chosen_by=choice, exact=exactly)
    # Of several that it is the start of, argparse takes none, and stops even where what it leaves over is dropped.
    starting = options.starting(key) if native.form is Form.OPTION else []
    if len(starting) == 1:
        return None
    before = native.key[: len(native.key) - len(key)]
    meant = starting or options.nearest(key)
    meant = meant or [name for name in translated(dialect, key) if options.known(name) is True]
    nearest = tuple(before + name for name in meant)
    since, until = other_releases(launch, group or "", key)
    unknown = native.as_unknown(owner=options.source, nearest=nearest, ignored=not (options.rejects or starting))
    here = _renamed(dialect, launch, group or "", key) if since or until else None
    return replace(
        unknown,
        since=since,
        until=until,
        renamed=None if here is None else before + here,
        exact=exactly,
        ambiguous=bool(starting) and not (since or until),
    )


def _choice(dialect: Dialect, launch: Launch, own: str, key: str) -> str | None:
    """By which words the launch would choose what has the option that its own group lacks."""
    for words, group in dialect.choices(launch).items():
        options = launch.options(group) if group != own else None
        if options is not None and options.known(key) is True:
            return words
    return None


def _declared_as(native: Native, options: OptionSet) -> str | None:
    """How an option is declared that is spelled with dashes for underscores, or the other way round."""
    written = native.spelled.removeprefix("--")
    other = written.replace("-", "_")
    return other if written not in options and other != written and other in options else None


def _renamed(dialect: Dialect, launch: Launch, group: str, key: str) -> str | None:
    """This version's name for an option of another release: one that the dialect reads as the same setting, else one
    that came when it went, or the other way round, with its default and the end of its name."""
    options = launch.options(group)
    if options is not None and group.partition(":")[0] == dialect.owner:
        same = other_name(dialect, options, key)
        if same is not None:
            return same
    owner, _, section = group.partition(":")
    try:
        return OptionTable.load(owner).renamed(key, launch.version_of(owner), section)
    except KeyError:
        return None


def _signed(dialect: Dialect, launch: Launch, native: Native) -> UnknownOption | None:
    """An override with a ``+`` for a framework whose overrides have none: the sign belongs to the key, which no config
    has."""
    options = launch.options(dialect.main_group(launch))
    if options is None:
        return None
    known = options.known(native.key) is True
    nearest = (native.key,) if known else tuple(options.nearest(native.key))
    return native.as_unknown(owner=options.source, key=f"{native.operator}{native.key}", nearest=nearest)


def _sign(dialect: Dialect, launch: Launch, native: Native) -> UnknownOption | None:
    """An override with a ``+`` that Hydra refuses, since the config has the key, or without the one that it needs, as
    for all that stands below an empty mapping (``kwargs: {}``); and a new key in a section whose class refuses it when
    it is made."""
    options = launch.options(dialect.main_group(launch)) if dialect.composes else None
    renamed = native.spelled and native.spelled.lstrip("+") != native.key  # an entry with a configuration of its own
    if options is None or renamed:
        return None
    option = options.get_option(native.key)
    whole = native.path or isinstance(native.value, dict | list)  # Hydra adds these to what is there
    if native.operator == "+" and not whole and option is not None and options.addable(native.key) is False:
        return native.as_unknown(owner=options.source, key=f"+{native.key}", nearest=(native.key,))
    known = option is not None or options.known(native.key) is not False
    refused = native.operator in ("+", "++") and not known and options.addable(native.key) is False
    if refused and not isinstance(native.value, dict | list) and dialect.option_group(launch, native) is not None:
        nearest = tuple(options.nearest(native.key))
        return native.as_unknown(owner=options.source, key=f"{native.operator}{native.key}", nearest=nearest)
    without = dialect.option_group(launch, native) is not None and options.declared_above(native.key) is not None
    if not native.operator and options.gap is None and (without if option is None else option.added):
        return native.as_unknown(owner=options.source, key=native.key, nearest=(f"+{native.key}",))
    return None


def other_releases(launch: Launch, group: str, key: str) -> tuple[str | None, str | None]:
    """The later release that brings an option which the one at hand lacks, and the earlier one that took it away."""
    owner, _, section = group.partition(":")
    try:
        return OptionTable.load(owner).around(key, launch.version_of(owner), section)
    except KeyError:
        return None, None


def fill_defaults(dialect: Dialect, draft: Draft) -> None:
    """Sets what the framework's version takes for the options of the dialect's table that are not given."""
    group = dialect.main_group(draft.launch)
    options = draft.launch.options(group)
    if options is None:
        return
    for key, rule in dialect.rules().items():
        if key in options and rule.option not in draft.settings and dialect.is_part(draft.launch, key):
            own = filled(dialect, draft, group, key)
            word = own if isinstance(own, str) else None
            draft.default(rule.option, rule.canonical(own), key, f"default of {options.source}", word)


def filled(dialect: Dialect, draft: Draft, group: str, key: str) -> Any:
    """A default, with what it refers to (``${data.max_prompt_length}``) taken from the launch, else from the
    defaults."""
    default = draft.launch.default(group, key)
    if not isinstance(default, str) or "${" not in default:
        return default
    from rldoctor.formats.hydra.interpolation import MISSING, fill

    options = draft.launch.options(group)

    def lookup(name: str) -> Any:
        if name in draft.natives:
            return draft.natives[name].value
        return draft.launch.default(group, name) if options is not None and name in options else MISSING

    variables = {name: native.value for name, native in draft.launch.variables.items()}
    return fill(default, key, lookup, variables, dialect.resolvers)


# Of vLLM's names, those that mean the same of SGLang (https://docs.sglang.ai/advanced_features/server_arguments.html):
# lengths, shares of memory, ranks, precision, adapters.
COMMON_TO_ENGINES = frozenset(
    {
        "model", "tokenizer", "revision", "trust_remote_code", "dtype", "quantization", "kv_cache_dtype", "load_format",
        "max_model_len", "max_num_seqs", "gpu_memory_utilization", "enforce_eager", "tensor_parallel_size",
        "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel", "enable_prefix_caching", "seed",
        "enable_lora", "max_lora_rank", "max_loras",
    }
)  # fmt: skip


def fill_engine_defaults(dialect: Dialect, draft: Draft) -> None:
    """Sets what vLLM's version takes for engine options that nobody set, where vLLM is the engine. To another engine
    nothing is said that only vLLM has, whether the launch or the framework would say it, and where nothing is rolled
    out there is none."""
    if draft.value("rollout.enabled") is False:
        return
    engine = draft.value("rollout.backend", "vllm")
    if engine == "sglang":
        for name in [name for name in draft.settings if name.startswith("engine.")]:
            if name.removeprefix("engine.") not in COMMON_TO_ENGINES:
                del draft.settings[name]
    options = draft.launch.options(dialect.engine_group) if engine == "vllm" else None
    for key in options or ():
        if options is not None and f"engine.{key}" in terms():
            value = draft.launch.default(dialect.engine_group, key)
            draft.default(f"engine.{key}", value, key, f"default of {options.source}")
