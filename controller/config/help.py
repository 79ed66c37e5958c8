"""The text of `--help`, made from the table of settings.

Eighty columns whatever the terminal, so that it reads the same in a log, a pull request and a shell.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from controller.config.settings import OPTIONS, HelpSection, Option, Settings

_WIDTH = 80

_INTRODUCTION = """\
Usage: open-rl-scheduler [flags]

Places OpenRL workers on the GPUs of a Kubernetes cluster: each Workload gets a
ResourceClaim of its own or a seat on one that is shared by turns.

Examples:
  # In a cluster: configured by its Deployment, health probes on :8081
  open-rl-scheduler --namespace=openrl-system --metrics-bind-address=:8080

  # From a laptop, against one context of a kubeconfig
  open-rl-scheduler --kubeconfig=$HOME/.kube/config --context=staging

  # Exclusive placement: no two workers ever share a GPU
  open-rl-scheduler --max-seats-per-claim=1 --placement-timeout=0

  # To see it at work without a cluster; see demo --help
  open-rl-scheduler demo
"""
_EPILOGUE = """\
A flag beats its environment variable, which beats the default; an empty
variable means unset. Booleans take =true or =false, bare means true. Durations
are Go's: 300ms, 10s, 1h30m.

Exit status: 0 stopped cleanly, 1 failed, 2 not usable as called.

Completion (bash; zsh and fish likewise):
  eval "$(_OPEN_RL_SCHEDULER_COMPLETE=bash_source open-rl-scheduler)"
"""


def render_help() -> str:
    """The whole help, ending in a newline."""
    sections = [_INTRODUCTION]
    sections += (_section(group) for group in HelpSection)
    sections += [_environment(), _EPILOGUE]
    return "\n".join(sections)


def _section(group: HelpSection) -> str:
    lines = [f"{group.value}:"]
    for field, option in OPTIONS.items():
        if option.section is group and option.flag:
            lines += _flag(field, option)
    return "\n".join(lines) + "\n"


def _flag(field: str, option: Option) -> Iterator[str]:
    value = f"[={option.value_type.metavar}]" if option.value_type.bare else f" {option.value_type.metavar}"
    yield f"  {option.flag}{value}"
    yield from _paragraph(f"{option.help}.")
    default = option.default_help or Settings().text_of(field)
    yield from _paragraph(f"Default: {default}.{f' Env: {option.env}.' if option.env else ''}")


def _environment() -> str:
    lines = ["Other flags and variables:"]
    for option in OPTIONS.values():
        if not option.flag:
            lines += [f"  {option.env}", *_paragraph(f"{option.help}.")]
    lines += ["  --help", *_paragraph("Print this text.")]
    lines += ["  --version", *_paragraph("Print what was built.")]
    return "\n".join(lines) + "\n"


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False
    )
