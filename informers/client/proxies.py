"""Selects the proxy for a server, from the kubeconfig or from the environment as Go programs read it.

`HTTPS_PROXY` or `HTTP_PROXY` applies by the server's scheme. The upper-case name comes first, and a value
without a scheme means `http://`. `ALL_PROXY` does not count. Loopback addresses and hosts in `NO_PROXY` are
excluded. SOCKS is refused: aiohttp does not support it, and tunnels from laptops do not justify a dependency.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from informers.errors import ConfigurationError


def url_problem(text: str) -> str:
    """Return why a URL is not supported, without its password; empty if it is."""
    try:
        url = urlsplit(text)
        valid = url.scheme in {"http", "https"} and url.hostname and url.port != 0
    except ValueError:
        return "is not an http:// or https:// URL"
    if url.scheme not in {"http", "https"} and "://" in text:
        return f"with scheme {url.scheme!r} is not supported: use http:// or https://"
    return "" if valid else "is not an http:// or https:// URL"


def environment_proxy(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy for `url` by the variables in `environ`. Raises `ConfigurationError`."""
    server = urlsplit(url)
    name = f"{server.scheme.upper()}_PROXY"
    proxy = environ.get(name) or environ.get(name.lower())
    no_proxy = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    host, port = server.hostname or "", server.port or {"https": 443}.get(server.scheme, 80)
    if not proxy or _is_excluded(host, port, no_proxy):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if problem := url_problem(proxy):
        raise ConfigurationError(f"environment variable {name}: {problem}")
    return proxy


def _is_excluded(host: str, port: int, no_proxy: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip(), host, address, port) for entry in no_proxy.lower().split(","))


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _matches(entry: str, host: str, address: _Address | None, port: int) -> bool:
    if entry in {"", "*"}:
        return bool(entry)
    try:
        if "/" in entry:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        bare = _address(entry) is not None  # an IPv6 address without brackets has no port
        parts = urlsplit(f"//[{entry}]" if bare and ":" in entry else f"//{entry}")
        name, only_port = parts.hostname or "", parts.port
    except ValueError:
        return False  # malformed
    if not name or only_port not in {None, port}:
        return False
    if address is not None:
        return _address(name) == address
    suffix = name.removeprefix("*") if name.startswith("*.") else name
    return host.endswith(suffix if suffix.startswith(".") else f".{suffix}") or host == suffix


def _address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
