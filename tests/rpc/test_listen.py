from __future__ import annotations

import os
import socket
import stat
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from sidecar.rpc.listen import Address, ListenError, bind, parse_address


def _server() -> grpc.Server:
    return grpc.server(futures.ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 0)])


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/x.sock", Address(path="/run/x.sock")),
        ("unix:///run/x.sock", Address(path="/run/x.sock")),
        ("127.0.0.1:0", Address(host="127.0.0.1", port=0)),
        ("localhost:7733", Address(host="localhost", port=7733)),
        ("[::1]:7733", Address(host="::1", port=7733)),
    ],
)
def test_parse_address_reads(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert address.local


def test_parse_address_relative_socket_is_made_absolute(monkeypatch: pytest.MonkeyPatch, short_path: Path) -> None:
    monkeypatch.chdir(short_path)
    assert parse_address("unix:s").path == str(Path.cwd() / "s")


@pytest.mark.parametrize(
    "text", ["", "unix:", "7733", ":7733", "host:", "host:65536", "host:-1", "unix:/" + "x" * 107, "h:\u0661"]
)
def test_parse_address_refuses(text: str) -> None:
    with pytest.raises(ListenError):
        parse_address(text)


@pytest.mark.parametrize("text", ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.org:1"])
def test_address_that_others_can_reach_is_not_local(text: str) -> None:
    assert not parse_address(text).local


@pytest.mark.parametrize(("mode", "folder_mode"), [(0o600, 0o700), (0o660, 0o750), (0o666, 0o755)])
def test_bind_socket_and_a_new_folder_get_the_chosen_mode(short_path: Path, mode: int, folder_mode: int) -> None:
    address = Address(path=str(short_path / "new" / "s"))
    before = os.umask(0)
    try:
        bind(_server(), address, mode)
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    assert _mode(short_path / "new" / "s") == mode
    assert _mode(short_path / "new") == folder_mode


def test_bind_socket_is_never_wider_than_chosen_not_for_a_moment(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chmod, before = os.chmod, []

    def watched(path: Path, mode: int) -> None:
        before.append(_mode(path))
        chmod(path, mode)

    monkeypatch.setattr(os, "chmod", watched)
    bind(_server(), Address(path=str(short_path / "s")), 0o660)
    assert before == [0o600]


def test_bind_folder_that_exists_keeps_its_mode(short_path: Path) -> None:
    short_path.chmod(0o711)
    bind(_server(), Address(path=str(short_path / "s")), 0o660)
    assert _mode(short_path) == 0o711


def test_bind_socket_of_a_running_server_is_refused_and_goes_on(short_path: Path) -> None:
    path = short_path / "s"
    with socket.socket(socket.AF_UNIX) as running:
        running.bind(str(path))
        running.listen()
        inode = path.stat().st_ino
        with pytest.raises(ListenError, match="in use by a running server"):
            bind(_server(), Address(path=str(path)), 0o660)
        assert path.stat().st_ino == inode


def test_bind_stale_socket_is_replaced(short_path: Path) -> None:
    path = short_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    server = _server()
    bind(server, Address(path=str(path)), 0o660)
    server.start()
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
    server.stop(0).wait()


def test_bind_file_that_is_no_socket_is_left_as_it_is(short_path: Path) -> None:
    path = short_path / "s"
    path.write_text("mine")
    with pytest.raises(ListenError, match="not a socket"):
        bind(_server(), Address(path=str(path)), 0o660)
    assert path.read_text() == "mine"


def test_bind_folder_that_cannot_be_made_is_told(short_path: Path) -> None:
    (short_path / "file").write_text("")
    with pytest.raises(ListenError, match="cannot listen on"):
        bind(_server(), Address(path=str(short_path / "file" / "s")), 0o660)


def test_bind_port_0_tells_the_real_one_and_a_second_server_cannot_share_it() -> None:
    server = _server()
    bound = bind(server, Address(host="127.0.0.1", port=0), 0o660)
    server.start()
    assert bound.port > 0
    with pytest.raises(ListenError, match="in use"):
        bind(_server(), bound, 0o660)
    server.stop(0).wait()
