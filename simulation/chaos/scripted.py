"""Faults at the API boundary, scripted: which calls are hurt, how, and how often.

    faults = Faults()
    faults.add(LoseAnswer(), verb="patch", kind=LEDGERS)      # the next ledger patch is applied, unanswered
    faults.add(Refuse(lambda: Forbidden("quota")), verb="create", kind=PODS, times=None)
    client = cluster.client("controller", interceptor=faults)

Rules are asked in the order in which they were added; the first that has something left acts on a call.
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
    """When a fault acts. Empty fields match everything; `skip` calls pass first, then `times` are hurt."""

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

    def takes(self, request: Request) -> bool:
        """Whether this call is to be hurt; counts those that match."""
        if not self._matches(request) or (self.times is not None and self.hits >= self.times):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.hits += 1
        return True

    def _matches(self, request: Request) -> bool:
        wanted = (
            (self.client, request.client),
            (self.verb, request.verb),
            (self.name, request.name),
        )
        return (
            all(asked in {"", found} for asked, found in wanted)
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
        """Hurt the calls that match; `times` is `None` for all of them. Returns the rule, which counts."""
        rule = Rule(fault, client, verb, kind, name, subresource, when, skip, times)
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Hurt nothing any more."""
        self._rules.clear()

    async def __call__(self, request: Request, apply: Apply) -> bytes:
        """Let the first rule that takes the call answer it."""
        fault = next((rule.fault for rule in self._rules if rule.takes(request)), pass_through)
        return await fault(request, apply)


@dataclass(frozen=True)
class Delay:
    """The request or its answer takes long. Beyond the client's time limit that is a lost answer."""

    before_seconds: float = 0.0
    after_seconds: float = 0.0

    async def __call__(self, _request: Request, apply: Apply) -> bytes:
        """Wait, ask, wait."""
        await anyio.sleep(self.before_seconds)
        answer = apply()
        await anyio.sleep(self.after_seconds)
        return answer


@dataclass(frozen=True)
class Refuse:
    """The server, or something before it, says no. Nothing is applied."""

    error: Callable[[], ApiError]

    async def __call__(self, _request: Request, _apply: Apply) -> bytes:
        """Raise the error."""
        raise self.error()


@dataclass(frozen=True)
class Disconnect:
    """No connection can be made: nothing is sent."""

    async def __call__(self, request: Request, _apply: Apply) -> bytes:
        """Raise `Unreachable`."""
        raise Unreachable(f"{request}: connection refused")


@dataclass(frozen=True)
class LoseAnswer:
    """The request is carried out (or refused) and nobody hears of it."""

    async def __call__(self, request: Request, apply: Apply) -> bytes:
        """Apply, then raise `OutcomeUnknown`."""
        with suppress(ApiError):
            apply()
        raise OutcomeUnknown(f"{request}: the connection was lost")


@dataclass(frozen=True)
class LoseRequest:
    """The request never arrives, and its sender cannot know that."""

    async def __call__(self, request: Request, _apply: Apply) -> bytes:
        """Raise `OutcomeUnknown` without applying."""
        raise OutcomeUnknown(f"{request}: the connection was lost")


@dataclass(frozen=True)
class ArriveLate:
    """The sender gives up, and the request is carried out `seconds` later all the same."""

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
    """Somebody else acts just before the request arrives."""

    act: Callable[[], object]

    async def __call__(self, _request: Request, apply: Apply) -> bytes:
        """Act, then apply."""
        self.act()
        return apply()


@dataclass(frozen=True)
class Crash:
    """The calling process dies, before its request is carried out or after."""

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
