"""Reads from the observations which imports failed, and whom a failure names: the ground of the checks that judge
them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from rldoctor.api import Case, NotChecked, Reach, dataclass, find
from rldoctor.api.facts import Packages
from rldoctor.api.packages import canonical

from ..exceptions import Link, root_of

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# Modules whose distribution is called otherwise.
DISTRIBUTIONS = {
    "Crypto": "pycryptodome",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "distutils": "setuptools",
    "dotenv": "python-dotenv",
    "flash_attn_2_cuda": "flash-attn",
    "flashinfer": "flashinfer-python",
    "faiss": "faiss-cpu",
    "fitz": "pymupdf",
    "git": "gitpython",
    "google": "protobuf",
    "hydra": "hydra-core",
    "jwt": "pyjwt",
    "magic": "python-magic",
    "megatron": "megatron-core",
    "multipart": "python-multipart",
    "pkg_resources": "setuptools",
    "pythonjsonlogger": "python-json-logger",
    "pynvml": "nvidia-ml-py",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "swift": "ms-swift",
    "transfer_queue": "transferqueue",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}

IMPORTS = "import probe"
ROLLOUT = "rollout probe"

# What no rollout can do without, and what a trainer is built on: a failure there stops the run.
ENGINE = frozenset({"vllm", "torch", "transformers", "numpy"})
CORE = ENGINE | {"ray", "trl", "verl", "ms-swift", "openrlhf", "deepspeed", "flash-attn", "datasets"}


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One import that did not succeed. ``package`` is the distribution that was asked for, ``links`` its exceptions,
    outermost first, ``native`` the libraries that could not be loaded, ``loading`` the one begun last before it
    died."""

    package: str
    ended: str
    links: tuple[Link, ...] = ()
    native: tuple[Link, ...] = ()
    loading: Link | None = None
    exit_code: int | None = None
    tail: tuple[str, ...] = ()
    source: str = IMPORTS

    @property
    def root(self) -> Link | None:
        """The exception that it began with."""
        return root_of(self.links)

    @property
    def text(self) -> str:
        return f"{self.root['type']}: {self.root['message']}" if self.root else self.ended


def stopped(failed: Collection[Failure], but: str = "") -> str:
    """What some failures stopped, for a sentence; ``but`` is the package that is to blame for them."""
    packages = sorted({f.package for f in failed if f.source == IMPORTS and f.ended != "swallowed"} - {but})
    parts = [f"the import of {', '.join(packages)}"] if packages else []
    return " and ".join(parts + ["the rollout"] * any(f.source == ROLLOUT for f in failed))


def imports(case: Case) -> dict[str, Mapping[str, Any]]:
    """What became of each package that the import probe tried, by distribution."""
    run: Mapping[str, Any] = case.observations.get("imports", {}).get("stack", {})
    found = run.get("records", {}).get("packages")
    if found is None and run.get("ended") == "done":
        raise NotChecked("the import probe recorded no package")
    return dict(found or {})


def failures(case: Case) -> list[Failure]:
    """The packages that could not be imported. Raises :class:`NotChecked` where the end of an import is not known."""
    without = [name for name, reported in imports(case).items() if "ended" not in reported]
    if without:
        raise NotChecked(f"how the import of {', '.join(without)} ended was not recorded")
    return [_failure(name, reported) for name, reported in imports(case).items() if reported.get("ended") != "done"]


def swallowed(case: Case) -> Iterator[Failure]:
    """Libraries of a package's own that could not be loaded although its import went through."""
    for name, reported in imports(case).items():
        if reported.get("ended") == "done":
            own = [
                f for f in reported.get("native_failures", ()) if distribution(f.get("package"), case.packages) == name
            ]
            for entry in own:
                place = {"file": entry["path"], "package": entry["package"]}
                link = {"type": entry["type"], "message": entry["message"], "frames": [place], "libraries": [place]}
                yield Failure(package=name, ended="swallowed", links=(link,), native=(entry,))


def rollout_failure(case: Case) -> Failure | None:
    """The exception that ended the rollout probe, which may be an import that vLLM does late."""
    job: Mapping[str, Any] = case.observations.get("rollout", {}).get("miniature", {})
    if job.get("ended") != "raised":
        return None
    links = tuple(job.get("records", {}).get("exceptions", ()))
    return Failure(package="vllm", ended="raised", links=links, source=ROLLOUT)


def reached(case: Case, probe: str, job: str, text: str) -> Reach:
    """How far a probe's run got, for a check that found nothing in it: ``text`` where it came to its end. An exception
    is an answer too, as far as it got.

    Raises :class:`NotChecked` where it was cut off: nothing found is no pass then."""
    run: Mapping[str, Any] = case.observations.get(probe, {}).get(job, {})
    ended = str(run.get("ended"))
    if ended not in ("done", "raised"):
        cut_off(run, f"{probe} probe")
    stage = run.get("records", {}).get("stage")
    return Reach(text if ended == "done" else f"the {probe} probe raised another error at stage {stage or 'start'}")


def cut_off(run: Mapping[str, Any], what: str) -> NoReturn:
    """Raises :class:`NotChecked` of a run that came to no end, or could not be played at all."""
    if "why" in run:
        raise NotChecked(str(run["why"]))
    raise NotChecked(f"the {what} {run.get('ended')} before it came to an end", how="--time-limit SECONDS")


def distribution(module: str | None, packages: Packages | None) -> str:
    """The distribution that a top-level module comes with, as far as names tell."""
    if module is None:
        return ""
    known = DISTRIBUTIONS.get(module, canonical(module))
    found = find(packages, known) or find(packages, module) if packages else None
    return "vllm" if known == "vllm" else found.name if found else known


def version_of(name: str, case: Case) -> str:
    """A package's version as installed, or as it told itself when it was imported; empty where neither is known."""
    found = find(case.packages, name) if case.packages else None
    return found.version if found else str(imports(case).get(name, {}).get("version") or "")


def named(name: str, case: Case) -> str:
    """The package with its version, for a sentence."""
    return f"{name} {version_of(name, case)}".strip()


def owner(frames: Any, case: Case) -> str:
    """The distribution of the innermost frame that is not Python's own; empty where none is."""
    packages = [frame.get("package") for frame in frames or () if frame.get("package") not in (None, "python")]
    return distribution(packages[-1], case.packages) if packages else ""


def requirements(name: str, case: Case) -> list[Requirement]:
    """What an installed package declares to need, extras included; a line that cannot be read is left out."""
    from packaging.requirements import InvalidRequirement, Requirement  # as long to import as half of the checks

    package = find(case.packages, name) if case.packages else None
    found = []
    for line in package.requires if package else ():
        with contextlib.suppress(InvalidRequirement):
            found.append(Requirement(line))
    return found


def applies(requirement: Requirement) -> bool:
    """Whether a requirement holds without any extra, on this platform."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def install(case: Case, *arguments: str, verb: str = "install") -> str:
    """A pip command for the interpreter that was examined."""
    python = (case.packages.executable if case.packages else None) or "python"
    return f"{python} -m pip {verb} {' '.join(arguments)}"


def _failure(name: str, reported: Mapping[str, Any]) -> Failure:
    return Failure(
        package=name,
        ended=str(reported.get("ended")),
        links=tuple(reported.get("exceptions", ())),
        native=tuple(reported.get("native_failures", ())),
        loading=reported.get("loading"),
        exit_code=reported.get("exit_code"),
        tail=tuple(reported.get("tail", ())),
    )
