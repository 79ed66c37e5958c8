"""HTTP servers for probes and metrics.

The socket is bound first, so that an unusable address is reported as an error of its setting. Requests are
not logged, because probes arrive every few seconds.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from controller.config.flags import Settings
from controller.config.values import BindAddress

_SHUTDOWN_SECONDS = 1.0
_NO_IPV6 = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""Errors of a bind if the kernel supports IPv6 and the host has disabled it."""


@asynccontextmanager
async def serve(app: web.Application, settings: Settings, field: str) -> AsyncIterator[BindAddress | None]:
    """Serve `app` on the address in `field` of `settings` for the duration of the block.

    Yields the address with the bound port, or `None` if the setting is off.

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
        raise settings.invalid(field, f"it must be a free address of this host ({problem})") from error
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    try:
        await runner.setup()
        await web.SockSite(runner, listener).start()
        yield BindAddress(host=address.host, port=listener.getsockname()[1])
    finally:
        await runner.cleanup()
        listener.close()


def _listen(address: BindAddress) -> socket.socket:
    """Bind the socket. Without a host it accepts IPv4 and, if the host supports it, IPv6."""
    target = (address.host, address.port)
    if not address.host and socket.has_dualstack_ipv6():
        try:
            return socket.create_server(target, family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    return socket.create_server(target, family=socket.AF_INET6 if ":" in address.host else socket.AF_INET)
