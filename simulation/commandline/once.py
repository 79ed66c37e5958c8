"""Options that can be said once: of two values the last would win, and nobody would know."""

from __future__ import annotations

import click


class SaidOnce(click.Command):
    """A command that refuses an option which is said twice, unless it is a repeatable one or a flag."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises `click.UsageError`."""
        _, _, said = self.make_parser(ctx).parse_args(args=list(args))
        for option in said:
            repeatable = not isinstance(option, click.Option) or option.multiple or option.is_flag
            if not repeatable and said.count(option) > 1:
                raise click.BadParameter("said twice; say it once", ctx=ctx, param=option)
        return super().parse_args(ctx, args)
