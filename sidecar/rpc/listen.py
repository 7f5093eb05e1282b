"""Where a server listens: what an address means, and how a Unix socket is taken without taking it from anybody.

gRPC itself removes whatever socket file stands at the path, in use or not, and makes its own with the umask's mode. So, here: a
socket that somebody answers on is refused, one that nobody answers on is removed, anything that is no socket is left alone; and
the mode is chosen, not inherited, and never wider than chosen, not for a moment.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
from pathlib import Path

import grpc
import msgspec

__all__ = ["Address", "AddressError", "ListenError", "bind", "parse_address"]

# sun_path is 108 bytes on Linux with its end; a longer path would be cut or refused by the kernel.
_SOCKET_PATH_BYTES = 107


class ListenError(Exception):
    """An address cannot be listened on. The text says which and why."""


class AddressError(ListenError):
    """It is no address that anybody could listen on, or one that the options forbid."""


class Address(msgspec.Struct, frozen=True):
    """One listener; either path or host is set."""

    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        """As a client's target."""
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def local(self) -> bool:
        """Only this machine can reach it."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str) -> Address:
    """Read `unix:PATH` or `HOST:PORT` (an IPv6 host in brackets; port 0 takes a free one).

    Raises:
        AddressError: it is neither, or the path is too long for a socket.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if path.startswith("//"):
            path = path[2:]  # unix:///run/x
        if not path:
            raise AddressError("unix: names no path")
        path = os.path.abspath(os.path.expanduser(path))
        if len(os.fsencode(path)) > _SOCKET_PATH_BYTES:
            raise AddressError(f"socket path is longer than {_SOCKET_PATH_BYTES} bytes: {path}")
        return Address(path=path)
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise AddressError(f"not an address: {text!r}; use unix:PATH or HOST:PORT")
    return Address(host=host, port=int(port))


def bind(server: grpc.Server, address: Address, socket_mode: int) -> Address:
    """Bind a server that has not started.

    Args:
        server: gets the listener.
        address: where; port 0 takes a free one.
        socket_mode: permission bits of a Unix socket.

    Returns:
        The address as bound, with the real port.

    Raises:
        ListenError: somebody else has it, or the system refuses.
    """
    if address.path:
        _bind_socket(server, address, socket_mode)
        return address
    return Address(host=address.host, port=_add_port(server, address))


def _bind_socket(server: grpc.Server, address: Address, mode: int) -> None:
    path = Path(address.path)
    try:
        # A folder that we make lets through just whom the socket lets in.
        path.parent.mkdir(parents=True, exist_ok=True, mode=_folder_mode(mode))
        _free_path(path)
        # Narrower than any choice until chmod widens it; only owner bits of a file are left to other threads meanwhile.
        before = os.umask(0o177)
        try:
            _add_port(server, address)
        finally:
            os.umask(before)
        os.chmod(path, mode)
    except OSError as error:
        raise ListenError(f"cannot listen on {address}: {error.strerror or error}") from error


def _free_path(path: Path) -> None:
    """Remove a socket that nobody answers on."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise ListenError(f"{path} is there and is not a socket; it is left as it is")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                path.unlink(missing_ok=True)
                return
            if error.errno == errno.ENOENT:
                return
            raise ListenError(f"cannot tell whether {path} is in use: {error.strerror or error}") from error
    raise ListenError(f"{path} is in use by a running server; stop it first or choose another path")


def _add_port(server: grpc.Server, address: Address) -> int:
    try:
        port = server.add_insecure_port(str(address))
    except RuntimeError as error:
        raise ListenError(f"cannot listen on {address}: in use, or not an address of this machine") from error
    if port == 0:
        raise ListenError(f"cannot listen on {address}: in use, or not an address of this machine")
    return port


def _folder_mode(socket_mode: int) -> int:
    """Rwx for the owner, r-x for each class that may use the socket."""
    mode = 0o700
    for shift in (3, 0):
        if socket_mode >> shift & 0o6:
            mode |= 0o5 << shift
    return mode
