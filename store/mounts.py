"""What kind of file system a folder is on. LMDB needs shared memory maps and locks that hold: not so over a network.

Source: LMDB's own caveats ("do not use LMDB databases on remote filesystems").
"""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["REMOTE", "VOLATILE", "mount_kind", "mount_of"]

REMOTE = frozenset({"9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4"}) | frozenset(
    {"fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "smb3", "smbfs", "virtiofs"}
)
VOLATILE = frozenset({"tmpfs", "ramfs", "overlay", "aufs", "devtmpfs"})
"""Gone with the container or the next start of the host."""

_MOUNTINFO = Path("/proc/self/mountinfo")


def mount_kind(folder: Path) -> str:
    """Kind of the file system that a folder is on; empty where the system does not tell."""
    try:
        text = _MOUNTINFO.read_text(errors="surrogateescape")
    except OSError:
        return ""
    return mount_of(os.path.realpath(folder), text)


def mount_of(path: str, mountinfo: str) -> str:
    """Kind of the mount that a path is on: the one with the longest mount point that leads to it, the last of equals.

    Args:
        path: absolute, without links.
        mountinfo: as /proc/self/mountinfo has it.
    """
    best = ""
    kind = ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        inside = point == "/" or path == point or path.startswith(point + "/")
        if inside and len(point) >= len(best):
            best, kind = point, after.split(" ")[0]
    return kind
