"""A request body that asks for permission in the step that writes it.

aiohttp hands a connection to a request and, below Python 3.12, writes the body in a task of its own, after
whatever else is ready; a middleware and a trace come earlier still. Headers wait for the body and leave with
it, so a body that is refused is a request of which not a byte was sent. Only writes have bodies, and each
write has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from informers.errors import ApiError
from informers.permits import ask_permit


class PermittedBody(aiohttp.BytesPayload):
    """Bytes that are written only if `ask_permit` allows it; `refusal` is what it raised."""

    refusal: ApiError | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the bytes. Raises what the permit's check raises."""
        try:
            ask_permit()
        except ApiError as refusal:
            self.refusal = refusal
            raise
        await super().write_with_length(writer, content_length)


@contextmanager
def refusals_of(body: PermittedBody | None) -> Iterator[None]:
    """Raise the refusal itself where aiohttp reports a body that it could not send."""
    try:
        yield
    except aiohttp.ClientError:
        if body is not None and body.refusal is not None:
            raise body.refusal from None  # aiohttp's error has it as its cause already
        raise
