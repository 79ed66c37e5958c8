"""Sockets whose descriptor is closed exactly once, by its owner, also under uvloop.

uvloop closes the descriptor of a connection that breaks during its TLS handshake, but leaves aiohttp's socket
object open (MagicStack/uvloop#646, #653). When the garbage collector frees that object, it closes the same
descriptor number again. By then the number belongs to another connection, which continues on a wrong
descriptor, or libuv aborts the process. A load balancer whose server restarts is enough to trigger this. So
the sockets created here close only on request (by the event loop, or after a failed connect), and never
because they are garbage-collected.
"""

from __future__ import annotations

import socket

import aiohttp


class UnownedSocket(socket.socket):
    """A socket that stays open when it is garbage-collected."""

    def __del__(self) -> None:
        self.detach()


def use_unowned_sockets(connector: aiohttp.BaseConnector | None) -> None:
    """Make `connector`, which the official client created, open its connections with `UnownedSocket`."""
    if isinstance(connector, aiohttp.TCPConnector):
        # Equals `socket_factory=`, which the client cannot pass on.
        connector._socket_factory = _make  # noqa: SLF001


def _make(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    return UnownedSocket(family, kind, protocol)
