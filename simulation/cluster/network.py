"""The network between processes and the API server, and the faults of single calls.

A request is independent of its sender once it is sent: it arrives, takes effect and is answered, even if
the sender is frozen, dead or has given up. The fault of a call is drawn when the call is sent.
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
"""The mean one-way latency where no latency fault was drawn."""

REFUSALS: tuple[tuple[int, str | None], ...] = ((429, "1"), (500, None), (503, None), (504, None))
"""Answers of an overloaded server, or of a proxy in front of it: status and `Retry-After`."""


@dataclass
class CallFault:
    """The latencies and the fault of one call."""

    request_seconds: float
    response_seconds: float
    error: ApiError | None = None
    """The answer of something in front of the server."""
    lost_request: bool = False
    lost_answer: bool = False
    apply_delay_seconds: float = 0.0
    """The time from the sender's connection error until the write takes effect."""
    rogue_write: bool = False
    """Another client changes the object just before the request arrives."""
    kills_sender: str = ""
    """The sender is killed `before` or `after` the request takes effect; empty if it survives."""


class Link:
    """The connection of one process; it intercepts calls (`simulation.apiserver.interception`)."""

    def __init__(self, network: Network, process: str, rng: Random, kill: Callable[[], None]) -> None:
        self._network = network
        self.process = process
        self.rng = rng
        self.kill = kill
        self.is_cut = False
        """Whether the link drops everything in both directions."""
        self.crash_at_next_write = ""
        """The process is killed at its next write, `before` or `after` the write takes effect."""

    def __repr__(self) -> str:
        return f"<Link {self.process} is_cut={self.is_cut}>"

    async def __call__(self, request: Request, apply: Apply) -> bytes:
        """Send a request; return its answer after the latency of both ways."""
        return await self._network.send(self, request, apply)


class Network:
    """All links. `is_healthy` disables every fault."""

    def __init__(self, loop: VirtualLoop, context: Context, plan: FaultPlan, trace: Trace) -> None:
        self._loop = loop
        self.context = context
        """The context of no process, for actions of the simulation itself."""
        self._plan = plan
        self._trace = trace
        self.is_healthy = False
        self.last_write_seconds = 0.0
        """When a controller's last write took effect, except Events and leases."""
        self.last_write = ""
        self.is_late_write = False
        """Whether the current write takes effect long after its sender gave up."""
        self.writer = ""
        """The client that sent the current request; empty for the server's own writes."""
        self.error_share = 0.0
        """The current share of calls that fail."""
        self.on_send: Callable[[Link, Request], None] = lambda _link, _request: None
        """Called with every write and every dry run when it is sent."""
        self.rogue_write: Callable[[Request], None] = lambda _request: None
        self._latency = plan.parameters("latency") or {}

    def __repr__(self) -> str:
        return f"<Network is_healthy={self.is_healthy} error_share={self.error_share:g}>"

    def send(self, link: Link, request: Request, apply: Apply) -> asyncio.Future[bytes]:
        """Send a request; return a future of its answer."""
        if request.writes or request.dry_run:
            self.on_send(link, request)
        answer: asyncio.Future[bytes] = self._loop.create_future()
        fault = self._draw_fault(link, request)
        self._call_later(fault.request_seconds, self._arrive, link, request, apply, answer, fault)
        return answer

    def _call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_later(seconds, callback, *args, context=self.context)

    # The request.

    def _draw_fault(self, link: Link, request: Request) -> CallFault:
        rng = link.rng
        fault = CallFault(self._one_way(rng), self._one_way(rng))
        if self.is_healthy:
            return fault
        if link.crash_at_next_write and request.writes and request.kind not in {EVENTS, LEASES}:
            fault.kills_sender, link.crash_at_next_write = link.crash_at_next_write, ""
            return fault
        value = self._plan.value
        if self.error_share and rng.random() < self.error_share:
            code, retry_after = rng.choice(REFUSALS)
            fault.error = error_for_response(str(request), code, retry_after, b"")
            return fault
        draw = rng.random()
        for name in ("lost-answers", "lost-requests", "late-writes"):
            rate = value(name, "rate")
            if draw < rate:
                fault.lost_answer = name == "lost-answers"
                fault.lost_request = name == "lost-requests"
                if name == "late-writes" and request.writes and request.kind is not LEASES:
                    fault.apply_delay_seconds = rng.random() * value(name, "seconds")
                return fault
            draw -= rate
        if request.writes and draw < value("rogue-writes", "rate"):
            fault.rogue_write = True
        return fault

    def _one_way(self, rng: Random) -> float:
        latency = self._latency
        if not latency or self.is_healthy:
            return QUICK_SECONDS * (0.5 + rng.random())
        if rng.random() < latency["long_rate"]:
            return rng.random() * latency["long_seconds"]
        return latency["median_seconds"] * math.exp(rng.gauss(0.0, latency["sigma"]))

    # The response.

    def _arrive(
        self, link: Link, request: Request, apply: Apply, answer: asyncio.Future[bytes], fault: CallFault
    ) -> None:
        if link.is_cut or fault.lost_request:
            self._trace_outcome(request, "lost request" if fault.lost_request else "cut off")
            # A lost request breaks the connection. On a cut link the client gets an error or times out.
            if fault.lost_request:
                self._answer(link, answer, OutcomeUnknown(f"{request}: the connection was lost"), fault)
            elif happens(link.rng, 0.5):
                self._answer(link, answer, Unreachable(f"{request}: no route to host"), fault, local=True)
            return
        if fault.kills_sender == "before":
            link.kill()
            return
        if fault.apply_delay_seconds:
            self._trace_outcome(request, "late")
            self._call_later(fault.apply_delay_seconds, self._apply_late, request, apply)
            self._answer(link, answer, OutcomeUnknown(f"{request}: the connection was lost"), fault)
            return
        if fault.rogue_write:
            self.rogue_write(request)
        outcome = fault.error if fault.error is not None else self._apply(request, apply)
        if fault.error is not None:
            self._trace_outcome(request, f"{type(fault.error).__name__} {fault.error.status or ''}".strip())
        if fault.kills_sender == "after":
            link.kill()
            return
        if fault.lost_answer:
            self._trace_outcome(request, "answer lost" if isinstance(outcome, bytes) else "refusal lost")
            outcome = OutcomeUnknown(f"{request}: the connection was lost")
        self._answer(link, answer, outcome, fault)

    def _apply_late(self, request: Request, apply: Apply) -> None:
        self.is_late_write = True
        self._apply(request, apply, "late ")
        self.is_late_write = False

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
            self.last_write_seconds, self.last_write = self._loop.simulated_seconds, str(request)
        self._trace_outcome(request, prefix + text)
        return outcome

    def _answer(
        self,
        link: Link,
        answer: asyncio.Future[bytes],
        outcome: bytes | ApiError,
        fault: CallFault,
        *,
        local: bool = False,
    ) -> None:
        self._call_later(fault.response_seconds, self._deliver, link, answer, outcome, local)

    def _deliver(
        self, link: Link, answer: asyncio.Future[bytes], outcome: bytes | ApiError, local: bool
    ) -> None:
        if answer.done() or (link.is_cut and not local):
            return
        if isinstance(outcome, ApiError):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)

    def _trace_outcome(self, request: Request, outcome: str) -> None:
        kind = f"{request.kind.plural}/{request.subresource}" if request.subresource else request.kind.plural
        self._trace.add(request.client, request.action, kind, request.name, outcome)
