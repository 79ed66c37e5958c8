"""Metrics of the traffic with the API server: requests, credentials, lists, watches and caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric

from controller.metrics import definitions as m
from controller.metrics.exposition import LabelValues, histograms, numbers
from informers.api import version_number
from informers.cache.informer import InformerStatistics
from informers.cache.reflector_state import ReflectorStatistics
from informers.client.transport import TransportStatistics
from informers.histogram import HistogramStatistics, merged


def request_metrics(host: str, *clients: TransportStatistics) -> Iterator[Metric]:
    """Export client-go's request metrics, summed over all clients of this process. They use one server."""
    requests: Counter[LabelValues] = Counter()
    retries: Counter[LabelValues] = Counter()
    seconds: dict[LabelValues, HistogramStatistics] = {}
    renewals: dict[LabelValues, float] = {("success",): 0, ("error",): 0}
    for client in clients:
        for (method, code), count in client.requests.requests_total.items():
            requests[code, method, host] += count
        for (method, code), count in client.requests.retries_total.items():
            retries[code, method, host] += count
        for method, observed in client.requests.seconds.items():
            known = seconds.get((method, host))
            seconds[method, host] = observed if known is None else merged(known, observed)
        renewals["success",] += client.session.renewals
        renewals["error",] += client.session.failed_renewals
    yield numbers(m.REQUESTS, dict(sorted(requests.items())))
    yield histograms(m.REQUEST_SECONDS, dict(sorted(seconds.items())))
    yield numbers(m.REQUEST_RETRIES, dict(sorted(retries.items())))
    yield numbers(m.CREDENTIAL_RENEWALS, renewals)


def informer_metrics(informers: Sequence[InformerStatistics]) -> Iterator[Metric]:
    """Export client-go's reflector metrics and our own, with one series per resource."""
    yield from _reflectors(informers)
    yield from _informers(informers)


def _reflectors(informers: Sequence[InformerStatistics]) -> Iterator[Metric]:
    now: dict[LabelValues, ReflectorStatistics] = {(one.resource,): one.reflector for one in informers}
    yield numbers(m.LISTS, {key: one.lists_total for key, one in now.items()})
    yield histograms(m.LIST_SECONDS, {key: one.list_duration_seconds for key, one in now.items()})
    yield histograms(m.ITEMS_PER_LIST, {key: one.items_per_list for key, one in now.items()})
    yield numbers(m.WATCHES, {key: one.watches_total for key, one in now.items()})
    yield numbers(m.SHORT_WATCHES, {key: one.short_watches_total for key, one in now.items()})
    yield histograms(m.WATCH_SECONDS, {key: one.watch_duration_seconds for key, one in now.items()})
    yield histograms(m.ITEMS_PER_WATCH, {key: one.items_per_watch for key, one in now.items()})
    versions = {key: version_number(one.last_resource_version) for key, one in now.items()}
    yield numbers(m.LAST_VERSION, versions)
    causes: dict[LabelValues, float] = {
        (*key, cause): count
        for key, one in now.items()
        for cause, count in sorted(one.lists_by_cause.items())
    }
    yield numbers(m.RELISTS, causes)
    yield numbers(m.INFORMER_FAILURES, {key: one.failures_total for key, one in now.items()})
    yield numbers(m.INFORMER_UP, {key: int(one.problem is None) for key, one in now.items()})
    ages = ((key, one.last_event_age_seconds) for key, one in now.items())
    yield numbers(m.LAST_EVENT_AGE, {key: age for key, age in ages if age is not None})
    yield numbers(m.DECODE_ERRORS, {key: one.decode_errors_total for key, one in now.items()})


def _informers(informers: Sequence[InformerStatistics]) -> Iterator[Metric]:
    yield numbers(m.INFORMER_SYNCED, {(one.resource,): int(one.store.synced) for one in informers})
    yield numbers(m.HANDLER_FAILURES, {(one.resource,): one.handler_failures_total for one in informers})
    yield numbers(m.STORE_OBJECTS, {(one.resource,): one.store.objects for one in informers})
    yield numbers(m.STORE_UNREADABLE, {(one.resource,): one.store.unreadable for one in informers})
