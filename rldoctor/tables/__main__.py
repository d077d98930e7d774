"""``python -m rldoctor.tables refresh PACKAGE...``: the maintainer's command."""

from __future__ import annotations

import sys

from rldoctor.tables import refresh

if __name__ == "__main__":
    if sys.argv[1:2] != ["refresh"]:
        sys.exit("usage: python -m rldoctor.tables refresh PACKAGE...")
    sys.exit(refresh.main(sys.argv[2:]))
