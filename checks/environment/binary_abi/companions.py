"""Which torchvision and torchaudio belong to which torch.

Their extensions call torch's C++ interface, which had no stable form before torch 2.14, so each release is built for
one torch and declares it: the table holds the ``Requires-Dist: torch==...`` of the wheels on PyPI, read on 2026-11-20
(torchvision 0.29.1 and newer declare ``torch>=2.14.0``; torchaudio 2.11 declares nothing).
https://github.com/pytorch/vision#installation lists the same pairs."""

from __future__ import annotations

# torch release -> torchvision release
TORCHVISION = {
    "2.0.0": "0.15.1",
    "2.0.1": "0.15.2",
    "2.1.0": "0.16.0",
    "2.1.1": "0.16.1",
    "2.1.2": "0.16.2",
    "2.2.0": "0.17.0",
    "2.2.1": "0.17.1",
    "2.2.2": "0.17.2",
    "2.3.0": "0.18.0",
    "2.3.1": "0.18.1",
    "2.4.0": "0.19.0",
    "2.4.1": "0.19.1",
    "2.5.0": "0.20.0",
    "2.5.1": "0.20.1",
    "2.6.0": "0.21.0",
    "2.7.0": "0.22.0",
    "2.7.1": "0.22.1",
    "2.8.0": "0.23.0",
    "2.9.0": "0.24.0",
    "2.9.1": "0.24.1",
    "2.10.0": "0.25.0",
    "2.11.0": "0.26.0",
    "2.12.0": "0.27.0",
    "2.12.1": "0.27.1",
    "2.13.0": "0.28.0",
    "2.14.0": "0.29.2",
}
TORCHVISION_TORCH = {vision: torch for torch, vision in TORCHVISION.items()} | {"0.29.0": "2.14.0"}
# Of torchaudio these releases carry torch's own number and declare it.
TORCHAUDIO = tuple(
    release for release in TORCHVISION if release not in ("2.11.0", "2.12.0", "2.12.1", "2.13.0", "2.14.0")
)


def split_version(version: str) -> tuple[str, str]:
    """A version's release and its local label: ``2.13.0+cpu`` is ``2.13.0`` and ``cpu``."""
    release, _, label = version.partition("+")
    return release, label


def companion(name: str, torch: str) -> str | None:
    """The release of ``name`` that belongs to a torch, with torch's own label (``+cpu``), or None where it is not
    known."""
    release, label = split_version(torch)
    known = {"torchvision": TORCHVISION, "torchaudio": {number: number for number in TORCHAUDIO}}
    found = known.get(name, {}).get(release)
    return None if found is None else f"{found}+{label}" if label else found


def built_for(name: str, version: str) -> str | None:
    """The one torch release that a torchvision or torchaudio of this version was built for, where it was for one."""
    release, _ = split_version(version)
    if name == "torchvision":
        return None if release == "0.29.2" else TORCHVISION_TORCH.get(release)
    return release if name == "torchaudio" and release in TORCHAUDIO else None
