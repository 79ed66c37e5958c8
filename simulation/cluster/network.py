"""The way of a call from a process to the API server and back, and all that may befall it there.

A request travels on its own: once sent it arrives, is carried out and answered, even if its sender is frozen,
dead or has given up. The answer is then heard by nobody. Which fate a call has is drawn when it is sent.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from random import Random

from informers.client.responses import error_for_response
from informers.errors import ApiError, OutcomeUnknown, Unreachable
from simulation.apiserver.interception import Apply, Request
from simulation.apiserver.kinds import EVENTS, LEASES
from simulation.engine.fault_plan import FaultPlan
from simulation.engine.random_streams import happens
from simulation.engine.trace import Trace
from simulation.engine.virtual_loop import VirtualLoop

QUICK_SECONDS = 0.002
"""One way, where no latency was drawn."""

REFUSALS: tuple[tuple[int, str | None], ...] = ((429, "1"), (500, None), (503, None), (504, None))
"""Answers of an overloaded server or of a proxy before it: status and `Retry-After`."""


@dataclass
class CallFault:
    """What becomes of one call. Times are one way."""

    there_seconds: float
    back_seconds: float
    error: ApiError | None = None
    """Answered by something before the server."""
    lost_request: bool = False
    lost_answer: bool = False
    late_seconds: float = 0.0
    """Applied so long after its sender was told that the connection broke."""
    rogue: bool = False
    """Somebody else changes the object just before."""
    kills: str = ""
    """The sender dies `before` or `after` it is carried out."""


class Link:
    """The connection of one process. Its calls are intercepted here (`simulation.apiserver.interception`)."""

    def __init__(self, network: Network, process: str, rng: Random, kill: Callable[[], None]) -> None:
        self._network = network
        self.process = process
        self.rng = rng
        self.kill = kill
        self.cut = False
        """Nothing gets through in either direction."""
        self.dies_at_next = ""
        """The process dies at its next write, `before` or `after` that is carried out."""

    def __repr__(self) -> str:
        return f"<Link {self.process} cut={self.cut}>"

    async def __call__(self, request: Request, apply: Apply) -> bytes:
        """The answer of a call, after the time that it took."""
        return await self._network.send(self, request, apply)


class Network:
    """All links. `healthy` turns every fault off."""

    def __init__(self, loop: VirtualLoop, context: Context, plan: FaultPlan, trace: Trace) -> None:
        self._loop = loop
        self.context = context
        """Where nobody runs: what the world itself does."""
        self._plan = plan
        self._trace = trace
        self.healthy = False
        self.last_write_seconds = 0.0
        """When a controller's last write took effect, Events and leases left out."""
        self.last_write = ""
        self.lands_late = False
        """Whether the write that is carried out now is one whose sender gave it up long ago."""
        self.writer = ""
        """Who sent the request that is carried out now; empty where it is the server's own."""
        self.burst_share = 0.0
        """The share of calls that are refused at the moment."""
        self.observe: Callable[[Link, Request], None] = lambda _link, _request: None
        """Told of every write as it is sent."""
        self.rogue: Callable[[Request], None] = lambda _request: None
        self._latency = plan.of("latency") or {}

    def __repr__(self) -> str:
        return f"<Network healthy={self.healthy} burst={self.burst_share:g}>"

    def send(self, link: Link, request: Request, apply: Apply) -> asyncio.Future[bytes]:
        """Put a request on its way; the answer to come."""
        if request.writes:
            self.observe(link, request)
        answer: asyncio.Future[bytes] = self._loop.create_future()
        fate = self._fate(link, request)
        self._later(fate.there_seconds, self._arrive, link, request, apply, answer, fate)
        return answer

    def _later(self, seconds: float, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_later(seconds, callback, *args, context=self.context)

    # On its way there.

    def _fate(self, link: Link, request: Request) -> CallFault:
        rng = link.rng
        fate = CallFault(self._one_way(rng), self._one_way(rng))
        if self.healthy:
            return fate
        if link.dies_at_next and request.writes and request.kind not in {EVENTS, LEASES}:
            fate.kills, link.dies_at_next = link.dies_at_next, ""
            return fate
        value = self._plan.value
        if self.burst_share and rng.random() < self.burst_share:
            code, retry_after = rng.choice(REFUSALS)
            fate.error = error_for_response(str(request), code, retry_after, b"")
            return fate
        nondeterminism = rng.random()
        for name in ("lost-answers", "lost-requests", "late-writes"):
            rate = value(name, "rate")
            if nondeterminism < rate:
                fate.lost_answer = name == "lost-answers"
                fate.lost_request = name == "lost-requests"
                if name == "late-writes" and request.writes and request.kind is not LEASES:
                    fate.late_seconds = rng.random() * value(name, "seconds")
                return fate
            nondeterminism -= rate
        if request.writes and nondeterminism < value("rogue-writes", "rate"):
            fate.rogue = True
        return fate

    def _one_way(self, rng: Random) -> float:
        latency = self._latency
        if not latency or self.healthy:
            return QUICK_SECONDS * (0.5 + rng.random())
        if rng.random() < latency["long_rate"]:
            return rng.random() * latency["long_seconds"]
        return latency["median_seconds"] * math.exp(rng.gauss(0.0, latency["sigma"]))

    # There, and back.

    def _arrive(
        self, link: Link, request: Request, apply: Apply, answer: asyncio.Future[bytes], fate: CallFault
    ) -> None:
        if link.cut or fate.lost_request:
            self._note(request, "lost request" if fate.lost_request else "cut off")
            # Whoever waits for a connection that is cut gives up by himself; a lost one breaks.
            if fate.lost_request:
                self._answer(link, answer, OutcomeUnknown(f"{request}: the connection was lost"), fate)
            elif happens(link.rng, 0.5):
                self._answer(link, answer, Unreachable(f"{request}: no route to host"), fate, local=True)
            return
        if fate.kills == "before":
            link.kill()
            return
        if fate.late_seconds:
            self._note(request, "late")
            self._later(fate.late_seconds, self._apply_late, request, apply)
            self._answer(link, answer, OutcomeUnknown(f"{request}: the connection was lost"), fate)
            return
        if fate.rogue:
            self.rogue(request)
        outcome = fate.error if fate.error is not None else self._apply(request, apply)
        if fate.error is not None:
            self._note(request, f"{type(fate.error).__name__} {fate.error.status or ''}".strip())
        if fate.kills == "after":
            link.kill()
            return
        if fate.lost_answer:
            self._note(request, "answer lost" if isinstance(outcome, bytes) else "refusal lost")
            outcome = OutcomeUnknown(f"{request}: the connection was lost")
        self._answer(link, answer, outcome, fate)

    def _apply_late(self, request: Request, apply: Apply) -> None:
        self.lands_late = True
        self._apply(request, apply, "late ")
        self.lands_late = False

    def _apply(self, request: Request, apply: Apply, prefix: str = "") -> bytes | ApiError:
        outcome: bytes | ApiError
        self.writer = request.client
        try:
            outcome = apply()
        except ApiError as error:
            outcome = error
        finally:
            self.writer = ""
        text = type(outcome).__name__ if isinstance(outcome, ApiError) else "ok"
        if request.writes and text == "ok" and request.kind not in {EVENTS, LEASES}:
            self.last_write_seconds, self.last_write = self._loop.world_seconds, str(request)
        self._note(request, prefix + text)
        return outcome

    def _answer(
        self,
        link: Link,
        answer: asyncio.Future[bytes],
        outcome: bytes | ApiError,
        fate: CallFault,
        *,
        local: bool = False,
    ) -> None:
        self._later(fate.back_seconds, self._deliver, link, answer, outcome, local)

    def _deliver(
        self, link: Link, answer: asyncio.Future[bytes], outcome: bytes | ApiError, local: bool
    ) -> None:
        if answer.done() or (link.cut and not local):
            return
        if isinstance(outcome, ApiError):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)

    def _note(self, request: Request, outcome: str) -> None:
        kind = f"{request.kind.plural}/{request.subresource}" if request.subresource else request.kind.plural
        self._trace.add(request.client, request.verb, kind, request.name, outcome)
