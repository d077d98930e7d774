"""What takes a job's ticket or token no more: file systems in the kernel's words (Kerberos on NFS, AFS, Lustre), stores
of clouds in those of their clients (RLD603)."""

from __future__ import annotations

from rldoctor.api import Fix

from ....observed.endings import was_raised
from .. import check
from ..fixes import RESUME

# ENOKEY, EKEYEXPIRED, EKEYREVOKED and EKEYREJECTED of a path. gpg, an API of a service, and modprobe, where the kernel
# takes signed modules alone, have the same words for keys of their own.
_WHY = "Required key not available|Key has expired|Key has been revoked|Key was rejected by service"
check.signature(
    "Required key not available",
    "Key has expired",
    "Key has been revoked",
    "Key was rejected by service",
    pattern=rf"\[Errno 12[6-9]\] (?P<why>{_WHY})(?:: '(?P<path>[^'\n]{{1,300}})')?"
    rf"|(?<![\w:/.~])(?P<path_2>~?/[^\s:'\"]{{1,300}})['\"]?: (?P<why_2>{_WHY})"
    rf"|(?P<why_3>{_WHY}) (?:\[(?P<path_3>/[^\]\n]{{1,300}})\]|\(os error 12[6-9]\))",
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
# botocore, google-auth, azure-identity
check.signature(
    "(ExpiredToken",
    "(RequestExpired)",
    "google.auth.exceptions.RefreshError",
    "Reauthentication is needed",
    "oken has expired",
    "token is expired",
    "credentials have expired",
    "credentials were refreshed, but the refreshed credentials are still expired",
    when=was_raised,
    says="a service takes the job's credentials no more: {error}",
    fixes=(
        Fix(
            title="let the job use credentials that are renewed while it runs (a role of its machine or service "
            "account) instead of ones that were copied as it began"
        ),
        RESUME,
    ),
    url="https://boto3.amazonaws.com/v1/documentation/api/latest/guide/credentials.html",
)
