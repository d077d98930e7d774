"""Which layer a launch runs on top: a framework may put its own code in the place of another package's, and mend what
that package misses, so that what is known of the package does not hold below it."""

from __future__ import annotations

from rldoctor import frameworks
from rldoctor.case import Case
from rldoctor.case.lookup import installed_within
from rldoctor.frameworks.record import Framework, Layer

# What a replaced package says about these it says of engines and servers that it would have built itself.
ENGINES = frozenset(p.name for framework in frameworks.frameworks() if not framework.trains for p in framework.packages)


def replaced(case: Case, package: str) -> bool:
    """Whether the launch's framework puts its own trainers and engines in the place of a package's."""
    found = _layer(case, package)
    return found is not None and found[1].replaces


def elsewhere(case: Case, package: str) -> bool:
    """Whether the launch trains with another framework than the package's own, and not one that is built over it: what
    a setting does there it does not do here."""
    named = frameworks.framework(case.plan.framework) if case.plan is not None else None
    owners = [one for one in frameworks.trainers() if any(held.name == package for held in one.packages)]
    if named is None or not named.trains or not owners:
        return False
    return named not in owners and all(layer.package != package for layer in named.over)


def mended(case: Case, package: str, reason: str) -> bool:
    """Whether the launch's framework, in the release at hand, puts back a name whose absence is the ``reason`` why the
    package does not work with another."""
    found = _layer(case, package)
    if found is None:
        return False
    framework, layer = found
    owners = [held.name for held in framework.packages]
    return any(
        name in reason and any(installed_within(case, owner, versions) for owner in owners)
        for name, versions in layer.mends.items()
    )


def keeps_buffers(case: Case) -> bool:
    """Whether the launch's framework puts a model's buffers back that vLLM loses in a deep sleep."""
    found = _layer(case, "vllm")
    return found is not None and found[1].keeps_buffers


def _layer(case: Case, package: str) -> tuple[Framework, Layer] | None:
    """The launch's framework and its layer over a package; without a launch, of the one installed framework that has
    the package below it."""
    named = frameworks.framework(case.plan.framework) if case.plan is not None else None
    if case.plan is None and case.packages is not None:
        present = {distribution.name for distribution in case.packages.distributions}
        named = next(
            (
                framework
                for framework in frameworks.trainers()
                if any(held.name in present for held in framework.packages)
                and any(layer.package == package and layer.replaces for layer in framework.over)
            ),
            None,
        )
    found = next((layer for layer in named.over if layer.package == package), None) if named is not None else None
    return None if named is None or found is None else (named, found)
