"""The kernel's words for a file system that takes a job's ticket no more: Kerberos on NFS, AFS, Lustre (RLD603)."""

from __future__ import annotations

from rldoctor.api import Fix

from .. import check
from ..fixes import RESUME

# ENOKEY, EKEYEXPIRED, EKEYREVOKED and EKEYREJECTED, which only such file systems give.
check.signature(
    "Required key not available",
    "Key has expired",
    "Key has been revoked",
    "Key was rejected by service",
    pattern=r"(?P<why>Required key not available|Key has expired|Key has been revoked|Key was rejected by service)"
    r"(?:: '(?P<path>[^'\n]{1,300})')?",
    says="the file system takes the job's ticket no more ({why})[[: {path}]]",
    fixes=(
        Fix(
            title="let the job renew its ticket for as long as it runs (Kerberos, AFS), from a keytab where it may",
            commands=("klist", "krenew -b -K 60 -t -- bash train.sh", "k5start -f KEYTAB -U -t -- bash train.sh"),
        ),
        RESUME,
    ),
    url="https://man7.org/linux/man-pages/man3/errno.3.html",
)
