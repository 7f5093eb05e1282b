from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from store import failpoints
from tests.fault.kills.run import ARMED


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    failpoints.configure("")


def test_hit_nth_pass_only_raises_named_error() -> None:
    failpoints.configure("before_commit=error:ENOSPC@2,close=error")
    failpoints.hit("before_commit")
    with pytest.raises(OSError, match="space") as caught:
        failpoints.hit("before_commit")
    assert caught.value.errno == errno.ENOSPC
    failpoints.hit("before_commit")
    failpoints.hit("after_commit")
    for _ in range(2):
        with pytest.raises(OSError, match="error") as caught:
            failpoints.hit("close")
        assert caught.value.errno == errno.EIO
    failpoints.configure("")
    failpoints.hit("close")


@pytest.mark.parametrize("text", ["close", "close=explode", "close=error:NOSUCH", "close=kill@x", "here=kill"])
def test_configure_unknown_text_is_refused(text: str) -> None:
    with pytest.raises((ValueError, AttributeError)):
        failpoints.configure(text)


def test_places_are_those_that_the_code_passes() -> None:
    root = Path(failpoints.__file__).parents[1]
    sources = [path.read_text() for folder in ("store", "sidecar") for path in (root / folder).rglob("*.py")]
    passed = {place for text in sources for place in re.findall(r'failpoints\.hit\("(\w+)"\)', text)}
    assert passed == failpoints._PLACES


def test_kill_run_visits_every_place_that_a_sidecar_passes() -> None:
    assert set(ARMED) == failpoints._PLACES - set(failpoints.BACKUP_PLACES)  # of a backup: tests/store/test_backup.py
    assert {"backup_write", "backup_rename"} == set(failpoints.BACKUP_PLACES)
