"""Metrics of what goes to and comes from the API server: requests, credentials, lists, watches, caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import Metric

from controller.metrics import definitions as m
from controller.metrics.exposition import Families, LabelValues, by, histograms, numbers
from informers.api import version_number
from informers.cache.informer import InformerStatistics
from informers.cache.reflector_state import ReflectorStatistics
from informers.client.transport import TransportStatistics
from informers.histogram import HistogramStatistics, merged


def request_metrics(host: str, clients: Sequence[Callable[[], TransportStatistics]]) -> Families:
    """What client-go reports of its requests, over all clients of this process, which talk to one server."""

    def families() -> Iterator[Metric]:
        requests: Counter[LabelValues] = Counter()
        retries: Counter[LabelValues] = Counter()
        seconds: dict[LabelValues, HistogramStatistics] = {}
        renewals: dict[LabelValues, float] = {("success",): 0, ("error",): 0}
        for now in [client() for client in clients]:
            for (method, code), count in now.requests.requests_total.items():
                requests[code, method, host] += count
            for (method, code), count in now.requests.retries_total.items():
                retries[code, method, host] += count
            for method, observed in now.requests.seconds.items():
                known = seconds.get((method, host))
                seconds[method, host] = observed if known is None else merged(known, observed)
            renewals["success",] += now.session.renewals
            renewals["error",] += now.session.failed_renewals
        yield numbers(m.REQUESTS, dict(sorted(requests.items())))
        yield histograms(m.REQUEST_SECONDS, dict(sorted(seconds.items())))
        yield numbers(m.REQUEST_RETRIES, dict(sorted(retries.items())))
        yield numbers(m.CREDENTIAL_RENEWALS, renewals)

    return families


def informer_metrics(statistics: Callable[[], Sequence[InformerStatistics]]) -> Families:
    """What client-go reports of reflectors, and more; one series for each resource."""

    def families() -> Iterator[Metric]:
        now = statistics()
        yield from _reflectors(now)
        yield from _informers(now)

    return families


def _reflectors(all_of_them: Sequence[InformerStatistics]) -> Iterator[Metric]:
    now: dict[LabelValues, ReflectorStatistics] = {(one.resource,): one.reflector for one in all_of_them}
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


def _informers(now: Sequence[InformerStatistics]) -> Iterator[Metric]:
    yield numbers(m.INFORMER_SYNCED, {(one.resource,): int(one.store.synced) for one in now})
    failures = {one.resource: sum(handler.failures_total for handler in one.handlers) for one in now}
    yield numbers(m.HANDLER_FAILURES, by(failures))
    yield numbers(m.STORE_OBJECTS, {(one.resource,): one.store.objects for one in now})
    yield numbers(m.STORE_UNREADABLE, {(one.resource,): one.store.unreadable for one in now})
