"""What a dialect is: how one framework's native settings become a rollout plan, and how its fixes are spelled."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rldoctor.case import Unknown
from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.defaults import fill_defaults, fill_engine_defaults, unknown_option
from rldoctor.frameworks.draft import Draft, variables
from rldoctor.frameworks.entries import absent_file, absent_script, misnamed, misnamed_file, unset
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.patterns import Patterns
from rldoctor.frameworks.processes import devices, processes
from rldoctor.frameworks.refusals import misfit, no_name, refused_value
from rldoctor.frameworks.rule import Boolean, Rule
from rldoctor.frameworks.strays import dangling, strays, sweeps, switched, ungrammatical
from rldoctor.frameworks.table import Rows, parents
from rldoctor.frameworks.typography import typographic
from rldoctor.frameworks.worlds import agreed
from rldoctor.model import Edit
from rldoctor.plan.model import Form, Note, Place, RefusedValue, RolloutPlan, Source, UnknownOption
from rldoctor.plan.vocabulary import term

if TYPE_CHECKING:
    from rldoctor.formats.hydra.interpolation import Resolvers
    from rldoctor.formats.python.started import Helper
    from rldoctor.formats.shell.arguments import Arguments
    from rldoctor.formats.yaml.reader import YamlFile
    from rldoctor.frameworks.spelled import Spelling

# Hydra's own command line (hydra.cc/docs/advanced/hydra-command-line-flags), which holds no settings.
HYDRA_OPTIONS = ("config_path", "config_name", "config_dir", "cp", "cn", "cd", "multirun", "m", "experimental_rerun")

# The arguments of the script itself; a launch is judged as started with those that were given.
_STARTED_WITH = re.compile(r"[\"']?\$(\{?[@*]|\d)")

Derivation = Callable[[Draft], None]


class Dialect:
    """One framework. Subclasses are data first: the attributes below, then small derivations; a method is overridden
    only where the framework does something that no table can say."""

    name: ClassVar[str] = ""
    """As people write it: ``verl``, ``ms-swift``, ``TRL``."""
    owner: ClassVar[str] = ""
    """Whose version and options these are, for ``version_of`` and ``known`` (``verl``, ``ms-swift``, ``trl``)."""
    specific: ClassVar[int] = 0
    """Added to what :meth:`claims` finds: above 0 for a framework built on another one that it must win against."""

    # How it is recognised.
    entries: ClassVar[tuple[str, ...]] = ()
    """Patterns (``fnmatch``) of ``launch.entry``: ``verl.trainer.main_ppo``, ``swift rlhf``,
    ``*/openrlhf/cli/train_*.py``."""
    keys: ClassVar[tuple[str, ...]] = ()
    """Dotted native keys (or sections) that only this framework's YAML files and overrides have."""
    imports: ClassVar[tuple[str, ...]] = ()
    """Python modules whose import in a script marks this framework."""
    helpers: ClassVar[Mapping[str, Helper]] = {}
    """Its functions with which a Python script starts it, by their names."""

    # How its native settings are written.
    style: ClassVar[Form] = Form.OPTION
    """What its command line takes: OPTION (``--a b``) or OVERRIDE (``a.b=c``, with options of Hydra itself)."""
    dashes: ClassVar[bool] = False
    """Whether new options are spelled ``--max-model-len``; underscores otherwise. Both are read either way."""
    booleans: ClassVar[Boolean] = Boolean.VALUE
    """How a boolean option is written on the command line, unless its rule says otherwise."""
    units: ClassVar[frozenset[str]] = frozenset()
    """The options for which its command reads numbers with a unit (``8k``), where it reads more than Python does."""
    automatic: ClassVar[frozenset[str]] = frozenset()
    """Those of them for which it takes ``auto``."""
    composes: ClassVar[bool] = False
    """Whether Hydra composes its configuration, in struct mode: a new key needs a ``+``, a known one refuses it."""
    untyped: ClassVar[bool] = False
    """Whether values of its files and overrides reach its code as YAML has them: neither a parser nor a class makes
    something else of a text (``off``), or refuses it."""
    signs: ClassVar[bool] = True
    """Whether its overrides may have Hydra's ``+`` and ``++`` before the key."""
    append: ClassVar[str] = ""
    """Put before an override of a key that the framework's own config lacks (``++`` for Hydra)."""
    config_options: ClassVar[tuple[str, ...]] = ()
    """Options or overrides that name a YAML file with more settings (``config``); the command line wins over it."""
    calls: ClassVar[Mapping[str, str]] = {}
    """Python calls whose keywords are settings, with what to put before the keyword: ``{"GRPOConfig": "", "LoraConfig":
    "peft."}``."""

    resolvers: ClassVar[Resolvers] = {}
    """The resolvers that it registers with OmegaConf, of two numbers each: ``${mul:2,3}``."""

    # What they mean.
    table: ClassVar[Mapping[str, str | Rule]] = {}
    """Native key to canonical name. ``a.b.*`` to ``engine.*`` maps everything below; ``env:NAME`` reads a variable. Of
    several keys for one name the first is written."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Patterns (``fnmatch``) of native keys that do not concern a plan: learning rate, logging, rewards, data files."""
    words: ClassVar[Mapping[str, str]] = {}
    """Native key to the names that the framework brings along for its value (``gae grpo rloo``); a launch may register
    others, so that only a slip of one of them is called wrong."""
    closed: ClassVar[frozenset[str]] = frozenset()
    """Those of them whose value is one of the names, unless a launch :meth:`registers` its own."""
    own_code: ClassVar[tuple[str, ...]] = ()
    """Keys that name a Python file of the launch's own."""
    lookups: ClassVar[Mapping[str, str]] = {}
    """Native key to the option of another package (``transformers:TrainingArguments.optim``) whose words it takes, too:
    only a slip of one of them is called wrong."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Patterns (``fnmatch``) of native keys that every launch reads, so that one without a default must be given."""
    exact: ClassVar[bool] = False
    """Whether its command takes options as they are declared alone: a dash is no underscore for it."""
    groups: ClassVar[Mapping[str, str]] = {}
    """Which option table (``owner:group``) lists the options of an entry (pattern) or a call: ``{"trl vllm-serve":
    "trl:vllm-serve", "GRPOConfig": "trl:GRPOConfig"}``. Without a row: the owner's main one, and none for a call."""
    owners: ClassVar[Mapping[str, str]] = {}
    """The same for everything below a prefix: ``{"rollout.engine_kwargs.vllm.": "vllm:EngineArgs"}``."""
    engine_group: ClassVar[str] = "vllm:EngineArgs"
    """Where vLLM's own defaults come from."""
    strict: ClassVar[frozenset[Form]] = frozenset(Form)
    """The forms in which an unknown option is refused by the framework."""
    derivations: ClassVar[tuple[Derivation, ...]] = ()
    """Run in this order after the defaults; each fills settings through :meth:`Draft.derive`."""

    def claims(self, launch: Launch) -> int:
        """How sure it is that ``launch`` is this framework's: 0 no, about 100 for its own entry point."""
        if self._entries.match(launch.entry):
            return 100 + self.specific
        if self.keys and any(_has_key(launch, key) for key in self.keys):
            return 70 + self.specific
        if launch.python is not None and any(launch.python.imports_from(module) for module in self.imports):
            return 50 + self.specific
        return 0

    def role(self, launch: Launch) -> str:
        """``trainer``, or ``server`` for a launch that only serves rollouts."""
        return "trainer"

    def registers(self, launch: Launch) -> bool:
        """Whether code of the launch's own may add to the names that the framework knows."""
        return False

    def place(self, launch: Launch) -> Place | None:
        """Where a new setting would stand: in the Python call that makes the configuration, in the YAML file that was
        named, else on the command line."""
        calls = self.places(launch)
        if calls:
            return min(calls, key=lambda place: self.calls[place.group] != "")
        if launch.place is not None and launch.place.form is Form.OPTION:
            return replace(launch.place, form=self.style)
        return launch.place

    def places(self, launch: Launch) -> tuple[Place, ...]:
        """The first of each call of the script that takes settings."""
        if launch.python is None:
            return ()
        file = launch.python.source.file
        found = ((name, launch.python.call_line(name)) for name in self.calls)
        return tuple(Place(form=Form.KEYWORD, file=file, line=line, group=name) for name, line in found if line)

    def natives(self, launch: Launch) -> Iterator[Native]:
        """The native settings of a launch in order of precedence, the last one wins: YAML, Python, the command line."""
        if self.style is Form.OVERRIDE:
            from rldoctor.formats.hydra.interpolation import interpolated

            variables = {name: native.value for name, native in launch.variables.items()}
            group = self.main_group(launch)
            yield from interpolated(
                self.collected(launch), lambda key: launch.default(group, key), variables, self.resolvers
            )
        else:
            yield from self.collected(launch)

    def collected(self, launch: Launch) -> Iterator[Native]:
        """What :meth:`natives` gives, before interpolation."""
        arguments = launch.arguments(overrides=self.style is Form.OVERRIDE, flags=self._flags)
        if launch.tree is not None:
            yield from launch.tree.natives()
        if self.style is Form.OVERRIDE:
            from rldoctor.frameworks.composition import composed

            overrides = composed(launch, arguments, self.ships)
            yield from (native for native in overrides if native.form is not Form.OVERRIDE)
        for option in self.config_options:
            name = arguments.value(option)
            if isinstance(name, Unresolved):
                launch.miss(f"{option} names a file that is not known ({name.why})")
            tree = launch.yaml(name, shipped=self.ships(name)) if isinstance(name, str) else None
            if tree is not None:
                yield from (self._as_option(native) for native in tree.natives())
        if launch.python is not None:
            yield from launch.python.natives(self.calls, arguments)
        if self.style is Form.OVERRIDE:
            # What chooses a group of the configuration is carried out, and no setting.
            values = {id(native) for native in overrides}
            chosen = (n for n in arguments.natives if n.form is not Form.OVERRIDE or id(n) in values)
            self._miss_config(launch, arguments)
            yield from (native for native in chosen if native.key not in self.config_options)
        else:
            yield from (native for native in arguments.natives if native.key not in self.config_options)

    def _miss_config(self, launch: Launch, arguments: Arguments) -> None:
        """Notes a configuration that the launch names, that does not lie here and that the framework does not ship."""
        name = next((v for key in ("config_name", "cn") if (v := arguments.value(key)) is not None), None)
        if isinstance(name, Unresolved):
            launch.lose_config(f"the name of its configuration is not known ({name.why})")
        elif isinstance(name, str):
            file = name.removesuffix(".yaml").rpartition("/")[2]
            read = any(Path(opened).stem == file for opened in launch.files.opened)
            if not read and not self.ships(file):
                launch.lose_config(f"its configuration {name} was not found")

    def ships(self, config: str) -> bool:
        """Whether the framework itself has a configuration of that name, whose values are its defaults."""
        return False

    def _as_option(self, native: Native) -> Native:
        """A key of a config file that takes command-line options by their names, dashes or not."""
        return replace(native, key=native.key.replace("-", "_")) if self.style is Form.OPTION else native

    def read(self, launch: Launch) -> RolloutPlan:
        """The plan of a launch."""
        draft = Draft(launch)
        variables(draft, launch.variables.values())
        for option, setting in launch.process.items():
            draft.put(option, setting)
        for native in launch.variables.values():
            if (rule := self.rule(f"env:{native.key}")) is not None:
                draft.take(native, rule[0], rule[1].canonical(native.value), Source.ENVIRONMENT)
        natives = self.natives(launch)
        # What may hide options is known before any is called unknown.
        for word in launch.arguments(overrides=self.style is Form.OVERRIDE, flags=self._flags).positionals:
            if isinstance(word.value, Unresolved) and word.veiled and not _STARTED_WITH.match(word.raw):
                launch.miss(f"{word.raw} may hold more options ({word.value.why})")
        for native in natives:
            self.take(draft, native)
        for native in draft.natives.values():
            if isinstance(native.value, Unresolved) and self._is_flag(launch, native):
                launch.miss(f"what follows {native.spelled} may hold more options ({native.value.why})")
        draft.refused += [*launch.refused, *typographic(launch), *self._given_twice(launch), *self._lacking(draft)]
        if self.composes:
            draft.refused += [*strays(launch), *ungrammatical(launch), *sweeps(launch)]
        if self.style is Form.OVERRIDE:
            draft.refused += dangling(launch, draft.natives.values(), launch.options(self.main_group(launch)))
        draft.refused += unset(launch, draft.natives.values())
        if self.booleans is Boolean.FLAG:
            draft.refused += switched(launch, self._flags)
        named = (misnamed_file(launch, draft.natives[key]) for key in self.own_code if key in draft.natives)
        configured = map(
            launch.arguments(overrides=self.style is Form.OVERRIDE, flags=self._flags).find, self.config_options
        )
        files = (one for one in configured if one is not None and not self.ships(str(one.value)))
        absent = (absent_file(launch, one, self.name) for one in files)
        # A script of the framework's own lies in its checkout, which need not be here.
        script = None if self._entries.match(launch.entry) else absent_script(launch)
        draft.refused += filter(None, (misnamed(launch, self.owner), script, *named, *absent))
        for unknown in draft.unknown:
            self.doubt(draft, unknown)
        for name in launch.dropped:
            key = name.lstrip("-").replace("-", "_") if name.startswith("-") else name
            if (found := self.rule(key)) is not None:
                draft.doubts.setdefault(found[0], f"not set, since the command ends above {name}")
        agreed(draft, self.complete)
        return self.plan(draft)

    def _given_twice(self, launch: Launch) -> Iterator[RefusedValue]:
        """Keys that stand twice in a YAML file: whoever takes overrides reads it with OmegaConf, which refuses them."""
        trees = filter(None, (launch.tree, *launch.trees)) if self.style is Form.OVERRIDE else ()
        for tree in trees:
            for path, line, first in tree.replaced():
                yield RefusedValue(
                    key=path,
                    value="",
                    file=tree.source.file,
                    line=line,
                    form=Form.YAML,
                    owner="OmegaConf",
                    takes="the key once",
                    why=f"it stands in line {first} already, and OmegaConf refuses that (`found duplicate key`)",
                )

    def _lacking(self, draft: Draft) -> Iterator[RefusedValue]:
        """Keys that have no default in this release and that a launch, read to its end, does not give."""
        launch = draft.launch
        options = launch.options(self.main_group(launch)) if self.is_whole(launch) else None
        if options is None or options.gap is not None:
            return
        needed = Patterns(self.needs)
        for key in options.required:
            if not needed.match(key) or key in draft.natives:
                continue
            meant = next(
                (one.key for one in draft.given if options.known(one.key) is False and _alike(one.key, key)), None
            )
            yield RefusedValue(
                key=key,
                value="",
                file=launch.file,
                line=launch.line,
                form=self.style,
                owner=self.name,
                takes=f"a value for {key}",
                option=None if (found := self.rule(key)) is None else found[0],
                why=f"{options.source} has no default for it, and the launch does not give it"
                + (f"; {meant} is no key of this release" if meant else ""),
            )

    def is_whole(self, launch: Launch) -> bool:
        """Whether nothing but this launch may give it settings, nor who starts its script (``"$@"``)."""
        if any(word.many for word in launch.words):
            return False
        return bool(self.needs and launch.entry) and launch.missed is None and not launch.own_config

    def complete(self, draft: Draft) -> None:
        """Fills in what follows from what the launch says, and what holds where it says nothing."""
        processes(draft)
        devices(draft, self.role(draft.launch))
        self.defaults(draft)
        for derivation in self.derivations:
            derivation(draft)
        self.engine_defaults(draft)

    def spell(self, edit: Edit, plan: RolloutPlan) -> Spelling:
        """A canonical edit in this framework's words, with the place and the way to write it."""
        from rldoctor.frameworks.spelling import spell

        return spell(self, edit, plan)

    def spelled_key(self, key: str) -> str:
        """A native key as a new command-line option."""
        return "--" + (key.replace("_", "-") if self.dashes else key)

    def rule(self, key: str) -> tuple[str, Rule] | None:
        """The canonical name and the rule of a native key, or None."""
        return self._rows.rule(key)

    def native_keys(self, option: str) -> Iterator[tuple[str, Rule]]:
        """The native keys that set a canonical option, the one to write first."""
        return self._rows.native_keys(option)

    def take(self, draft: Draft, native: Native) -> None:
        """Files one native setting: understood, beside the matter, a dictionary to look into, or unread."""
        if self.style is Form.OVERRIDE and native.form is Form.OPTION and native.key in HYDRA_OPTIONS:
            draft.record(native, None)  # for whoever has Hydra compose the launch
            return
        native = self._unpaired(draft.launch, native)
        self.check_known(draft, native)
        self.check_name(draft, native)
        native = self._completed(draft.launch, native)
        found = self.rule(native.key)
        if found is not None:
            option, rule = found
            draft.record(native, option)
            if native.operator == "~":
                draft.settings.pop(option, None)
            else:
                draft.take(native, option, self._added(draft, option, rule.canonical(native.value)))
            return
        above = self._above(native.key)
        if above is not None:
            draft.record(native, above)
            draft.take_part(native, above, native.key)
            return
        parts = list(native.parts())
        if parts and (native.form is Form.YAML or native.key in self._rows.sections):
            draft.natives[native.key] = native
            for part in parts:
                self.take(draft, part)
        elif self._rows.beside.match(native.key):
            draft.record(native, None)
            draft.beside += 1
        else:
            draft.unread.append(draft.record(native, None))

    def _added(self, draft: Draft, option: str, value: Any) -> Any:
        """A section as OmegaConf makes it, which adds a later one to the one before; other readers replace it."""
        before = draft.settings.get(option)
        if self.style is not Form.OVERRIDE or not isinstance(value, dict) or before is None:
            return value
        from rldoctor.formats.hydra.composer import merge

        whole = copy.deepcopy(before.value) if isinstance(before.value, dict) else {}
        merge(whole, value)
        return whole

    def _unpaired(self, launch: Launch, native: Native) -> Native:
        """``--no_x`` as an option of its own, where the framework has one of that name and none that it would deny."""
        if native.value is not False or not re.match(r"--no[-_]", native.spelled):
            return native
        options = launch.options(self.main_group(launch))
        whole = f"no_{native.key}"
        alone = options is not None and native.key not in options and whole in options
        return replace(native, key=whole, value=True) if alone else native

    def _completed(self, launch: Launch, native: Native) -> Native:
        """An option under its whole name, where the framework's parser takes the start of one for it."""
        if native.form is not Form.OPTION or self.rule(native.key) is not None:
            return native
        options = launch.options(self.main_group(launch))
        name = options.completed(native.key) if options is not None else None
        return native if name is None else replace(native, key=name)

    def _is_flag(self, launch: Launch, native: Native) -> bool:
        """Whether an option takes no value on the command line, by the release's own declaration."""
        if native.form is not Form.OPTION or self.booleans is not Boolean.FLAG:
            return False
        options = launch.options(self.main_group(launch))
        option = options.get_option(native.key) if options is not None else None
        return option is not None and (option.type == "bool" or isinstance(option.default, bool))

    def doubt(self, draft: Draft, unknown: UnknownOption) -> None:
        """The defaults of what a key that the version does not know may have been meant for are no facts."""
        for key in unknown.nearest:
            if (found := self.rule(key)) is not None:
                draft.doubts.setdefault(found[0], f"not set, and {unknown.key} may have been meant for it")

    def option_group(self, launch: Launch, native: Native) -> str | None:
        """Under which ``owner:group`` the options stand that ``native`` is one of; None where nobody lists them."""
        if native.form is Form.KEYWORD:
            return self.groups.get(native.group)
        return self.main_group(launch)

    def choices(self, launch: Launch) -> Mapping[str, str]:
        """The groups of options that the launch could have chosen, by the words that choose them."""
        return {}

    def main_group(self, launch: Launch) -> str:
        """The ``owner:group`` of the launch's command line and YAML."""
        return self.group_of(launch.entry) or self.owner

    def group_of(self, entry: str) -> str | None:
        """The ``owner:group`` of a command, where it has one of its own."""
        return next((group for pattern, group in self.groups.items() if Patterns((pattern,)).match(entry)), None)

    def check_known(self, draft: Draft, native: Native) -> None:
        """Notes an option that the framework's version does not know, with the nearest real names, and a value that it
        refuses."""
        unknown = unknown_option(self, draft.launch, native)
        # A configuration of the launch's own, or an override before it, may have made the place, or what is above it.
        made = isinstance(unknown, UnknownOption) and (
            (unknown.nearest == (f"+{native.key}",) and native.key in draft.natives)
            or (not native.operator and self._is_added(draft, native.key))
        )
        if isinstance(unknown, Unknown):
            draft.undeclared[native.spelled or native.key] = unknown.reason
        elif unknown is not None and not made:
            draft.unknown.append(unknown)
        refused = refused_value(self, draft.launch, native) or misfit(self, draft.launch, native)
        if refused is not None:
            draft.refused.append(refused)

    def _is_added(self, draft: Draft, key: str) -> bool:
        """Whether an override with a sign adds the key, or one above it: a group, or a mapping."""
        found = (draft.natives.get(one) for one in (key, *parents(key)))
        return any(one is not None and one.operator in ("+", "++") for one in found)

    def check_name(self, draft: Draft, native: Native) -> None:
        """Notes a value that is none of the names which the framework knows, where its type has not refused it."""
        refused = no_name(self, draft.launch, native)
        places = {(value.file, value.line, value.key) for value in draft.refused}
        if refused is not None and (refused.file, refused.line, refused.key) not in places:
            draft.refused.append(refused)

    def is_config(self, tree: YamlFile) -> bool:
        """Whether a YAML file is the framework's, be it of a launch without rollouts, which nothing claims."""
        return False

    def leaves(self, launch: Launch) -> bool:
        """Whether the launch's command drops the words that its parser has no option for, and goes on."""
        return False

    def is_part(self, launch: Launch, key: str) -> bool:
        """Whether a key that the version declares is part of this launch's configuration, so that its default holds."""
        return True

    def defaults(self, draft: Draft) -> None:
        """What the framework's version takes for options that are not given."""
        fill_defaults(self, draft)

    def engine_defaults(self, draft: Draft) -> None:
        """What vLLM's version takes for engine options that nobody set, where vLLM is the engine."""
        fill_engine_defaults(self, draft)

    def rules(self) -> Mapping[str, Rule]:
        """The rows of the table that name one key each."""
        return self._rows.keys

    def plan(self, draft: Draft) -> RolloutPlan:
        """The finished plan."""
        launch = draft.launch
        names = {rule.option for rule in self.rules().values()}
        return RolloutPlan(
            framework=self.name,
            dialect=self.name,
            file=launch.file,
            line=launch.line,
            entry=launch.entry,
            version=launch.version_of(self.owner),
            role=self.role(launch),
            settings=draft.settings,
            given=tuple(draft.given),
            unread=tuple(draft.unread),
            beside=draft.beside,
            unknown=(*draft.unknown, *launch.cut_off),
            undeclared=draft.undeclared,
            outside=self._outside(draft),
            refused=tuple(draft.refused),
            unset=tuple(sorted(names - draft.settings.keys())),
            notes=tuple(dict.fromkeys([*draft.notes, *launch.notes, *self._stood_in(draft)])),
            place=self.place(launch),
            places=self.places(launch),
            files=tuple(launch.files.opened),
            group=self.main_group(launch),
        )

    def _stood_in(self, draft: Draft) -> list[Note]:
        """Whose options are those of a release where its source is at hand."""
        options = draft.launch.options(self.main_group(draft.launch))
        if options is None or not options.unread:
            return []
        return [Note(text=f"{options.unread}: judged by {options.source}")]

    def _outside(self, draft: Draft) -> tuple[str, ...]:
        """Of which releases of trainer and engine nobody knows the options."""
        engine = [self.engine_group] if draft.value("rollout.backend", "vllm") == "vllm" else []
        sets = (draft.launch.options(group) for group in (self.main_group(draft.launch), *engine))
        reasons = (options.outside.reason for options in sets if options is not None and options.outside is not None)
        return tuple(dict.fromkeys(reasons))

    @cached_property
    def _rows(self) -> Rows:
        return Rows(self.table, self.beside)

    @cached_property
    def _entries(self) -> Patterns:
        return Patterns(self.entries)

    @cached_property
    def _flags(self) -> frozenset[str]:
        return self._rows.flags(self.booleans)

    def _above(self, key: str) -> str | None:
        """The canonical dictionary that a native key below its own belongs to
        (``engine_kwargs.compilation_config.level``)."""
        for parent in parents(key):
            found = self.rule(parent)
            kind = term(found[0]) if found is not None else None
            if found is not None and found[1].read is None and kind is not None and kind.kind in ("dict", "any"):
                return found[0]
        return None


def _alike(one: str, other: str) -> bool:
    """Whether two keys stand in one section and share how they begin."""
    section, _, leaf = other.rpartition(".")
    return one.rpartition(".")[0] == section and one.rpartition(".")[2].split("_")[0] == leaf.split("_")[0]


def _has_key(launch: Launch, key: str) -> bool:
    if launch.tree is not None and launch.tree.has(key):
        return True
    start = (f"{key}=", f"{key}.")
    return any(isinstance(word.value, str) and word.value.lstrip("+~").startswith(start) for word in launch.words)


__all__ = ["Boolean", "Derivation", "Dialect", "Rule"]
