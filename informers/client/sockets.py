"""Sockets for event loops that take the descriptor over: each descriptor is closed once, by its owner.

uvloop closes the descriptor of a connection that breaks during its TLS handshake and leaves the socket,
which aiohttp made, believing that it is open (MagicStack/uvloop#646, #653). When that socket is collected it
closes the number again, which by then belongs to another connection: that one goes on with a stranger's
descriptor, or libuv aborts the process. A load balancer whose server restarts is enough. So the sockets made
here close when they are told to, by their event loop or by whoever fails to connect them, and never by
themselves.
"""

from __future__ import annotations

import socket

import aiohttp


class LentSocket(socket.socket):
    """A socket that whoever took it has to close: being collected does not."""

    def __del__(self) -> None:
        self.detach()


def lend_sockets(connector: aiohttp.BaseConnector | None) -> None:
    """Have `connector`, which the official client made, open its connections with such sockets."""
    if isinstance(connector, aiohttp.TCPConnector):
        # What `socket_factory=` sets; the client has no way to hand that on.
        connector._socket_factory = _make  # noqa: SLF001


def _make(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    return LentSocket(family, kind, protocol)
