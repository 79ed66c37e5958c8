"""What one process of the program serves: the parts of its controller, under the names of `definitions`."""

from __future__ import annotations

from controller.api.names import LEADER_LEASE
from controller.controller import Controller
from controller.metrics.api_server import informer_metrics
from controller.metrics.exposition import Metrics
from controller.metrics.placement import (
    counter_metrics,
    event_metrics,
    gauge_metrics,
    ledger_metrics,
    sweep_metrics,
)
from controller.metrics.runtime import leadership_metrics, reconcile_metrics, work_queue_metrics
from controller.runtime.leadership import Leadership


def controller_metrics(controller: Controller, leadership: Leadership) -> Metrics:
    """A registry with all that a controller knows of itself, whatever it runs on; add the rest to it."""
    metrics = Metrics()
    name = controller.queue.name
    metrics.add(
        gauge_metrics(
            controller.gauges.statistics,
            controller.fleet_updater.fleet.capacity,
            max_seats_per_claim=controller.max_seats_per_claim,
            now=controller.now,
        )
    )
    metrics.add(counter_metrics(controller.counters.statistics, controller.hand_offs.statistics))
    metrics.add(ledger_metrics(controller.book.statistics))
    metrics.add(sweep_metrics(controller.sweep.statistics))
    metrics.add(event_metrics(controller.recorder.statistics))
    metrics.add(reconcile_metrics(name, controller.runner.statistics))
    metrics.add(work_queue_metrics(name, controller.queue.statistics))
    metrics.add(informer_metrics(lambda: [informer.statistics() for informer in controller.caches.all()]))
    metrics.add(leadership_metrics(LEADER_LEASE, leadership.statistics))
    return metrics
