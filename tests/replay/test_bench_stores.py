"""`python -m bench recover store --quick` runs, and says what it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(240)
def test_recover_and_store_quick_give_each_promised_figure(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    command = [sys.executable, "-m", "bench", "recover", "store", "--quick", "--rounds", "1", "--out", str(out)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=220, check=False)
    assert ended.returncode == 0, ended.stderr
    result = json.loads(out.read_text())
    assert result["quick"] and result["machine"]["processor"]
    recover = result["recover"]["rows"]
    assert {(row["size_bytes"], row["store"]) for row in recover} == {
        (size, store) for size in (64 << 10, 256 << 10) for store in ("small", "large")
    }
    for row in recover:
        assert row["answer_bytes"] > 32 << 10
        for which in ("cold_us", "cold_cpu_us", "warm_us"):
            assert 0 < row[which]["p50"] <= row[which]["p99"]
    stores = {row["store"]: row for row in result["store"]["rows"]}
    assert [row["session_count"] for row in stores.values()] == [0, 2, 8]
    assert stores["large"]["file_bytes"] > stores["large"]["body_bytes"] // 2
    for row in stores.values():
        for end in ("clean", "killed"):
            assert row["start_cpu_ms"][end]["p50"] > 0 and 0 < row["start_ms"][end]["p50"] <= row["start_ms"][end]["max"]
        for memory in row["memory"].values():
            assert 0 < memory["anonymous"] < memory["resident"]
    assert list(stores["large"]["memory"]) == ["start", "one", "all", "all again"]
    assert "Recover over a Unix socket" in ended.stdout and "MiB resident" in ended.stdout
