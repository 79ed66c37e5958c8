"""Tests of components and guards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controlplane.errors import ComponentEnded
from e2e.controlplane.processes.component import Component
from e2e.controlplane.processes.guard import Guard
from e2e.controlplane.waiting import wait_until
from tests.controlplane.fakes import (
    DIES,
    HANGS,
    IGNORES_SIGTERM,
    TIMEOUT_SECONDS,
    await_ended,
    await_held,
    write_program,
)


@pytest.fixture
def guard() -> Iterator[Guard]:
    guard = Guard(None)
    yield guard
    guard.dismiss()


def component(folder: Path, guard: Guard, body: str) -> Component:
    program = write_program(folder / "program", body)
    return Component("program", [str(program)], folder=folder, process_group=guard.process_group)


def test_stop_returns_when_the_process_has_ended(tmp_path: Path, guard: Guard) -> None:
    lock = tmp_path / "lock"
    program = component(tmp_path, guard, HANGS.format(lock=str(lock)))
    program.start()
    await_held(lock)
    assert repr(program) == "<Component program running>"
    program.stop()
    assert repr(program) == "<Component program stopped>"
    await_ended(lock)


def test_stop_kills_a_process_that_ignores_sigterm(tmp_path: Path, guard: Guard) -> None:
    lock = tmp_path / "lock"
    program = component(tmp_path, guard, IGNORES_SIGTERM.format(lock=str(lock)))
    program.start()
    await_held(lock)
    program.stop(grace_seconds=0.05)
    await_ended(lock)


def test_a_paused_process_can_be_stopped_and_started_again(tmp_path: Path, guard: Guard) -> None:
    lock = tmp_path / "lock"
    program = component(tmp_path, guard, HANGS.format(lock=str(lock)))
    program.start()
    await_held(lock)
    program.pause()
    assert repr(program) == "<Component program paused>"
    program.stop()
    lock.unlink()
    program.start()
    await_held(lock)
    program.require_running()
    program.kill()
    await_ended(lock)


def test_start_of_a_running_component_has_no_effect(tmp_path: Path, guard: Guard) -> None:
    lock = tmp_path / "lock"
    program = component(tmp_path, guard, HANGS.format(lock=str(lock)))
    program.start()
    pid = program.pid
    program.start()
    assert program.pid == pid
    program.kill()


def test_the_log_tail_excludes_an_earlier_process(tmp_path: Path, guard: Guard) -> None:
    program = component(tmp_path, guard, "")
    for message in ("first", "second"):
        write_program(tmp_path / "program", DIES.format(message=message))
        program.start()
        wait_until(lambda: not program.running, "still running", timeout_seconds=TIMEOUT_SECONDS)
    assert program.log_tail() == ["reading the configuration", "second"]


def test_signals_need_a_running_process(tmp_path: Path, guard: Guard) -> None:
    program = component(tmp_path, guard, "")
    for method in (program.pause, program.require_running):
        with pytest.raises(ComponentEnded, match="program is not running"):
            method()
    program.stop()
    program.kill()


def test_an_abandoned_guard_runs_its_commands_in_order_then_removes_the_folder(tmp_path: Path) -> None:
    folder, trace = tmp_path / "folder", tmp_path / "trace"
    folder.mkdir()
    commands = [
        ["sh", "-c", f"test -d {folder} && echo first >> {trace}"],
        ["no-such-program"],
        ["sh", "-c", f"echo last >> {trace}"],
    ]

    Guard(folder, commands=commands).abandon()

    wait_until(lambda: not folder.exists(), "the folder stays", timeout_seconds=TIMEOUT_SECONDS)
    assert trace.read_text().split() == ["first", "last"]


def test_a_dismissed_guard_runs_no_command(tmp_path: Path) -> None:
    trace = tmp_path / "trace"

    Guard(None, commands=[["touch", str(trace)]]).dismiss()

    assert not trace.exists()
