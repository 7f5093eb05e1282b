from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from store import failpoints


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    failpoints.configure("")


def test_hit_nth_pass_only_raises_named_error() -> None:
    failpoints.configure("here=error:ENOSPC@2,there=error")
    failpoints.hit("here")
    with pytest.raises(OSError, match="space") as caught:
        failpoints.hit("here")
    assert caught.value.errno == errno.ENOSPC
    failpoints.hit("here")
    failpoints.hit("elsewhere")
    for _ in range(2):
        with pytest.raises(OSError, match="error") as caught:
            failpoints.hit("there")
        assert caught.value.errno == errno.EIO
    failpoints.configure("")
    failpoints.hit("there")


@pytest.mark.parametrize("text", ["here", "here=explode", "here=error:NOSUCH", "here=kill@x"])
def test_configure_unknown_text_is_refused(text: str) -> None:
    with pytest.raises((ValueError, AttributeError)):
        failpoints.configure(text)
