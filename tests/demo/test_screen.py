"""Tables fit 80 columns and are complete."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from simulation.demo.cluster_view import ClaimRow, ClusterView, State
from simulation.demo.history import Record
from simulation.demo.screen import Screen
from tests.demo.build import BUSY, FULL, ending, worker

VIEW = ClusterView(
    (
        worker("fft-1", State.RUNNING, claim="claim-fft-1-0a1b2c3d", node="gpu-node-0"),
        worker("fft-4", State.STARTING, claim="claim-fft-1-0a1b2c3d", node="gpu-node-0"),
        worker("fft-7", State.WAITING, reason=FULL),
        worker("fft-8", State.WAITING, reason=FULL),
        worker("lora-2", State.WAITING, reason=BUSY),
        worker("pair-1", State.RUNNING, claim="claim-pair-1-0a1b2c3d", node="gpu-node-1"),
    ),
    (
        ClaimRow("claim-fft-1-0a1b2c3d", "gpu-node-0", ("gpu-0",), ("fft-1", "fft-4"), exclusive=False),
        ClaimRow("claim-pair-1-0a1b2c3d", "gpu-node-1", ("gpu-0", "gpu-1"), ("pair-1",), exclusive=True),
    ),
)


def screen(width: int, *, live: bool = False) -> tuple[Screen, io.StringIO]:
    output = io.StringIO()
    console = Console(file=output, width=width, height=50, force_terminal=live, highlight=False)
    return Screen(console, live=live, devices=4, limit=2), output


def lines(output: io.StringIO) -> list[str]:
    return [line.rstrip() for line in output.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 120])
def test_a_claim_is_one_line_with_its_seats_and_the_state_of_workers_not_running_yet(width: int) -> None:
    shown, output = screen(width)
    shown.snapshot(VIEW)

    row = "gpu-node-0   gpu-0         claim-fft-1-0a1b2c3d    2 of 2      fft-1, fft-4"
    assert any(line.startswith(row) for line in lines(output))
    assert "(starting)" in output.getvalue()
    assert "exclusive" in output.getvalue()
    assert max(map(len, lines(output))) <= width


def test_a_reason_is_shown_in_full_next_to_all_workers_that_have_it() -> None:
    shown, output = screen(120)
    shown.snapshot(VIEW)

    assert f"fft-7, fft-8   {FULL}" in lines(output)
    assert f"lora-2         {BUSY}" in lines(output)


def test_the_totals_omit_states_without_workers() -> None:
    shown, output = screen(80)
    shown.snapshot(VIEW)

    assert "3 of 4 GPUs in use; workers: 1 starting, 2 running, 3 waiting" in lines(output)


def test_there_is_no_wait_table_without_waiting_workers() -> None:
    shown, output = screen(80)
    shown.snapshot(ClusterView(VIEW.workers[:1], VIEW.claims))

    assert "Reason" not in output.getvalue()


def test_without_a_terminal_only_snapshots_are_printed() -> None:
    shown, output = screen(80)
    with shown:
        shown.update(VIEW)

    assert not output.getvalue()


def test_on_a_terminal_the_table_is_redrawn_and_no_snapshot_is_printed() -> None:
    shown, output = screen(80, live=True)
    with shown:
        shown.update(VIEW)
        shown.snapshot(ClusterView((), ()))

    assert "fft-7, fft-8" in output.getvalue()
    assert "0 of 4 GPUs in use" not in output.getvalue()


def test_forced_colors_do_not_enable_the_live_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert not Screen.on_standard_output(devices=4, limit=2).live


def test_text_with_brackets_is_printed_unchanged() -> None:
    shown, output = screen(80)
    shown.show("[bold]not markup[/bold]")

    assert lines(output) == ["[bold]not markup[/bold]"]


def test_a_long_path_is_not_wrapped() -> None:
    shown, output = screen(80)
    shown.show(f"export KUBECONFIG=/{'folder/' * 20}file")

    assert len(lines(output)) == 1


def test_the_tables_of_the_summary_fit_80_columns() -> None:
    shown, output = screen(80)
    records = [
        Record(member, 0.0, first_ran_seconds=1.0, wait_reason=member.reason) for member in VIEW.workers
    ]
    shown.summary(ending(VIEW, records, leaver="fft-1", successor="fft-4"))

    tables = [line for line in lines(output) if ": " not in line or "Waiting" in line]
    assert max(map(len, tables)) <= 80
    assert "pair-1   runs on 2 GPUs of gpu-node-1   nobody" in output.getvalue()
    assert "Hand-off: fft-4 got the GPU of fft-1" in output.getvalue()
