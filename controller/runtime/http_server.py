"""Serving HTTP on a configured address, for probes and metrics.

The socket is opened before anything is served, so that an address that cannot be had is an error of the
setting, not a traceback. Access is not logged: probes come every few seconds.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from controller.config.settings import Settings
from controller.config.values import BindAddress

_SHUTDOWN_SECONDS = 1.0
_NO_IPV6 = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""How binding fails where the kernel knows IPv6 and the host has it turned off."""


@asynccontextmanager
async def serve(app: web.Application, settings: Settings, field: str) -> AsyncIterator[BindAddress | None]:
    """Serve `app` inside the `async with` block, on the address that `field` of `settings` holds.

    Gives the address with the port that was bound, or `None`, serving nothing, where the setting is off.

    Raises:
        InvalidSetting: the address cannot be bound.
    """
    address: BindAddress | None = getattr(settings, field)
    if address is None:
        yield None
        return
    try:
        listener = _listen(address)
    except OSError as error:
        problem = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise settings.invalid(
            field, f"it must be an address that is free on this host ({problem})"
        ) from error
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    try:
        await runner.setup()
        await web.SockSite(runner, listener).start()
        yield BindAddress(host=address.host, port=listener.getsockname()[1])
    finally:
        await runner.cleanup()
        listener.close()


def _listen(address: BindAddress) -> socket.socket:
    """Open the socket: for every interface one that takes IPv4 and IPv6, where the host has IPv6."""
    target = (address.host, address.port)
    if address.host:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return socket.create_server(target, family=family)
    if not socket.has_dualstack_ipv6():
        return socket.create_server(target)
    try:
        return socket.create_server(target, family=socket.AF_INET6, dualstack_ipv6=True)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
        return socket.create_server(target)
