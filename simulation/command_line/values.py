"""Option types: numbers whose error names the value and the range, and options that may be given only once.

The ranges are click's, so that the help shows them. A number is written in ASCII digits, without spaces and
underscores. `exit_status` puts the option's name in front of the message.
"""

from __future__ import annotations

import math
import re
from typing import Any

import click

_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


class WholeNumber(click.IntRange):
    """A whole number from `low` to `high`, or without an upper limit if `high` is `None`."""

    name = "n"

    def __init__(self, low: int, high: int | None = None) -> None:
        super().__init__(low, high)
        self._low = low
        self._high = math.inf if high is None else high
        bounds = f", at least {low}" if high is None else f" from {low} to {high}"
        self.allowed = f"a whole number{bounds}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number. Raises `click.BadParameter`."""
        text = str(value)
        try:
            number = int(text) if _WHOLE.fullmatch(text) else None
        except ValueError:  # more digits than Python parses
            number = None
        if number is None or not self._low <= number <= self._high:
            self.fail(not_allowed(text, self.allowed), param, ctx)
        return number


class PositiveNumber(click.FloatRange):
    """A number above 0 and at most `high`. `example` is shown in errors."""

    name = "number"

    def __init__(self, high: int, *, example: str) -> None:
        super().__init__(0, high, min_open=True)
        self._high = high
        self.allowed = f"a number above 0, up to {high}, such as {example}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the number. Raises `click.BadParameter`."""
        text = str(value)
        number = float(text) if _DECIMAL.fullmatch(text) else math.nan
        if not 0 < number <= self._high:
            self.fail(not_allowed(text, self.allowed), param, ctx)
        return number


def not_allowed(text: str, allowed: str) -> str:
    """Return the message for an invalid value. Numbers are shown as they are, other values in quotes."""
    return f"{text if _DECIMAL.fullmatch(text) else repr(text)} is not allowed: {allowed}"


class UniqueOptionsCommand(click.Command):
    """A command that refuses an option given more than once, unless it is multiple or a flag.

    Otherwise the last value would silently win.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises `click.UsageError`."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option in given:
            repeatable = not isinstance(option, click.Option) or option.multiple or option.is_flag
            if not repeatable and given.count(option) > 1:
                raise click.BadParameter("given more than once", ctx=ctx, param=option)
        return super().parse_args(ctx, args)
