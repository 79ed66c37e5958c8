"""Loopback servers and proxies for the kubeconfigs in `kubeconfigs/`, and what each login sent to them."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from informers.client.transport import Timeouts, connect
from informers.errors import ConfigurationError
from tests.informers.client.certificates import Authority
from tests.informers.client.objects import THINGS, thing
from tests.informers.client.server import ScriptedServer, reply, serve

FILES = Path(__file__).parent / "kubeconfigs"
NAMES = sorted(path.name for path in FILES.iterdir() if path.suffix in {".yaml", ".json"})
TOKEN = "from-the-file"
_LIMITS = Timeouts(request_seconds=5, list_seconds=5, connect_seconds=4)
_SENT = ("authorization", "impersonate-", "accept-encoding")

Headers = list[tuple[str, str]]


@dataclass
class LoginServers:
    """The addresses for the placeholders of the files, and the servers behind them."""

    secure: ScriptedServer
    plain: ScriptedServer
    addresses: Mapping[str, str]
    proxied: list[str]

    def write(self, folder: Path, authority: Authority) -> Path:
        """Copy the files to `folder` with this run's addresses."""
        (folder / "secrets").mkdir(parents=True)
        (folder / "secrets" / "token").write_text(f" {TOKEN}\n")
        shutil.copy(authority.ca, folder / "secrets" / "ca.crt")
        for path in FILES.iterdir():
            text = path.read_text()
            for placeholder, address in self.addresses.items():
                text = text.replace(placeholder, address)
            (folder / path.name).write_text(text)
        (folder / "plugin.sh").chmod(0o755)
        return folder

    def sent(self) -> list[Headers]:
        """Return and forget the credentials of each request so far; a plugin's input is decoded."""
        received = [*self.secure.received, *self.plain.received]
        self.secure.received.clear()
        self.plain.received.clear()
        return [_credentials(request.header_items) for request in received]


def _credentials(headers: Headers) -> Headers:
    kept = ((name.lower(), value) for name, value in headers if name.lower().startswith(_SENT))
    return sorted((name, _readable(value)) for name, value in kept if (name, value) != _COMPRESSED)


_COMPRESSED = ("accept-encoding", "gzip, deflate")


def _readable(value: str) -> str:
    try:
        decoded = json.loads(base64.b64decode(value.removeprefix("Bearer "), validate=True))
    except ValueError:
        return value
    return json.dumps(decoded, sort_keys=True)


@asynccontextmanager
async def login_servers(authority: Authority) -> AsyncIterator[LoginServers]:
    proxied: list[str] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            proxied.append(next((line for line in head.splitlines() if line.startswith("Proxy-Auth")), ""))
            host, _, port = head.split()[1].rpartition(":")
            answers, requests = await asyncio.open_connection(host, int(port))
            writers.append(requests)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_copy(reader, requests), _copy(answers, writer))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for each in writers:
                each.transport.abort()

    tls = authority.server()
    async with serve(tls) as secure, serve() as plain:
        for server in (secure, plain):
            server.answers(reply({**thing(), "gitVersion": "v1"}))
        proxies = [await asyncio.start_server(tunnel, "127.0.0.1", 0, ssl=context) for context in (None, tls)]
        http_proxy, https_proxy = (f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}" for proxy in proxies)
        addresses = {
            "TLSPROXY": https_proxy,
            "PROXY": http_proxy,
            "SECURE": secure.url.removeprefix("https://"),
            "PLAIN": plain.url.removeprefix("http://"),
        }
        try:
            yield LoginServers(secure, plain, addresses, proxied)
        finally:
            for proxy in proxies:
                proxy.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, ssl.SSLError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def log_in(kubeconfig: str) -> str:
    """Send one request with `kubeconfig`; return the line of a refusal, which is empty if it starts."""
    try:
        async with connect(kubeconfig=kubeconfig, timeouts=_LIMITS) as api:
            await api.get(THINGS, "a", "ns")
    except ConfigurationError as error:
        return str(error)
    return ""
