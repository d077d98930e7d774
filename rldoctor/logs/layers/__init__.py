"""Layers around the lines of a log: what terminals, containers, schedulers, mails and web pages put around them.

A layer is recognised in the beginning of a file and taken off everywhere, until none is left; what it told of a line
(time, level, process) stays in the line's :mod:`envelope <rldoctor.logs.envelope>`. The prefixes of programs
themselves (ranks, Ray's actors, loggers) stay where they are: :mod:`rldoctor.logs.prefixes` reads them."""

from __future__ import annotations

from functools import partial
from operator import add

from rldoctor.logs import envelope
from rldoctor.logs.layers import documents, folds, frames, histories, records, shared, streams
from rldoctor.logs.layers.layer import Layer, Strip, lines_of

__all__ = ["Layer", "Strip", "learned"]

# In the order in which they are tried: whatever changes where lines end goes before what stands in front of them.
LAYERS: tuple[Layer, ...] = (
    Layer("print", documents.blanks),
    Layer("links", documents.links),
    Layer("escapes", documents.lost_escapes),
    Layer("quotation", documents.quoted),
    Layer("one string", folds.escaped),
    Layer("cell", documents.cells),
    Layer("page", documents.elements),
    Layer("HTML", documents.entities),
    Layer("one line", folds.flattened),
    Layer("lost line ends", folds.run_on),
    Layer("records", records.records),
    Layer("padding", folds.padded),
    Layer("pager", frames.paged),
    Layer("times apart", frames.apart),
    Layer("folded lines", folds.folded),
    Layer("diff", histories.diffs),
    Layer("commits", histories.commits),
    Layer("release notes", histories.releases),
    Layer("guide", documents.guide),
    Layer("Markdown", documents.fences),
    Layer("box", frames.boxed),
    Layer("another's logger", streams.logged),
    Layer("known envelopes", frames.enveloped),
    Layer("line numbers", frames.numbered),
    Layer("numbers before the text", frames.counted),
    Layer("code spans", documents.spans),
    Layer("indent", frames.indented),
    Layer("marks", frames.marked),
    Layer("shared prefix", shared.prefixed),
)
_MOST = 8


def learned(sample: bytes) -> list[Strip]:
    """What takes the layers off a file that begins with ``sample``, outermost first; empty for a plain log."""
    strips: list[Strip] = []
    for _ in range(_MOST):
        lines = [envelope.split(line)[1] for line in lines_of(sample)]
        strip = next((strip for layer in LAYERS if (strip := layer.learn(lines)) is not None), None)
        if strip is None:
            break
        bare = _beneath(strip, sample)
        if bare == sample:
            break
        sample = bare
        strips.append(partial(_beneath, strip))
    return strips


def _beneath(strip: Strip, text: bytes) -> bytes:
    """Takes a layer off below what those around it told of each line. Where lines are joined or cut, that is lost."""
    if envelope.OPEN_BYTES not in text:
        return strip(text)
    reported, bodies = zip(*(envelope.split(line) for line in text.split(b"\n")), strict=True)
    bare = strip(b"\n".join(bodies)).split(b"\n")
    return b"\n".join(map(add, reported, bare)) if len(bare) == len(reported) else b"\n".join(bare)
