"""Follows what happens when a module is imported, statement by statement, without running any of it.

Conditions are worked out from the installed versions where they can be; where not, both ways are followed, and what
is found there is not certain unless every way fails. ``try`` is followed as Python does: an import that fails in its
body leads to the handler, which may raise again."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import pairwise

from packaging.version import Version

from rldoctor.link.calls import binds, inherited_method, is_assigned, misfits, unfit
from rldoctor.link.locate import Kind
from rldoctor.link.overrides import unfit_overrides
from rldoctor.link.problems import Problem, When
from rldoctor.link.provided import Answer, Provider
from rldoctor.link.sources import Source, Sources
from rldoctor.link.syntax import last_name
from rldoctor.link.values import FALSE, NONE, NOT_KNOWN, Known, Module, Object, Several, Value, truth
from rldoctor.records import dataclass
from rldoctor.versions import parsed

Environment = dict[str, Value]
_DEEPEST = 120  # imports within imports; what lies deeper is not followed


@dataclass(frozen=True)
class Raised:
    """An exception that is certain: its type by name, and what the statements asked for in vain."""

    type: str
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Returned:
    """A ``return`` was reached."""

    value: Value


Outcome = Raised | Returned | None


@dataclass
class Frame:
    """Where the statements stand that are being followed: a module, or a function of it. ``unsure`` counts the
    conditions around them, within the module, that cannot be worked out; ``tests`` are those that can; ``handling`` is
    the exception whose handler they are in; ``owner`` the class whose method the function is."""

    source: Source
    names: Environment
    unsure: int = 0
    within: Environment = field(default_factory=dict)
    local: bool = False
    future_annotations: bool = False
    handling: Raised | None = None
    owner: ast.ClassDef | None = None
    tests: list[ast.expr] = field(default_factory=list)

    def look_up(self, name: str) -> Value | None:
        return self.names.get(name, self.within.get(name))


@dataclass
class _Step:
    """A problem of a module, or (``to``) an import of another by it, below so many conditions of the module's own."""

    module: str
    unsure: int
    problem: Problem | None = None
    to: str = ""


class Follower:
    """Follows imports from the entry modules. ``own`` are the top-level packages whose statements are followed,
    ``other`` those in which names are only looked up; every other package is taken to be whatever is asked of it. Of
    the own ones that stand ``between``, the bodies of functions are not read.
    ``versions`` gives the installed version of a top-level module, ``environment`` the variables that are set, of those
    that :func:`rldoctor.facts.environment.is_allowed` looks for."""

    def __init__(
        self,
        sources: Sources,
        own: frozenset[str],
        other: frozenset[str],
        versions: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        between: frozenset[str] = frozenset(),
    ) -> None:
        self.sources = sources
        self.provider = Provider(sources)
        self.own = own
        self.other = other
        self.versions = versions
        self.environment = environment
        self.between = between
        self.modules: dict[str, Environment] = {}
        self.doubts = 0  # conditions that cannot be worked out around the statement at hand, over all modules
        self.when = When.IMPORT
        self.entry = ""
        self._steps: list[_Step] = []
        self._guards: list[frozenset[str]] = []
        self._loading: list[str] = []
        self._calls = 0
        self._returned: dict[tuple[Object, str, int], Value] = {}

    def enter(self, module: str) -> Raised | None:
        """Follows the import of an entry module; what goes wrong is in ``problems``."""
        self.entry = module
        return self.load(module)

    @property
    def problems(self) -> list[Problem]:
        """What was found so far, in the order of the imports. Only what every way through the conditions leads to is
        certain."""
        unsure = {"": 0}
        left = [""]
        imports: dict[str, list[_Step]] = {}
        for step in self._steps:
            imports.setdefault(step.module, []).append(step)
        while left:
            module = left.pop()
            for step in imports.get(module, ()):
                reached = unsure[module] + step.unsure
                if step.problem is None and reached < unsure.get(step.to, reached + 1):
                    unsure[step.to] = reached
                    left.append(step.to)
        found: dict[Problem, None] = {}
        for step in self._steps:
            problem = step.problem
            if problem is None or (problem.when is not When.CALL and step.module not in unsure):
                continue
            sure = problem.when is When.CALL or unsure[step.module] + step.unsure == 0
            found[problem if sure else replace(problem, when=When.PERHAPS)] = None
        certain = {replace(problem, when=When.PERHAPS) for problem in found if problem.when is When.IMPORT}
        return [problem for problem in found if problem not in certain]

    # Modules

    def load(self, name: str, frame: Frame | None = None) -> Raised | None:
        """Follows the import of an own module and of the packages above it, by what a frame does, or as an entry."""
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            above = ".".join(parts[:depth])
            by, unsure = (frame.source.name, frame.unsure) if frame is not None else ("", 0)
            self._steps.append(_Step(by, unsure, to=above))
            raised = self._load_one(above)
            if raised is not None:
                return raised
        return None

    def _load_one(self, name: str) -> Raised | None:
        if name in self.modules or len(self._loading) >= _DEEPEST:
            return None
        between = name.partition(".")[0] in self.between
        source = self.sources.declarations(name) if between else self.sources.whole(name)
        if source is None:
            return None
        names: Environment = {"__name__": Known(name)}
        self.modules[name] = names
        self._loading.append(name)
        outcome = self.follow(source.tree.body, Frame(source, names))
        self._loading.pop()
        if isinstance(outcome, Raised):
            del self.modules[name]  # as Python does; the next import of it fails again
            return outcome
        return None

    # Statements

    def follow(self, body: list[ast.stmt], frame: Frame) -> Outcome:
        """Goes through statements; what ends them early, if anything certainly does."""
        for node in body:
            method = getattr(self, f"_{type(node).__name__.lower()}", None)
            outcome: Outcome = method(node, frame) if method is not None else self._any(node, frame)
            if outcome is not None:
                return outcome
        return None

    def _any(self, node: ast.stmt, frame: Frame) -> Outcome:
        for value in ast.iter_child_nodes(node):
            if isinstance(value, ast.expr):
                raised = self.examine(value, frame)
                if raised is not None:
                    return raised
        return None

    def _import(self, node: ast.Import, frame: Frame) -> Outcome:
        for alias in node.names:
            raised = self._reach(alias.name, node, frame)
            if raised is not None:
                return raised
            bound = alias.name if alias.asname else alias.name.partition(".")[0]
            frame.names[alias.asname or bound] = Module(bound)
        return None

    def _importfrom(self, node: ast.ImportFrom, frame: Frame) -> Outcome:
        origin = frame.source.origin(node)
        if origin == "__future__":
            frame.future_annotations = frame.future_annotations or any(a.name == "annotations" for a in node.names)
            return None
        raised = self._reach(origin, node, frame)
        if raised is not None:
            return raised
        missing: list[Problem] = []
        for alias in node.names:
            if alias.name == "*":
                frame.names.update({k: v for k, v in self.modules.get(origin, {}).items() if not k.startswith("_")})
                continue
            value, raised = self._member(origin, alias.name, node, frame)
            if raised is not None:
                missing += raised.problems
                if not raised.problems:
                    return raised
            frame.names[alias.asname or alias.name] = value
        return self._report("ImportError", tuple(missing), frame)

    def _reach(self, module: str, node: ast.stmt, frame: Frame) -> Raised | None:
        """The import of a module by its name."""
        top = module.partition(".")[0]
        if top in self.own:
            # What functions import in turn would be all that the package has; the launch's own way is enough.
            return None if self.when is When.CALL else self.load(module, frame)
        found = self.sources.search.find(top).kind
        if found is Kind.ABSENT:
            absent = top not in sys.stdlib_module_names and top not in sys.builtin_module_names
            # Which other packages ought to be there is not the question here; it decides only what a guard does.
            if not absent or self._caught("ModuleNotFoundError"):
                return Raised("ModuleNotFoundError") if absent else None
            always = self._always_true(frame)
            if always is None:
                return None
            problem = replace(self._problem("always", node, module, always.module, frame), owner=always.dotted)
            return self._report("ModuleNotFoundError", (problem,), frame)
        if top in self.other and self.provider.exists(module) is Answer.NO:
            problem = self._problem("module", node, module, top, frame)
            return self._report("ModuleNotFoundError", (problem,), frame)
        return None

    def _always_true(self, frame: Frame) -> Object | None:
        """The function of another package that a condition around a statement asks whether something is there, and
        that returns a tuple, which counts as true whatever is in it."""
        values = (self.evaluate(test, frame) for test in frame.tests)
        return next((value.by for value in values if isinstance(value, Several)), None)

    def _member(self, module: str, name: str, node: ast.AST, frame: Frame) -> tuple[Value, Raised | None]:
        """``module.name``, and what importing it raises."""
        top = module.partition(".")[0]
        if top in self.own:
            return self._own_member(module, name, node, frame)
        if top not in self.other or self.sources.search.find(top).kind is Kind.ABSENT:
            return self._known_member(module, name), None
        if self.provider.has(module, name) is Answer.NO:
            return NOT_KNOWN, Raised("ImportError", (self._problem("name", node, name, module, frame),))
        return self._known_member(module, name), None

    def _own_member(self, module: str, name: str, node: ast.AST, frame: Frame) -> tuple[Value, Raised | None]:
        names = self.modules.get(module)
        if names is not None and name in names:
            return names[name], None
        if self.when is When.CALL:
            return Object(module, name), None
        if self.sources.search.find(f"{module}.{name}").kind is Kind.SOURCE:
            return Module(f"{module}.{name}"), self.load(f"{module}.{name}", frame)
        lazily = self._lazy_origin(module, name)
        if lazily is not None and lazily != module:
            raised = self.load(lazily, frame)
            if raised is not None:
                return NOT_KNOWN, raised
            return self.modules.get(lazily, {}).get(name, Object(lazily, name)), None
        # A script's own import from the trainer crosses a border too; within the trainer only the trainer knows.
        crosses = frame.source.name.partition(".")[0] != module.partition(".")[0]
        if crosses and module not in self._loading and self.provider.has(module, name) is Answer.NO:
            return NOT_KNOWN, Raised("ImportError", (self._problem("name", node, name, module, frame),))
        return Object(module, name), None

    def _known_member(self, module: str, name: str) -> Value:
        if name == "__version__" and module in self.versions:
            return Known(self.versions[module])
        if name == "TYPE_CHECKING":
            return FALSE
        if self.sources.search.find(module).package and self.sources.search.find(f"{module}.{name}").kind in (
            Kind.SOURCE,
            Kind.NAMESPACE,
        ):
            return Module(f"{module}.{name}")
        return Object(module, name)

    def _lazy_origin(self, module: str, name: str) -> str | None:
        """The submodule from which a lazy package takes a name: what it imports for type checkers says it."""
        source = self.sources.declarations(module)
        if source is None:
            return None
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == name for a in node.names):
                return source.origin(node)
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    listed = isinstance(value, ast.List | ast.Tuple) and any(
                        isinstance(item, ast.Constant) and item.value == name for item in value.elts
                    )
                    if listed and isinstance(key, ast.Constant) and isinstance(key.value, str):
                        return f"{module}.{key.value}"
        return None

    def _if(self, node: ast.If, frame: Frame) -> Outcome:
        raised = self.examine(node.test, frame)
        if raised is not None:
            return raised
        holds = truth(self.evaluate(node.test, frame))
        if holds is None:
            return self._perhaps((node.body, node.orelse), frame)
        frame.tests.append(node.test)
        outcome = self.follow(node.body if holds else node.orelse, frame)
        frame.tests.pop()
        return outcome

    def _perhaps(self, branches: tuple[list[ast.stmt], ...], frame: Frame) -> Outcome:
        """Follows several ways of which nobody knows which is taken. What they bind differently is not known; what each
        of them fails at fails for certain."""
        before, marks = dict(frame.names), [len(self._steps)]
        frame.unsure += 1
        self.doubts += 1
        results, outcomes = [], list[Outcome]()
        for body in branches:
            frame.names.clear()
            frame.names.update(before)
            outcomes.append(self.follow(body, frame))
            marks.append(len(self._steps))
            results.append(dict(frame.names))
        ways = list(pairwise(marks))
        here = (frame.source.name, frame.unsure)
        if all(start < end for start, end in ways) and all(self._fails(*here, *way) for way in ways):
            for step in self._steps[marks[0] :]:
                step.unsure -= (step.module, step.unsure) == here
        frame.unsure -= 1
        self.doubts -= 1
        frame.names.clear()
        for name in dict.fromkeys(name for result in results for name in result):
            values = [result[name] for result in results if name in result]
            same = all(value == values[0] for value in values) and len(values) == len(results)
            frame.names[name] = values[0] if same else NOT_KNOWN
        raised = [outcome for outcome in outcomes if isinstance(outcome, Raised)]
        if len(raised) < len(outcomes):
            return None
        return Raised(raised[0].type, tuple(problem for one in raised for problem in one.problems))

    def _fails(self, module: str, unsure: int, start: int, end: int) -> bool:
        """Whether a module has a problem below so many of its own conditions, or imports one that has, in the steps
        from ``start`` to ``end``."""
        here = [step for step in self._steps[start:end] if (step.module, step.unsure) == (module, unsure)]
        if any(step.problem is not None for step in here):
            return True
        reached = {module}
        left = {step.to for step in here if step.to} - reached
        certain: dict[str, list[_Step]] = {}
        for step in self._steps if left else ():
            if not step.unsure:
                certain.setdefault(step.module, []).append(step)
        while left:
            reached |= left
            steps = [step for name in left for step in certain.get(name, ())]
            if any(step.problem is not None for step in steps):
                return True
            left = {step.to for step in steps if step.to} - reached
        return False

    def _try(self, node: ast.Try, frame: Frame) -> Outcome:
        caught = frozenset(name for handler in node.handlers for name in _caught_by(handler))
        self._guards.append(caught)
        outcome = self.follow(node.body, frame)
        self._guards.pop()
        if isinstance(outcome, Raised):
            handler = next((h for h in node.handlers if _catches(h, outcome.type)), None)
            if handler is not None:
                if handler.name:
                    frame.names[handler.name] = NOT_KNOWN
                before, frame.handling = frame.handling, outcome
                outcome = self.follow(handler.body, frame)
                frame.handling = before
        elif outcome is None:
            outcome = self.follow(node.orelse, frame)
        return self.follow(node.finalbody, frame) or outcome

    _trystar = _try

    def _with(self, node: ast.With, frame: Frame) -> Outcome:
        suppressed: set[str] = set()
        for item in node.items:
            raised = self.examine(item.context_expr, frame)
            if raised is not None:
                return raised
            call = item.context_expr
            if isinstance(call, ast.Call) and last_name(call.func) == "suppress":
                suppressed |= {last_name(argument) for argument in call.args}
            if isinstance(item.optional_vars, ast.Name):
                frame.names[item.optional_vars.id] = NOT_KNOWN
        self._guards.append(frozenset(suppressed))
        outcome = self.follow(node.body, frame)
        self._guards.pop()
        return None if isinstance(outcome, Raised) and _matches(suppressed, outcome.type) else outcome

    _asyncwith = _with

    def _for(self, node: ast.For, frame: Frame) -> Outcome:
        for name in ast.walk(node.target):
            if isinstance(name, ast.Name):
                frame.names[name.id] = NOT_KNOWN
        return self.examine(node.iter, frame) or self._perhaps((node.body, []), frame)

    _asyncfor = _for

    def _while(self, node: ast.While, frame: Frame) -> Outcome:
        return self._perhaps((node.body, []), frame)

    def _match(self, node: ast.Match, frame: Frame) -> Outcome:
        return self._perhaps((*(case.body for case in node.cases), []), frame)

    def _return(self, node: ast.Return, frame: Frame) -> Outcome:
        if node.value is None:
            return Returned(NONE)
        raised = self.examine(node.value, frame)
        if raised is not None:
            return raised
        # Where it is not certain that this return is reached, nobody knows what follows.
        return Returned(self.evaluate(node.value, frame)) if not frame.unsure or frame.local else None

    def _raise(self, node: ast.Raise, frame: Frame) -> Outcome:
        again = frame.handling
        type_ = last_name(node.exc.func if isinstance(node.exc, ast.Call) else node.exc) if node.exc else ""
        type_ = again.type if again is not None and node.exc is None else type_
        if self._caught(type_):
            return Raised(type_, again.problems if again is not None else ())
        if again is not None:
            return self._report(type_, again.problems, frame)
        # What else a package refuses to work with is not the question here: a version of another one is.
        refused = self._refused(node, frame)
        if refused:
            said = node.exc.args[0] if isinstance(node.exc, ast.Call) and node.exc.args else None
            self._add((self._problem("refused", node, self._text(said, frame) or type_, refused, frame),), frame)
        return None

    def _refused(self, node: ast.Raise, frame: Frame) -> str:
        """The one package whose installed version the conditions around a statement compare; empty where none is."""
        compared = {self._version_at(part, frame) for test in frame.tests for part in ast.walk(test)} - {None}
        of = [module for module in sorted(self.other) if parsed(self.versions.get(module, "")) in compared]
        if len(of) > 1:  # several are of one version, and the words tell which is meant
            said = ast.unparse(node).lower()
            of = [module for module in of if module in said]
        return of[0] if len(of) == 1 else ""

    def _version_at(self, node: ast.AST, frame: Frame) -> Version | None:
        """The version that a name, or what is computed of one, stands for."""
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        value = self.evaluate(node, frame)
        return parsed(str(value.value)) if isinstance(value, Known) else None

    def _text(self, node: ast.expr | None, frame: Frame) -> str:
        """What a message says, ``…`` for what is not known."""
        if isinstance(node, ast.JoinedStr):
            return "".join(self._text(part, frame) for part in node.values)
        value = self.evaluate(node.value if isinstance(node, ast.FormattedValue) else node, frame) if node else NONE
        return str(value.value) if isinstance(value, Known) and value.value is not None else "…" if node else ""

    def _assign(self, node: ast.Assign, frame: Frame) -> Outcome:
        raised = self.examine(node.value, frame)
        if raised is not None:
            return raised
        value = self.evaluate(node.value, frame)
        for target in node.targets:
            self._bind(target, value, frame)
        return None

    def _annassign(self, node: ast.AnnAssign, frame: Frame) -> Outcome:
        raised = None if frame.future_annotations or frame.local else self.examine(node.annotation, frame)
        if raised is None and node.value is not None:
            raised = self.examine(node.value, frame)
        if node.value is not None:
            self._bind(node.target, self.evaluate(node.value, frame), frame)
        return raised

    def _augassign(self, node: ast.AugAssign, frame: Frame) -> Outcome:
        self._bind(node.target, NOT_KNOWN, frame)
        return self.examine(node.value, frame)

    def _bind(self, target: ast.expr, value: Value, frame: Frame) -> None:
        if isinstance(target, ast.Name):
            frame.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            parts: tuple[object, ...] = ()
            if isinstance(value, Known) and isinstance(value.value, tuple) and len(value.value) == len(target.elts):
                parts = value.value
            for position, element in enumerate(target.elts):
                self._bind(element, Known(parts[position]) if parts else NOT_KNOWN, frame)
        elif isinstance(target, ast.Attribute):
            owner = self.evaluate(target.value, frame)
            if isinstance(owner, Module) and owner.name in self.modules:  # it replaces what that module has
                self.modules[owner.name][target.attr] = NOT_KNOWN

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> Outcome:
        parts = [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        if not frame.future_annotations and not frame.local:
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            parts += [a.annotation for a in arguments if a.annotation is not None]
            parts += [node.returns] if node.returns is not None else []
        for part in parts:
            raised = self.examine(part, frame)
            if raised is not None:
                return raised
        frame.names[node.name] = NOT_KNOWN if frame.local else Object(frame.source.name, node.name)
        return None

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef, frame: Frame) -> Outcome:
        for part in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            raised = self.examine(part, frame)
            if raised is not None:
                return raised
        inner = Frame(frame.source, {}, frame.unsure, {**frame.within, **frame.names}, frame.local)
        inner.future_annotations = frame.future_annotations
        outcome = self.follow(node.body, inner)
        self._replaces(node, frame)
        frame.names[node.name] = NOT_KNOWN if frame.local else Object(frame.source.name, node.name)
        return outcome

    def _replaces(self, node: ast.ClassDef, frame: Frame) -> None:
        """Notes how a class of another package calls methods that stand for its own, and that these do not fit. They
        fail when they are called."""
        bases = [self.evaluate(base, frame) for base in node.bases]
        if not any(isinstance(above, Object) and above.module.partition(".")[0] in self.other for above in bases):
            return
        replaced = {name for part in node.body for name in binds(part)}
        for above in bases:
            definition = self.provider.definition(above.module, above.name) if isinstance(above, Object) else None
            if definition is None or not isinstance(definition.node, ast.ClassDef):
                return  # what it puts in the place of the methods of those behind it is not known
            top = definition.source.name.partition(".")[0]
            for one in unfit_overrides(self.sources, definition, node, replaced) if top in self.other else ():
                owner = f"{definition.source.name}.{definition.node.name}.{one.method.name}"
                found = self._problem(f"override-{one.misfit.kind}", one.method, one.misfit.name, owner, frame)
                self._add((replace(found, when=When.CALL),), frame)
            replaced |= {name for part in definition.node.body for name in binds(part)}

    # Expressions

    def examine(self, node: ast.expr, frame: Frame) -> Raised | None:
        """Looks up every attribute of another package's module in an expression that is computed."""
        if isinstance(node, ast.Name | ast.Constant):
            return None
        for part in self._computed(node, frame):
            if isinstance(part, ast.Call):
                raised = self._fits(part, frame)
                if raised is not None:
                    return raised
                continue
            attribute = part
            owner = self.evaluate(attribute.value, frame)
            if not isinstance(owner, Module) or owner.name.partition(".")[0] not in self.other:
                continue
            top = owner.name.partition(".")[0]
            if self.sources.search.find(top).kind is Kind.ABSENT:
                continue
            if self.provider.has(owner.name, attribute.attr) is Answer.NO:
                problem = self._problem("attribute", attribute, attribute.attr, owner.name, frame)
                raised = self._report("AttributeError", (problem,), frame)
                if raised is not None:
                    return raised
        return None

    def _fits(self, call: ast.Call, frame: Frame) -> Raised | None:
        """Whether a call of another package's class or function, or of a method that an own class has from one, is one
        that Python accepts."""
        if frame.owner is not None and isinstance(call.func, ast.Attribute):
            return self._fits_above(call, call.func, frame.owner, frame)
        return self._fits_object(call, frame)

    def _fits_object(self, call: ast.Call, frame: Frame) -> Raised | None:
        target = self.evaluate(call.func, frame)
        if not isinstance(target, Object) or target.module.partition(".")[0] not in self.other:
            return None
        definition = self.provider.definition(target.module, target.name)
        if definition is None:
            return None
        problems = tuple(
            self._problem(misfit.kind, call, misfit.name, f"{definition.source.name}.{target.name}", frame)
            for misfit in misfits(self.provider, definition, call)
        )
        return self._report("TypeError", problems, frame)

    def _fits_above(self, call: ast.Call, function: ast.Attribute, owner: ast.ClassDef, frame: Frame) -> Raised | None:
        """Whether ``super().name(...)``, or ``self.name(...)`` where the class has none of that name, fits the method
        of another package's class above."""
        to, name = function.value, function.attr
        above = isinstance(to, ast.Call) and last_name(to.func) == "super" and not to.args
        if not above and not (isinstance(to, ast.Name) and to.id == "self"):
            return self._fits_object(call, frame)
        # Its own, or one of a class below it.
        if is_assigned(frame.source, name) or (
            not above and (f"def {name}(" in frame.source.text or any(name in binds(part) for part in owner.body))
        ):
            return None
        found = inherited_method(self.provider, frame.source.name, owner, name)
        if found is None or found[0].source.name.partition(".")[0] not in self.other:
            return None
        definition, method = found
        dotted = f"{definition.source.name}.{definition.node.name}.{method.name}"
        problems = (self._problem(one.kind, call, one.name, dotted, frame) for one in unfit(method.args, 1, call))
        return self._report("TypeError", tuple(problems), frame)

    def _computed(self, node: ast.expr, frame: Frame) -> Iterator[ast.Attribute | ast.Call]:
        """The attributes and calls that are made when an expression is computed: not those in a lambda, nor behind a
        condition that does not hold or is not known."""
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, ast.IfExp):
            yield from self._computed(node.test, frame)
            holds = truth(self.evaluate(node.test, frame))
            if holds is not None:
                yield from self._computed(node.body if holds else node.orelse, frame)
            return
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                yield from self._computed(value, frame)
                if truth(self.evaluate(value, frame)) is not isinstance(node.op, ast.And):
                    return
            return
        if isinstance(node, ast.Call) or (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)):
            yield node
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Name | ast.Constant):  # most of them, and nothing is computed there
                continue
            if isinstance(child, ast.expr):
                yield from self._computed(child, frame)
            elif isinstance(child, ast.keyword):
                yield from self._computed(child.value, frame)

    def evaluate(self, node: ast.expr, frame: Frame) -> Value:
        """What an expression is, as far as it can be known."""
        if isinstance(node, ast.Constant):
            return Known(node.value)
        if isinstance(node, ast.Name):
            found = frame.look_up(node.id)
            return NOT_KNOWN if found is None else found
        method = getattr(self, f"_value_{type(node).__name__.lower()}", None)
        return method(node, frame) if method is not None else NOT_KNOWN

    def _value_attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        owner = self.evaluate(node.value, frame)
        if isinstance(owner, Module):
            if owner.name == "sys" and node.attr == "version_info":
                return Known(tuple(sys.version_info[:3]))
            if owner.name in self.modules and node.attr in self.modules[owner.name]:
                return self.modules[owner.name][node.attr]
            return self._known_member(owner.name, node.attr)
        if isinstance(owner, Known) and node.attr in _VERSION_PARTS and type(owner.value).__name__ == "Version":
            return Known(getattr(owner.value, node.attr))
        if isinstance(owner, Object) and owner.module.partition(".")[0] not in (*self.own, *self.other):
            return Object(owner.module, f"{owner.name}.{node.attr}")
        return NOT_KNOWN

    def _value_tuple(self, node: ast.Tuple | ast.List, frame: Frame) -> Value:
        parts = [self.evaluate(element, frame) for element in node.elts]
        if all(isinstance(part, Known) for part in parts):
            return Known(tuple(part.value for part in parts if isinstance(part, Known)))
        return NOT_KNOWN

    _value_list = _value_tuple

    def _value_unaryop(self, node: ast.UnaryOp, frame: Frame) -> Value:
        holds = truth(self.evaluate(node.operand, frame))
        return Known(not holds) if isinstance(node.op, ast.Not) and holds is not None else NOT_KNOWN

    def _value_boolop(self, node: ast.BoolOp, frame: Frame) -> Value:
        deciding = isinstance(node.op, ast.Or)
        value: Value = NOT_KNOWN
        unknown = False
        for part in node.values:
            value = self.evaluate(part, frame)
            holds = truth(value)
            if holds is deciding:
                return value if not unknown else Known(deciding)
            unknown = unknown or holds is None
        return NOT_KNOWN if unknown else value

    def _value_ifexp(self, node: ast.IfExp, frame: Frame) -> Value:
        holds = truth(self.evaluate(node.test, frame))
        return NOT_KNOWN if holds is None else self.evaluate(node.body if holds else node.orelse, frame)

    def _value_compare(self, node: ast.Compare, frame: Frame) -> Value:
        from rldoctor.link.conditions import compared, variable

        if len(node.ops) != 1:
            return NOT_KNOWN
        test, left, right = node.ops[0], self.evaluate(node.left, frame), self.evaluate(node.comparators[0], frame)
        if right == Object("os", "environ") and isinstance(test, ast.In | ast.NotIn):
            found = variable(self, left)
            return Known((found == NONE) is isinstance(test, ast.NotIn)) if isinstance(found, Known) else NOT_KNOWN
        return compared(test, left, right)

    def _value_call(self, node: ast.Call, frame: Frame) -> Value:
        from rldoctor.link.conditions import called

        return called(self, node, frame)

    def call(self, function: Object, arguments: Mapping[str, Value]) -> Value:
        """What a short function of an own module returns, followed with these arguments. Functions that call each other
        on several ways would be followed once for every way through all of them, so what one returned is kept for its
        depth; while modules are still being loaded only until the outermost call ends, as it may change then."""
        key = (function, repr(sorted(arguments.items())), self._calls)
        if key not in self._returned:
            self._returned[key] = self._follow_call(function, arguments)
        value = self._returned[key]
        if self._loading and not self._calls:
            self._returned.clear()
        return value

    def _follow_call(self, function: Object, arguments: Mapping[str, Value]) -> Value:
        source = self.sources.whole(function.module)
        node = next(
            (n for n in (source.tree.body if source else ()) if getattr(n, "name", None) == function.name), None
        )
        if source is None or not isinstance(node, ast.FunctionDef) or self._calls > 4 or len(node.body) > 12:
            return NOT_KNOWN
        self._calls += 1
        known = len(self._steps)
        frame = Frame(source, dict(arguments), 0, self.modules.get(function.module, {}), local=True)
        outcome = self.follow(node.body, frame)
        # What a function asks for is looked at where functions are; a module that it loads stays loaded.
        self._steps[known:] = [step for step in self._steps[known:] if step.module != function.module]
        self._calls -= 1
        return outcome.value if isinstance(outcome, Returned) else NOT_KNOWN

    # Reporting

    def _caught(self, type_: str) -> bool:
        return any(_matches(guard, type_) for guard in self._guards)

    def _problem(self, kind: str, node: ast.AST, name: str, owner: str, frame: Frame) -> Problem:
        file = self.sources.search.relative(frame.source.path)
        by, of = (module.partition(".")[0] for module in (frame.source.name, owner))
        return Problem(kind, by, file, getattr(node, "lineno", 0), name, owner, of, self.when, self.entry)

    def _report(self, type_: str, problems: tuple[Problem, ...], frame: Frame) -> Raised | None:
        """An exception where something catches it; else the problems are noted, and the rest is read as if they were
        not there, so that all of them are found at once."""
        if not problems:
            return None
        if self._caught(type_):
            return Raised(type_, problems)
        self._add(problems, frame)
        return None

    def _add(self, problems: tuple[Problem, ...], frame: Frame) -> None:
        self._steps += [_Step(frame.source.name, frame.unsure, problem) for problem in problems]


_VERSION_PARTS = frozenset({"base_version", "public", "major", "minor", "micro", "release"})


def _caught_by(handler: ast.ExceptHandler) -> Iterator[str]:
    if handler.type is None:
        yield "BaseException"
    elif isinstance(handler.type, ast.Tuple):
        yield from (last_name(element) for element in handler.type.elts)
    else:
        yield last_name(handler.type)


def _catches(handler: ast.ExceptHandler, type_: str) -> bool:
    return _matches(frozenset(_caught_by(handler)), type_)


def _matches(caught: frozenset[str] | set[str], type_: str) -> bool:
    if caught & {"Exception", "BaseException"}:
        return True
    if type_ in ("ModuleNotFoundError", "PackageNotFoundError"):
        return bool(caught & {type_, "ImportError", "ModuleNotFoundError"})
    return type_ in caught
