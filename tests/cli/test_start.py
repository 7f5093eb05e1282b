"""What a sidecar says of its data folder when it starts: how it was left, what it is on, why it is refused."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from sidecar.app import open_app
from sidecar.cli.main import _trimtab
from sidecar.config import load_config
from store import LmdbStore, mounts
from store.layout import FORMAT_VERSION, KEY_FORMAT, MAGIC
from tests.cli.test_serve import _log, _serving

UNCLEAN = "the last process that held this folder did not close it; all that it acknowledged is here"


def refused(folder: Path) -> str:
    """What `serve` says when it does not start: one line, exit code 1."""
    command = [sys.executable, "-m", "sidecar.cli.main", "serve", "--listen", f"unix:{folder}/s2", "--data-dir", f"{folder}/data"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_serve_after_a_kill_says_so_and_after_an_end_does_not(short_path: Path) -> None:
    told = []
    for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGTERM):
        with _serving(short_path) as process:
            told.append(UNCLEAN in [line["event"] for line in _log(short_path)])
            process.send_signal(end)
            process.wait(30)
    assert told == [False, True, False]


def test_serve_on_a_folder_that_another_serves_from_names_it_and_leaves_it_serving(short_path: Path) -> None:
    with _serving(short_path) as process:
        text = refused(short_path)
        assert f"held by process {process.pid} (trimtab " in text
        assert process.poll() is None
    assert LmdbStore.is_at(short_path / "data")


@pytest.mark.parametrize("what", ["foreign", "torn", "newer"])
def test_serve_on_a_file_that_is_not_ours_is_refused_with_what_to_do(short_path: Path, what: str) -> None:
    folder = short_path / "data"
    folder.mkdir()
    if what == "newer":
        LmdbStore(folder, quota_bytes=0).close()
        with lmdb.open(str(folder), map_size=1 << 24) as env, env.begin(write=True) as txn:
            txn.put(KEY_FORMAT, MAGIC + (FORMAT_VERSION + 1).to_bytes(4, "big"))
    if what == "torn":
        LmdbStore(folder, quota_bytes=0).close()
        os.truncate(folder / "data.mdb", 100)
    if what == "foreign":
        (folder / "data.mdb").write_bytes(b"of another program" * 1_000)
    before = (folder / "data.mdb").read_bytes()
    text = refused(short_path)
    assert (f"version {FORMAT_VERSION + 1}, this program knows {FORMAT_VERSION}" if what == "newer" else "not a store") in text
    assert ("start the newer version" if what == "newer" else "use another folder") in text
    assert (folder / "data.mdb").read_bytes()[:100] == before[:100]


@pytest.mark.parametrize(("kind", "warned"), [("tmpfs", True), ("overlay", True), ("ext4", False)])
def test_open_app_on_a_passing_file_system_warns(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, warned: bool
) -> None:
    table = short_path / "mountinfo"
    table.write_text(f"22 1 0:21 / / rw - {kind} x rw\n")
    monkeypatch.setattr(mounts, "_MOUNTINFO", table)
    config = load_config({"listen": (f"unix:{short_path}/s",), "data_dir": str(short_path / "data")}).config
    with caplog.at_level(logging.WARNING), open_app(config):
        pass
    assert any("goes with the container or with the host's memory" in record.message for record in caplog.records) is warned


def test_command_on_a_network_file_system_is_refused_with_what_to_do(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    LmdbStore(short_path / "data", quota_bytes=0).close()
    table = short_path / "mountinfo"
    table.write_text("22 1 0:21 / / rw - nfs4 host:/ rw\n")
    monkeypatch.setattr(mounts, "_MOUNTINFO", table)
    for words in (["sessions"], ["check"], ["backup", str(short_path / "copy")]):
        with pytest.raises(SystemExit) as ended:
            _trimtab.main([*words, "--data-dir", str(short_path / "data")])
        assert ended.value.code == 1
        text = capsys.readouterr().err
        assert "kind nfs4" in text
        assert "(use a folder on a local disk" in text or "(read it on the machine that writes it" in text
    assert not (short_path / "copy").exists()
