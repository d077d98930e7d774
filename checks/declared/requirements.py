"""Turns unmet demands between packages into findings: whose, on what, why it matters and which releases mend it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    dataclass,
    find,
)
from rldoctor.api.facts import Distribution
from rldoctor.api.packages import (
    FRAMEWORKS,
    Demand,
    is_framework,
    needs_of,
    package_identity,
    published_demands,
    unreleased,
)
from rldoctor.api.releases import (
    acceptable_releases,
    accepting_releases,
    combined_specifier,
    elsewhere,
    published_name,
    python_admitted,
    release_specifier,
)

from ..observed.imports import install

# What pip moves along with a package because the package pins it.
_COMPANIONS = ("torch", "torchvision", "torchaudio", "xformers", "triton")


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """Demands of one package on another that the installed version does not meet."""

    by: Distribution
    on: str
    version: str
    installed: Distribution | None
    demands: tuple[Demand, ...]

    @property
    def known(self) -> Demand | None:
        """The break that is known, beside or instead of what is declared."""
        return next((d for d in self.demands if d.reason), None)

    @property
    def declared(self) -> Demand | None:
        return next((d for d in self.demands if not d.reason), None)

    @property
    def tolerated(self) -> bool:
        """Whether another extra of the same package lets this version in, and nothing is known against it."""
        return self.known is None and all(d.tolerates(self.version) for d in self.demands)

    @property
    def too_old(self) -> bool:
        """Whether a lower bound is missed: what the package relies on is not there yet."""
        bounds = [part for d in self.demands for part in d.specifier.split(",") if part.startswith(">")]
        demand = self.demands[0]
        return any(not _alone(demand, part).admits(self.version) for part in bounds)


def judge(
    case: Case,
    check: Check,
    belongs: Callable[[Demand], bool],
    severity: Callable[[Misfit], Severity],
    asked: Collection[str] = (*FRAMEWORKS, "vllm"),
    nothing: str = "no package here demands anything of another one here",
) -> Iterator[Finding | Reach]:
    """Judges every demand that ``belongs`` to a check. Yields findings, or what was found to fit. ``asked`` names the
    packages whose declarations must be known for a pass to mean something, ``nothing`` says that there was no demand.

    Raises :class:`NotChecked` where not one of the demands could be decided, or nobody's declarations are known, and
    :class:`NotApplicable` where no installed package demands anything."""
    assert case.packages is not None
    needs = needs_of(case)
    fits: list[str] = []
    open_questions: list[str] = []
    misfits: dict[tuple[str, Severity], list[Misfit]] = {}
    for (by, on), demands in _pairs(needs.demands, belongs).items():
        installed = find(case.packages, on) if on != "python" else None
        version = case.packages.release() if on == "python" else installed.version if installed else None
        if version is None:
            continue
        why = unreleased(version)
        if why is not None:
            open_questions.append(f"{by} needs {on}{demands[0].specifier}, and {on} {why}")
            continue
        unmet = tuple(d for d in demands if not _met(d, version) and not (d.used and _linked(case, by)))
        if unmet:
            misfit = Misfit(by=unmet[0].by, on=on, version=version, installed=installed, demands=unmet)
            grave = Severity.NOTE if _unused(case, misfit) else severity(misfit)
            misfits.setdefault((on, grave), []).append(misfit)
        else:
            fits.append(f"{by} {demands[0].by.version} and {on} {version}")
    for (_, grave), ones in misfits.items():
        yield _finding(case, check, ones, grave)
    if misfits:
        return
    open_questions += [why for name, why in needs.undeclared.items() if name in asked]
    if open_questions and not fits:
        raise NotChecked("; ".join(open_questions))
    if not fits and case.packages.complete:
        raise NotApplicable(nothing)
    if not fits:
        raise NotChecked(nothing, how="--assume PACKAGE==VERSION")
    yield Reach(f"{', '.join(fits[:4])}{f' and {len(fits) - 4} more pairs' if len(fits) > 4 else ''} fit")
    if open_questions:
        yield Reach(f"not judged: {'; '.join(open_questions)}")


def _unused(case: Case, misfit: Misfit) -> bool:
    """Whether the launch trains with another framework than the one that demands, which is installed beside it."""
    return elsewhere(case, package_identity(misfit.by))


def _linked(case: Case, by: str) -> bool:
    """Whether the installed source of a package was linked, which shows file and line."""
    found: list[dict[str, object]] = case.links["frameworks"] if case.links is not None else []
    return any(framework["name"] == by and framework["entries"] for framework in found)


def _pairs(demands: tuple[Demand, ...], belongs: Callable[[Demand], bool]) -> dict[tuple[str, str], list[Demand]]:
    pairs: dict[tuple[str, str], list[Demand]] = {}
    for demand in demands:
        if belongs(demand):
            pairs.setdefault((demand.by.name, demand.on), []).append(demand)
    return pairs


def _met(demand: Demand, version: str) -> bool:
    return python_admitted(demand.specifier, version) if demand.on == "python" else demand.admits(version)


def _alone(demand: Demand, part: str) -> Demand:
    return Demand(by=demand.by, on=demand.on, specifier=part, source=demand.source)


def _finding(case: Case, check: Check, misfits: list[Misfit], severity: Severity) -> Finding:
    """One finding for what packages demand in vain of the same one: one change of it serves them all."""
    first, *others = misfits
    present = "is installed" if case.packages and case.packages.complete else "is assumed"
    on = first.installed.name if first.installed else first.on
    message = f"{_demanded(first)}, and {on} {first.version} {present}{_why(first)}"
    message += "".join(f"; {_demanded(misfit)}{_why(misfit)}" for misfit in others)
    unused = list(dict.fromkeys(misfit.by.name for misfit in misfits if _unused(case, misfit)))
    message += f"; this launch does not train with {' or '.join(unused)}" if unused else ""
    evidence = [_cited(misfit, d) for misfit in misfits for d in misfit.demands]
    place = (first.installed.location if first.installed else None) or None
    evidence.append(Evidence(text=f"{on} {first.version}", source=place))
    return check.finding(
        message,
        severity=severity,
        evidence=tuple(evidence),
        fixes=tuple(_fixes(case, misfits)),
        url=next((misfit.known.url for misfit in misfits if misfit.known), None),
    )


def _cited(misfit: Misfit, demand: Demand) -> Evidence:
    """What one release demands, which is named where the source does not name it."""
    if demand.used:
        text = f"runs with {misfit.on}{demand.specifier}, by the imports in its published source"
        return Evidence(text=text, source=f"{misfit.by.name} {misfit.by.version}")
    release, source = f"{misfit.by.name} {misfit.by.version}", demand.url or demand.source
    named = release in source
    return Evidence(text=f"{'' if named else f'{release}: '}{misfit.on}{demand.specifier}", source=source)


def _demanded(misfit: Misfit) -> str:
    verb = "declares" if misfit.declared else "works only with"
    demand = misfit.declared or misfit.demands[0]
    parts = demand.specifier.split(",")
    # Releases that are left out one by one say nothing of this one, unless it is among them.
    shown = [p for p in parts if not p.startswith("!=") or not _alone(demand, p).admits(misfit.version)]
    return f"{misfit.by.name} {misfit.by.version} {verb} {misfit.on}{','.join(shown)}"


def _why(misfit: Misfit) -> str:
    """What is known to break, or that another extra of the package lets the version in."""
    if misfit.known:
        return f": {misfit.known.reason}"
    if misfit.tolerated:
        alternative = (misfit.declared or misfit.demands[0]).alternative
        return f"; another extra of {misfit.by.name} lets it in ({misfit.on}{alternative}), untested"
    return ""


def _fixes(case: Case, misfits: list[Misfit]) -> Iterator[Fix]:
    """The change of what is demanded; or, where one package alone demands it, another release of that one. For what the
    launch does not use nothing that it runs with is moved."""
    used = [misfit for misfit in misfits if not _unused(case, misfit)]
    if not used:
        names = " and ".join(dict.fromkeys(misfit.by.name for misfit in misfits))
        yield Fix(title=f"this launch needs no change; to train with {names}, make another environment")
        return
    misfit = used[0]
    if misfit.on == "python":
        yield Fix(
            title=f"use a Python that {misfit.by.name} {misfit.by.version} declares: {misfit.demands[0].specifier}"
        )
    else:
        yield _change_demanded(case, misfit)
    if len(misfits) > 1:
        return
    versions = accepting_releases(case, misfit.demands[0], misfit.version)
    if versions:
        name = published_name(misfit.by)
        wanted = release_specifier(name, versions)
        installable = not misfit.by.editable and name not in ("easyr1", "nemo-rl", "open-r1")
        # The command is bounded further by what else is there.
        which = f"to a release that accepts {misfit.on} {misfit.version}" + ("" if installable else f": {wanted}")
        yield Fix(
            title=f"or move {name} {which}",
            commands=(install(case, shlex.quote(wanted)),) if installable else (),
            applicability=Applicability.UNSAFE if installable else Applicability.DISPLAY,
            valid_for=wanted,
        )


def _change_demanded(case: Case, misfit: Misfit) -> Fix:
    """Moves the package that is demanded to what everybody here accepts, or says that nothing would be accepted."""
    name = misfit.installed.name if misfit.installed else misfit.on
    moved = dict(_companions(case, misfit))
    here = tuple(d for d in needs_of(case).on(misfit.on) if d.by.name not in moved)
    # Frameworks that lie beside the launch's own count as long as one release serves all.
    demands = here if acceptable_releases(case, name, here) else tuple(d for d in here if _counts(case, misfit, d))
    parties = list(dict.fromkeys(f"{d.by.name} {d.by.version}" for d in demands))
    who = parties[0] if len(parties) == 1 else f"{', '.join(parties[:-1])} and {parties[-1]}"
    wanted = f"{name}{combined_specifier(demands)}"
    releases = acceptable_releases(case, name, demands)
    if not releases and acceptable_releases(case, name, ()):
        pinned = next((d.specifier.removeprefix("==") for d in demands if d.exact), None)
        if pinned is not None and all(d.admits(pinned) for d in demands):
            alone = f"{who} {'accepts' if len(parties) == 1 else 'accept'} {name} {pinned} alone"
            return Fix(
                title=f"{alone}, which was withdrawn or is no stable release: take releases that go together",
                commands=("rldoctor compat",),
            )
        said = {one: ",".join(d.specifier for d in demands if f"{d.by.name} {d.by.version}" == one) for one in parties}
        opinions = "; ".join(f"{one}: {specifiers}" for one, specifiers in said.items())
        return Fix(
            title=f"no release of {name} is accepted by all ({opinions}): take releases that go together",
            commands=("rldoctor compat",),
        )
    newest = f"; the newest is {name}=={releases[-1]}" if releases and "==" not in wanted else ""
    version = releases[-1] if releases else None
    return Fix(
        title=f"install the {name} that {who} {'accepts' if len(parties) == 1 else 'accept'}{newest}",
        commands=(install(case, *(shlex.quote(item) for item in (wanted, *moved.values()))),),
        applicability=Applicability.UNSAFE,
        valid_for=wanted,
        side_effects=_side_effects(case, name, version),
    )


def _counts(case: Case, misfit: Misfit, demand: Demand) -> bool:
    """Whether a change for the sake of a misfit has to meet a demand: its own, and what the launch runs with."""
    return demand.by.name == misfit.by.name or not elsewhere(case, package_identity(demand.by))


def _companions(case: Case, misfit: Misfit) -> Iterator[tuple[str, str]]:
    """Where torch moves, the packages built for it that the same package pins have to move with it: name and pin."""
    if misfit.on != "torch" or case.packages is None:
        return
    for demand in needs_of(case).demands:
        if demand.by == misfit.by and demand.on in _COMPANIONS[1:] and demand.exact:
            installed = find(case.packages, demand.on)
            if installed is not None and not demand.admits(installed.version):
                yield demand.on, f"{demand.on}{demand.specifier}"


def _side_effects(case: Case, name: str, version: str | None) -> str | None:
    """What pip replaces besides, because the release to install pins it."""
    if version is None or case.packages is None:
        return None
    moved = []
    for demand in published_demands(case, name, version):
        installed = find(case.packages, demand.on)
        if demand.on in _COMPANIONS and demand.exact and installed and not demand.admits(installed.version):
            moved.append(f"{demand.on} {installed.version} by {demand.specifier.removeprefix('==')}")
    return f"pip also replaces {', '.join(moved)}" if moved else None


def between_vllm_and(demand: Demand) -> bool:
    """Whether a framework demands something of vLLM."""
    return demand.on == "vllm" and is_framework(demand.by)


def of_vllm(demand: Demand, on: str) -> bool:
    return demand.on == on and package_identity(demand.by) == "vllm"
