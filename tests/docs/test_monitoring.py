"""Alerts and dashboard query exported metrics by existing labels, and every alert has a section in docs/."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

from controller.metrics.definitions import DEFINITIONS, MetricType
from placement.explain import _CAUSES
from tests.docs.metrics_table import PAGE
from tests.docs.settings_table import ROOT

MONITORING = ROOT / "manifests" / "monitoring"
RULES = yaml.safe_load((MONITORING / "prometheus_rule.yaml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
TEXT = PAGE.read_text(encoding="utf-8")

TARGET_LABELS = {"cluster", "job", "instance", "namespace", "pod", "le"}
"""Labels that a scrape adds to every series, and the label of histogram buckets."""

EXPORTED_BY_THE_CLIENT = {"process_resident_memory_bytes"}

WORDS = {
    "max", "min", "sum", "group", "by", "rate", "increase", "last_over_time", "absent_over_time",
    "histogram_quantile", "or", "unless", "label_values",
}  # fmt: skip


def series() -> dict[str, set[str]]:
    """Return the labels of each series that a query may name; a histogram has three series."""
    known: dict[str, set[str]] = {name: set() for name in EXPORTED_BY_THE_CLIENT}
    for each in DEFINITIONS:
        suffixes = ("_bucket", "_sum", "_count") if each.type is MetricType.HISTOGRAM else ("",)
        known |= {f"{each.name}{suffix}": set(each.labels) for suffix in suffixes}
    return known


def alerts() -> list[dict[str, Any]]:
    return [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]


def queries() -> Iterator[str]:
    """Yield every expression of alerts and dashboard, and the definitions of the dashboard's variables."""
    yield from (str(rule["expr"]) for rule in alerts())
    for panel in DASHBOARD["panels"]:
        yield from (str(target["expr"]) for target in panel.get("targets", []))
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield str(variable["definition"])


def names(query: str) -> set[str]:
    """Return the metrics in an expression: words that are no function, label, value or duration."""
    bare = re.sub(r'"[^"]*"|\[[^]]*\]|\bby \([^)]*\)|\{[^}]*\}|, \w+\)$', " ", query)
    return set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", bare)) - WORDS


def labels(query: str) -> set[str]:
    """Return the labels that an expression selects or groups by."""
    groups = (group.split(",") for group in re.findall(r"\bby \(([^)]*)\)", query))
    selected = re.findall(r'(\w+)=~?"', query)
    return {label.strip() for group in groups for label in group} | set(selected)


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_a_query_uses_exported_metrics_and_labels(query: str) -> None:
    known = series()
    used = names(query)

    assert used
    assert used <= known.keys()
    assert labels(query) <= TARGET_LABELS.union(*(known[name] for name in used))


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_is_for_one_installation(rule: dict[str, Any]) -> None:
    """A sum over two installations fires without a fault, and a maximum hides that one of them failed."""
    aggregations = re.findall(r"\b(?:max|min|sum|group|count|avg)\b(.{0,26})", rule["expr"])

    assert aggregations
    for grouping in aggregations:
        assert re.match(r" by \(cluster, namespace[,)]", grouping)


def test_a_panel_shows_one_installation() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            selected = '{cluster="$cluster", namespace="$namespace", job=~"$job"'
            for name in names(target["expr"]):
                following = re.findall(rf"\b{name}\b(.{{{len(selected)}}})", target["expr"])
                assert set(following) == {selected}, name
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert not any(variables[name]["multi"] for name in ("cluster", "namespace"))


def test_reasons_and_phases_in_queries_exist() -> None:
    helps = " ".join(each.help for each in DEFINITIONS)
    values = {
        value for query in queries() for value in re.findall(r'(?:reason|phase|state|kind)="(\w+)"', query)
    }

    assert values
    for value in values:
        assert re.search(rf"\b{value}\b", helps), value


def test_every_alert_has_cases_of_one_and_of_two_installations() -> None:
    cases = yaml.safe_load((ROOT / "tests" / "docs" / "alerts.yaml").read_text(encoding="utf-8"))["tests"]
    tested = {
        (each["name"], case["expr"], len(case["exp_samples"]))
        for each in cases
        for case in each["promql_expr_test"]
    }

    assert tested == {
        (f"{rule['alert']} {what}", f"count by (namespace) ({rule['expr']})", count)
        for rule in alerts()
        for what, count in (("fires", 1), ("quiet", 0), ("fires for one of two", 1))
    }


@cache
def headings(page: str) -> set[str]:
    """The anchors of a page in docs/, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


def test_every_alert_is_complete_and_has_a_section() -> None:
    for rule in alerts():
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert re.fullmatch(r"OpenRLScheduler[A-Za-z]+", rule["alert"])
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"].endswith(".")
        assert "{{" not in rule["annotations"]["summary"], "the summary groups alerts: it has no values"
        assert anchor in headings(page), anchor


def test_the_table_of_alerts_matches_the_rules() -> None:
    row = r"^\| `(OpenRLScheduler\w+)` \| (\w+) \| \[.+\]\(([\w.]*#[\w-]+)\) \|$"
    table = re.findall(row, TEXT, re.MULTILINE)

    assert table == [
        (
            rule["alert"],
            rule["labels"]["severity"],
            rule["annotations"]["runbook"].removeprefix("docs/").removeprefix(PAGE.name),
        )
        for rule in alerts()
    ]


def test_every_cause_of_a_wait_is_explained() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = {cell for row in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE) for cell in row.split("; ")}

    assert set(_CAUSES.values()) <= rows


def test_the_dashboard_can_be_imported() -> None:
    assert DASHBOARD["uid"] == "open-rl-scheduler"
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([A-Za-z]\w*)", json.dumps(DASHBOARD["panels"]))) - {"__rate_interval"}
    assert used == variables
    for panel in DASHBOARD["panels"]:
        assert panel["type"] == "row" or panel["targets"], panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
