"""Which real option a misspelled or misplaced name was meant to be."""

from __future__ import annotations

from collections.abc import Iterable

_LEAST = 0.7  # below this likeness a suggestion misleads more than it helps
_SLACK = 0.15  # how much less like than the best one a further suggestion may be
_SAME_WORDS = 0.95
_ELSEWHERE = 0.85  # what likeness is worth in another section


def nearest_names(name: str, names: Iterable[str], count: int) -> list[str]:
    """At most ``count`` of ``names``, the likeliest first; none where nothing is close.

    The last part of a dotted name decides, so ``rollout.tensor_parallel_size`` finds
    ``generator.inference_engine.tensor_parallel_size``; a long section in common makes no likeness, and a last part
    that many sections have (``enable``) none between sections that share nothing."""
    from difflib import SequenceMatcher

    section, _, leaf = name.rpartition(".")
    parts = set(section.split("."))
    words = sorted(leaf.split("_"))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(leaf)
    names = list(names)
    common = sum(candidate.rpartition(".")[2] == leaf for candidate in names) > 1
    scored = []
    for candidate in names:
        other, _, last = candidate.rpartition(".")
        if last == "_target_":
            continue
        matcher.set_seq1(last)
        if last == leaf:
            score = 1.0
        elif sorted(last.split("_")) == words:
            score = _SAME_WORDS
        elif matcher.real_quick_ratio() < _LEAST or matcher.quick_ratio() < _LEAST:
            continue
        else:
            score = matcher.ratio()
        if other != section:
            shared = len(parts & set(other.split("."))) / len(parts)
            if common and last == leaf and section and not shared:
                continue
            score *= _ELSEWHERE + 0.1 * shared
        if score >= _LEAST:
            scored.append((-score, abs(len(candidate) - len(name)), candidate))
    scored.sort()
    return [candidate for score, _, candidate in scored[:count] if score <= scored[0][0] + _SLACK]
