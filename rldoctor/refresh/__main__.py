"""``python -m rldoctor.refresh PACKAGE...``: the maintainer's command."""

from __future__ import annotations

import sys

from rldoctor.refresh.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
