"""The text of `--help`, built from the table of settings.

It is 80 columns wide on every terminal, so that logs, pull requests and shells show the same text.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from controller.config.flags import OPTIONS, HelpSection, Option, Settings

_WIDTH = 80

_INTRODUCTION = """\
Usage: open-rl-scheduler [flags]

Places OpenRL workers on the GPUs of a Kubernetes cluster. Each Workload gets a
ResourceClaim of its own or a seat on a time-shared one.

Examples:
  # In a cluster, with metrics and with health probes on :8081
  open-rl-scheduler --namespace=openrl-system --metrics-bind-address=:8080

  # From a laptop, with one context of a kubeconfig
  open-rl-scheduler --kubeconfig=$HOME/.kube/config --context=staging

  # Exclusive placement: no two workers share a GPU
  open-rl-scheduler --max-seats-per-claim=1 --placement-timeout=0

  # Demo without a cluster (developer install only); see demo --help
  open-rl-scheduler demo
"""
_EPILOGUE = """\
A flag overrides its environment variable, which overrides the default. An empty
variable means unset. A boolean flag without a value means true. Durations use
Go's syntax: 300ms, 10s, 1h30m.

Exit status: 0 clean stop, 1 failure, 2 invalid usage.

Completion (bash; zsh and fish likewise):
  eval "$(_OPEN_RL_SCHEDULER_COMPLETE=bash_source open-rl-scheduler)"
"""


def render_help() -> str:
    """Return the help text. It ends with a newline."""
    sections = [_INTRODUCTION]
    sections += map(_section, HelpSection)
    sections += [_environment(), _EPILOGUE]
    return "\n".join(sections)


def _section(section: HelpSection) -> str:
    lines = [f"{section.value}:"]
    for field, option in OPTIONS.items():
        if option.section is section and option.flag:
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
    lines += ["  --help", *_paragraph("This text.")]
    lines += ["  --version", *_paragraph("Version, commit and date of this build.")]
    return "\n".join(lines) + "\n"


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False
    )
