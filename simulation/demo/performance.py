"""A story from its first act to the summary, on any stage, with an ear for Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

import anyio

from informers.client.transport import connect
from informers.errors import ApiError
from simulation.cluster.simulated import WORKER_NAMESPACE
from simulation.demo.plan import DemoPlan
from simulation.demo.screen import Screen
from simulation.demo.stage import DemoFailed, Interrupted, Stage
from simulation.demo.story import Story
from simulation.demo.workplace import Workplace

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WATCH_INTERVAL_SECONDS = 0.5


async def perform(stage: Stage, plan: DemoPlan, screen: Screen) -> None:
    """Play the story and sum it up. Raises `DemoFailed`, and what `stage.require_alive` raises."""
    try:
        async with connect(kubeconfig=str(stage.kubeconfig), user_agent="open-rl-scheduler-demo") as api:
            story = Story(stage, Workplace(api, WORKER_NAMESPACE), plan, screen)
            with screen:
                ending = await story.perform()
    except ApiError as error:
        stage.require_alive()  # it may know more
        raise DemoFailed(" ".join(str(error).split())) from error
    screen.summary(ending)


async def stay(stage: Stage) -> None:
    """Do nothing, until interrupted, but see that everything is alive. Raises what `require_alive` does."""
    while True:
        stage.require_alive()
        await anyio.sleep(WATCH_INTERVAL_SECONDS)


async def until_interrupted(act: Callable[[], Awaitable[None]]) -> None:
    """Carry `act` out; at SIGINT, SIGTERM or SIGHUP it is cancelled and cleans up, undisturbed by more.

    Raises:
        Interrupted: a signal came before the end.
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
                except Exception as error:  # noqa: BLE001 - raised below, as it was and not in a group
                    failure = error
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if interrupted:
        raise Interrupted
