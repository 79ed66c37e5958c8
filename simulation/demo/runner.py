"""Runs a story from the first step to the summary, on any stage, until it ends or is interrupted."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

import anyio

from informers.client.transport import connect
from informers.errors import ApiError
from simulation.cluster.simulated_cluster import WORKER_NAMESPACE
from simulation.demo.plan import DemoPlan
from simulation.demo.screen import Screen
from simulation.demo.stage import DemoFailed, Interrupted, Stage
from simulation.demo.story import Story
from simulation.demo.workplace import Workplace

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WATCH_INTERVAL_SECONDS = 0.5


async def run_story(stage: Stage, plan: DemoPlan, screen: Screen) -> None:
    """Run the story and print the summary. Raises `DemoFailed`, and what `stage.require_alive` raises."""
    try:
        async with connect(kubeconfig=str(stage.kubeconfig), user_agent="open-rl-scheduler-demo") as api:
            story = Story(stage, Workplace(api, WORKER_NAMESPACE), plan, screen)
            with screen:
                ending = await story.run()
    except ApiError as error:
        stage.require_alive()  # raises with the cause if the controller has ended
        raise DemoFailed(" ".join(str(error).split())) from error
    screen.summary(ending)


async def wait_for_interrupt(stage: Stage) -> None:
    """Wait until interrupted. Raises what `stage.require_alive` raises."""
    while True:
        stage.require_alive()
        await anyio.sleep(WATCH_INTERVAL_SECONDS)


async def until_interrupted(act: Callable[[], Awaitable[None]]) -> None:
    """Run `act`. SIGINT, SIGTERM or SIGHUP cancels it, and further signals do not disturb its cleanup.

    Raises:
        Interrupted: A signal arrived before the end.
    """
    interrupted = False
    failure: Exception | None = None

    async def listen() -> None:
        nonlocal interrupted
        async for _ in received:
            interrupted = True
            acting.cancel()

    with anyio.open_signal_receiver(*SIGNALS) as received:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            with anyio.CancelScope() as acting:
                try:
                    await act()
                except Exception as error:  # noqa: BLE001 - raised below, without an exception group
                    failure = error
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if interrupted:
        raise Interrupted
