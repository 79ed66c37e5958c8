"""Scripted faults at the API boundary: which calls they affect, how, and how often.

    faults = Faults()
    faults.add(LoseAnswer(), verb="patch", kind=LEDGERS)      # the next ledger patch gets no answer
    faults.add(Refuse(lambda: Forbidden("quota")), verb="create", kind=PODS, times=None)
    client = cluster.client("controller", interceptor=faults)

The first rule added that matches a call and is not used up applies to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from informers.errors import ApiError, OutcomeUnknown, Unreachable
from simulation.apiserver.client import ApiClient
from simulation.apiserver.interception import Apply, Interceptor, Request, pass_through
from simulation.apiserver.kinds import Kind


@dataclass
class Rule:
    """A fault and its calls. Empty fields match any call; `skip` calls pass first, then `times` fail."""

    fault: Interceptor
    client: str = ""
    verb: str = ""
    kind: Kind | None = None
    name: str = ""
    subresource: str | None = None
    when: Callable[[Request], bool] = field(default=lambda _request: True, repr=False)
    skip: int = 0
    times: int | None = 1
    hits: int = 0

    def applies(self, request: Request) -> bool:
        """Return whether the fault acts on this call, and count the call."""
        if not self._matches(request) or (self.times is not None and self.hits >= self.times):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.hits += 1
        return True

    def _matches(self, request: Request) -> bool:
        patterns = (
            (self.client, request.client),
            (self.verb, request.verb),
            (self.name, request.name),
        )
        return (
            all(pattern in {"", actual} for pattern, actual in patterns)
            and self.kind in {None, request.kind}
            and self.subresource in {None, request.subresource}
            and self.when(request)
        )


class Faults:
    """An interceptor made of rules."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def __repr__(self) -> str:
        return f"<Faults rules={len(self._rules)} hits={sum(rule.hits for rule in self._rules)}>"

    def add(
        self,
        fault: Interceptor,
        *,
        client: str = "",
        verb: str = "",
        kind: Kind | None = None,
        name: str = "",
        subresource: str | None = None,
        when: Callable[[Request], bool] = lambda _request: True,
        skip: int = 0,
        times: int | None = 1,
    ) -> Rule:
        """Apply a fault to matching calls; `times` is `None` for all. Return the rule, which counts hits."""
        rule = Rule(fault, client, verb, kind, name, subresource, when, skip, times)
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    async def __call__(self, request: Request, apply: Apply) -> bytes:
        """Let the first rule that applies to the call answer it."""
        fault = next((rule.fault for rule in self._rules if rule.applies(request)), pass_through)
        return await fault(request, apply)


@dataclass(frozen=True)
class Delay:
    """A slow request or answer. Beyond the client's timeout it is a lost answer."""

    before_seconds: float = 0.0
    after_seconds: float = 0.0

    async def __call__(self, _request: Request, apply: Apply) -> bytes:
        """Wait, apply, wait."""
        await anyio.sleep(self.before_seconds)
        answer = apply()
        await anyio.sleep(self.after_seconds)
        return answer


@dataclass(frozen=True)
class Refuse:
    """An error from the server, or from something in front of it. The request has no effect."""

    error: Callable[[], ApiError]

    async def __call__(self, _request: Request, _apply: Apply) -> bytes:
        """Raise the error."""
        raise self.error()


@dataclass(frozen=True)
class Disconnect:
    """A refused connection: nothing is sent."""

    async def __call__(self, request: Request, _apply: Apply) -> bytes:
        """Raise `Unreachable`."""
        raise Unreachable(f"{request}: connection refused")


@dataclass(frozen=True)
class LoseAnswer:
    """A request that takes effect (or is refused) without an answer."""

    async def __call__(self, request: Request, apply: Apply) -> bytes:
        """Apply, then raise `OutcomeUnknown`."""
        with suppress(ApiError):
            apply()
        raise OutcomeUnknown(f"{request}: the connection was lost")


@dataclass(frozen=True)
class LoseRequest:
    """A request that never arrives. Its sender cannot tell this from a lost answer."""

    async def __call__(self, request: Request, _apply: Apply) -> bytes:
        """Raise `OutcomeUnknown` without applying."""
        raise OutcomeUnknown(f"{request}: the connection was lost")


@dataclass(frozen=True)
class ArriveLate:
    """A request that takes effect `seconds` after its sender gave up."""

    seconds: float

    async def __call__(self, request: Request, apply: Apply) -> bytes:
        """Raise `OutcomeUnknown` now, apply later."""

        def arrive() -> None:
            with suppress(ApiError):
                apply()

        asyncio.get_running_loop().call_later(self.seconds, arrive)
        raise OutcomeUnknown(f"{request}: the connection was lost")


@dataclass(frozen=True)
class Meanwhile:
    """An action of somebody else just before the request arrives."""

    action: Callable[[], object]

    async def __call__(self, _request: Request, apply: Apply) -> bytes:
        """Run the action, then apply."""
        self.action()
        return apply()


@dataclass(frozen=True)
class Crash:
    """A crash of the calling process, before or after its request takes effect."""

    client: ApiClient
    applied: bool

    async def __call__(self, _request: Request, apply: Apply) -> bytes:
        """Apply or not, then never answer."""
        if self.applied:
            with suppress(ApiError):
                apply()
        self.client.crash()
        return await _never()


async def _never() -> bytes:
    await anyio.sleep_forever()
    raise AssertionError("unreachable")
