"""A disk that fails to flush: the call fails, nothing is reported durable that is not, and it is over without a restart.

The failure is real for everything above the C library: a shim that is loaded before it answers EIO while a file is there.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from store import LmdbStore
from tests.store import processes
from tests.store.build import KEY
from tests.store.child import BATCH_ITEMS
from tests.store.test_kill import prove_session

COMPILER = shutil.which("cc")
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int fails(void) {
    const char *place = getenv("FLUSH_FAILS");
    if (!place || access(place, F_OK) != 0) return 0;
    errno = EIO;
    return 1;
}

#define FLUSH(name)                                                    \\
    int name(int fd) {                                                 \\
        static int (*real)(int);                                       \\
        if (fails()) return -1;                                        \\
        if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name);       \\
        return real(fd);                                               \\
    }

FLUSH(fsync)
FLUSH(fdatasync)
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim, compiled."""
    if COMPILER is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "flush.c").write_text(SHIM)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", folder / "flush.so", folder / "flush.c", "-ldl"], check=True)
    return folder / "flush.so"


def test_submit_while_flush_fails_is_refused_and_over_when_it_works_again(shim: Path, tmp_path: Path) -> None:
    place = tmp_path / "fails"
    env = {"LD_PRELOAD": str(shim), "FLUSH_FAILS": str(place)}
    with processes.start("flush", tmp_path / "data", place, env=env) as child:
        text, _ = child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
    assert text.splitlines() == [
        "before ok",
        "failing STORE_FAILED",
        "failing STORE_FAILED",
        "seen 1",
        "remove STORE_FAILED",
        "backup STORE_FAILED []",
        "after ok",
        "after ok",
        "seen 3",
    ]
    store = LmdbStore(tmp_path / "data", quota_bytes=0)
    assert prove_session(store, KEY) == 3 * BATCH_ITEMS
    assert [finding["what"] for finding in store.check()] == ["count"]
    store.close()
