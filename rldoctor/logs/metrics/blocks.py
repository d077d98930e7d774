"""Records that a framework prints over several lines."""

from __future__ import annotations

from rldoctor.frameworks import logged
from rldoctor.frameworks.metrics import Block, Taken
from rldoctor.logs.metrics.names import translate
from rldoctor.logs.metrics.track import Reading


class OwnBlock:
    """A framework's block that is being read; with ``scattered`` other output may stand between its lines."""

    def __init__(self, framework: str, block: Block) -> None:
        self._framework = framework
        self._block = block
        self.scattered = block.SCATTERED

    def feed(self, text: str) -> Taken:
        """Takes the next line of the same process."""
        return self._block.feed(text)

    def reading(self) -> Reading | None:
        """What the block holds so far, None where that is nothing."""
        values = translate(self._block.record, self._framework)
        return Reading(values, step=self._block.step) if len(values) > 1 else None


def opened(text: str) -> OwnBlock | None:
    """The block that ``text`` opens, or None."""
    for framework, held in logged().items():
        for kind in held.blocks:
            if match := kind.OPENING.search(text):
                return OwnBlock(framework, kind(int(match.group(1))))
    return None
