"""Generate the tables of settings in docs/configuration.md: `make docs`."""

from __future__ import annotations

from pathlib import Path

from controller.config.flags import OPTIONS, HelpSection, Option, Settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"
PIPE = r"\|"  # escaped inside a table, even in code
BEGIN, END = "<!-- settings: begin, written by `make docs` -->", "<!-- settings: end -->"


def settings_section() -> str:
    """Return one table for each group of settings, in the order of the help."""
    lines: list[str] = []
    for group in HelpSection:
        lines += [f"### {group.value}", "", "| flag | variable | default | meaning |", "|---|---|---|---|"]
        lines += [_row(field, option) for field, option in OPTIONS.items() if option.section is group]
        lines.append("")
    return "\n".join(lines)


def generated_page(page: str) -> str:
    """Return the page with its generated section replaced."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{settings_section()}\n{END}{tail}"


def _row(field: str, option: Option) -> str:
    default = option.default_help or _code(Settings().text_of(field))
    flag = _code(f"{option.flag} {option.value_type.metavar}" if option.flag else "")
    cells = (flag, _code(option.env), default, f"{option.help}.")
    return f"| {' | '.join(cell.replace('|', PIPE) for cell in cells)} |"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(generated_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
