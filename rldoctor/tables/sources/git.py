"""Reads repositories with git: their tags, and the files of any commit. Nothing of a repository is executed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_TIMEOUT = 120  # seconds; a clone without its files takes a few


class GitError(OSError):
    """What git said when it failed."""


class CloneTree:
    """One commit of a clone, bare or not."""

    def __init__(self, clone: Path, reference: str) -> None:
        self.clone = clone
        self.reference = reference
        try:
            listed = git(clone, "ls-tree", "-r", "--name-only", "-z", reference)
        except GitError:  # no such commit: nothing lies there
            listed = ""
        self.members = frozenset(filter(None, listed.split("\0")))

    def read(self, path: str) -> str | None:
        return git(self.clone, "show", f"{self.reference}:{path}") if path in self.members else None

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(name for name in self.members if name.startswith(f"{folder}/")))


def git(clone: Path, *arguments: str) -> str:
    """What a git command prints in ``clone``. Raises :class:`GitError` where it fails or does not answer."""
    return _run("-C", str(clone), *arguments)


def tags(clone: Path, prefix: str) -> list[str]:
    """The tags that are ``prefix`` and a digit on, as git orders them."""
    return git(clone, "tag", "--list", f"{prefix}[0-9]*").split()


def clone_of(url: str, clones: Mapping[str, Path], cache: Path) -> Path:
    """A clone of the repository at ``url``: the one that ``clones`` has under ``owner/name``, or one in ``cache``.

    The latter is bare and without the files' contents, which git fetches when they are read; one that is there already
    is brought up to date. Raises :class:`GitError`."""
    name = "/".join(url.rstrip("/").removesuffix(".git").split("/")[-2:])
    if name in clones:
        return clones[name]
    folder = cache / re.sub(r"[^\w.-]+", "+", name)
    if folder.is_dir():
        git(folder, "fetch", "--quiet", "--tags", "--force", "origin", "+refs/heads/*:refs/heads/*")
    else:
        cache.mkdir(parents=True, exist_ok=True)
        _run("clone", "--quiet", "--bare", "--filter=blob:none", url, str(folder))
    return folder


def _run(*arguments: str) -> str:
    quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, stdin=subprocess.DEVNULL, env=quiet, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git did not answer within {_TIMEOUT} s") from None
    except OSError as error:
        raise GitError(f"git cannot be run: {error}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitError(said[-1] if said else f"git exited with {done.returncode}")
    return done.stdout.decode("utf-8", "replace")
