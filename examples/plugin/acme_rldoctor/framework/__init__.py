"""The acme trainer."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Package, Words

FRAMEWORK = Framework(
    home=__name__,
    name="acme",
    title="acme",
    packages=(Package(name="acme-trainer", modules=("acme_trainer",), published=False),),
    programs=("acme-train",),
    variables="ACME_",
    words=Words(paths=r"/acme_trainer/", texts=("[acme]",)),
)
