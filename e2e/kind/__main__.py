"""`python -m e2e.kind image`: build the controller's image, as `make image` does."""

from __future__ import annotations

import os
from importlib import metadata

import click

from e2e.controlplane.errors import MissingTool
from e2e.controlplane.exit import run_cli
from e2e.kind.image import build_image
from e2e.kind.kit import Kit
from e2e.kind.settings import find_kit
from e2e.kind.tools import Tools, own_environment
from simulation.command_line.values import UniqueOptionsCommand

PACKAGE = "open-rl-scheduler"


@click.group()
def cli() -> None:
    """Tools of the kind scenarios."""


@cli.command(cls=UniqueOptionsCommand)
@click.option("--tag", default="", help="Name of the image. Default: open-rl-scheduler:<version>.")
@click.option("--base", default="", help="Base image with Python. Default: the kit's, else the Dockerfile's.")
@click.option(
    "--wheels",
    type=click.Choice(["true", "false", ""]),
    default="",
    help="Download the wheels first, for a build without a package index. Default: only with the kit's base.",
)
def image(tag: str, base: str, wheels: str) -> None:
    """Build the controller's image from this checkout."""
    kit = None if base else find_kit(os.environ)
    tools = Kit(kit).tools(None) if kit else Tools(own_environment())
    if not tools.docker_answers():
        raise MissingTool("no Docker daemon is running (`docker version` fails): building an image needs one")
    if kit:
        base = Kit(kit).python_base(tools)
    tag = tag or f"{PACKAGE}:{metadata.version(PACKAGE)}"
    build_image(tools, tag, base=base, wheels=wheels == "true" or (not wheels and kit is not None))
    click.echo(tag)


if __name__ == "__main__":
    run_cli(cli, program="python -m e2e.kind")
