from __future__ import annotations

import sys

import pytest

from sidecar.malloc import raise_malloc_thresholds


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_raise_malloc_thresholds_are_taken_by_glibc() -> None:
    assert raise_malloc_thresholds()


def test_raise_malloc_thresholds_elsewhere_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not raise_malloc_thresholds()
