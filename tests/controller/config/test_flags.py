"""Tests of the settings: their sources, types, defaults and error messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config.flags import (
    OPTIONS,
    InvalidSetting,
    LogFormat,
    LogLevel,
    PlacementStrategy,
    Settings,
    resolve,
)
from controller.config.values import BindAddress

CONTRACT = {
    "--namespace": ("OPEN_RL_WORKER_NAMESPACE", "openrl-system"),
    "--device-class": ("OPEN_RL_DEVICE_CLASS", "gpu.nvidia.com"),
    "--device-driver": ("OPEN_RL_DEVICE_DRIVER", "gpu.nvidia.com"),
    "--placement-strategy": ("OPEN_RL_PLACEMENT_STRATEGY", PlacementStrategy.BINPACK),
    "--max-seats-per-claim": ("OPEN_RL_MAX_SEATS_PER_CLAIM", 0),
    "--retry-interval": ("OPEN_RL_RECONCILE_INTERVAL", 10.0),
    "--placement-timeout": ("OPEN_RL_PLACEMENT_TIMEOUT", 900.0),
    "--max-concurrent-reconciles": ("OPEN_RL_MAX_CONCURRENT_RECONCILES", 4),
    "--leader-elect": ("", True),
    "--leader-elect-lease-duration": ("", 15.0),
    "--leader-elect-renew-deadline": ("", 10.0),
    "--leader-elect-retry-period": ("", 2.0),
    "--health-probe-bind-address": ("", BindAddress("", 8081)),
    "--metrics-bind-address": ("", None),
    "--kubeconfig": ("KUBECONFIG", ""),
    "--context": ("", ""),
    "--log-level": ("", LogLevel.INFO),
    "--log-format": ("", None),
}
"""Contract §7. The copy detects an accidental change of the table."""


def test_flags_variables_and_defaults_are_those_of_the_contract() -> None:
    settings = resolve({}, {})
    table = {
        option.flag: (option.env, getattr(settings, field))
        for field, option in OPTIONS.items()
        if option.flag
    }
    assert table == CONTRACT


def test_a_flag_overrides_the_environment_which_overrides_the_default() -> None:
    flag, variable = "--max-seats-per-claim", "OPEN_RL_MAX_SEATS_PER_CLAIM"
    assert resolve({flag: "3"}, {variable: "6"}).max_seats_per_claim == 3
    assert resolve({}, {variable: "6"}).max_seats_per_claim == 6
    assert resolve({}, {}).max_seats_per_claim == 0


def test_a_flag_overrides_even_an_invalid_variable() -> None:
    assert (
        resolve({"--retry-interval": "1s"}, {"OPEN_RL_RECONCILE_INTERVAL": "5"}).retry_interval_seconds == 1.0
    )


@pytest.mark.parametrize("variable", [option.env for option in OPTIONS.values() if option.env])
def test_an_empty_variable_means_unset(variable: str) -> None:
    assert resolve({}, {variable: ""}) == resolve({}, {})


@pytest.mark.parametrize(
    "flag", ["--max-seats-per-claim", "--retry-interval", "--namespace", "--leader-elect"]
)
def test_an_empty_flag_is_refused(flag: str) -> None:
    with pytest.raises(InvalidSetting, match=rf'^{flag}: "" is not allowed'):
        resolve({flag: ""}, {})


def test_an_empty_kubeconfig_flag_restores_the_default() -> None:
    assert resolve({"--kubeconfig": ""}, {"KUBECONFIG": "/somewhere"}).kubeconfig == ""


def test_the_driver_is_the_device_class_unless_given() -> None:
    assert resolve({"--device-class": "gpu.example.com"}, {}).device_driver == "gpu.example.com"
    assert resolve({}, {"OPEN_RL_DEVICE_DRIVER": "d.example.com"}).device_driver == "d.example.com"
    assert Settings(device_class="gpu.example.com").device_driver == "gpu.example.com"


@pytest.mark.parametrize(
    ("flag", "text", "field", "value"),
    [
        ("--max-seats-per-claim", "256", "max_seats_per_claim", 256),
        ("--max-seats-per-claim", "1", "max_seats_per_claim", 1),
        ("--placement-timeout", "0", "placement_timeout_seconds", 0.0),
        ("--placement-timeout", "1h30m", "placement_timeout_seconds", 5400.0),
        ("--placement-strategy", "spread", "placement_strategy", PlacementStrategy.SPREAD),
        ("--leader-elect", "false", "leader_elect", False),
        ("--health-probe-bind-address", "0", "health_probe_bind_address", None),
        ("--metrics-bind-address", "[::1]:0", "metrics_bind_address", BindAddress("::1", 0)),
        ("--metrics-bind-address", "127.0.0.1:8080", "metrics_bind_address", BindAddress("127.0.0.1", 8080)),
        ("--log-format", "json", "log_format", LogFormat.JSON),
    ],
)
def test_accepted(flag: str, text: str, field: str, value: object) -> None:
    assert getattr(resolve({flag: text}, {}), field) == value


@pytest.mark.parametrize(
    ("setting", "text", "allowed"),
    [
        ("--max-seats-per-claim", "-1", "a whole number from 0 (no limit) to 256"),
        ("OPEN_RL_MAX_SEATS_PER_CLAIM", "-1", "a whole number from 0 (no limit) to 256"),
        ("OPEN_RL_MAX_SEATS_PER_CLAIM", "abc", "a whole number from 0 (no limit) to 256"),
        ("--max-seats-per-claim", "257", "a whole number from 0 (no limit) to 256"),
        ("--max-seats-per-claim", "1.5", "a whole number from 0 (no limit) to 256"),
        ("--max-seats-per-claim", "+3", "a whole number from 0 (no limit) to 256"),
        ("--max-seats-per-claim", "010", "a whole number from 0 (no limit) to 256"),
        ("--max-seats-per-claim", "3 ", "a whole number from 0 (no limit) to 256"),
        ("--max-seats-per-claim", "٣", "a whole number from 0 (no limit) to 256"),
        ("--max-seats-per-claim", "9" * 5000, "a whole number from 0 (no limit) to 256"),
        ("--retry-interval", "5", "a duration above 0 with a unit"),
        ("--retry-interval", "0", "a duration above 0 with a unit"),
        ("--retry-interval", "-1s", "a duration above 0 with a unit"),
        ("OPEN_RL_PLACEMENT_TIMEOUT", "1d", "or 0 (wait forever)"),
        ("--placement-timeout", "-1m", "or 0 (wait forever)"),
        ("--device-class", 'a"b', "a DNS subdomain"),
        ("--device-class", "a..b", "a DNS subdomain"),
        ("--device-class", "gpu.nvidia.com\n", "a DNS subdomain"),
        ("--device-driver", "GPU", "a DNS subdomain"),
        ("--namespace", "a.b", "a DNS label"),
        ("--namespace", "x" * 64, "a DNS label"),
        ("POD_NAMESPACE", "a/b", "a DNS label"),
        ("--placement-strategy", "bestfit", "binpack or spread"),
        ("--placement-strategy", "Spread", "binpack or spread"),
        ("--max-concurrent-reconciles", "0", "a whole number of at least 1"),
        ("--leader-elect", "yes", "true or false"),
        ("--leader-elect-lease-duration", "500ms", "at least 1s"),
        ("--leader-elect-lease-duration", "10s", "longer than --leader-elect-renew-deadline (10s)"),
        ("--leader-elect-renew-deadline", "15s", "shorter than --leader-elect-lease-duration (15s)"),
        ("--leader-elect-renew-deadline", "2400ms", "longer than 1.2 times --leader-elect-retry-period (2s)"),
        (
            "--leader-elect-retry-period",
            "9s",
            "1.2 times it must be shorter than --leader-elect-renew-deadline",
        ),
        ("--leader-elect-retry-period", "0", "a duration above 0"),
        ("--health-probe-bind-address", "8081", "host:port"),
        ("--health-probe-bind-address", ":65536", "host:port"),
        ("--health-probe-bind-address", "http://x:1", "host:port"),
        ("--metrics-bind-address", ":", "host:port"),
        ("--metrics-bind-address", "", "host:port"),
        ("--kubeconfig", "a\nb", "the path of a file"),
        ("--log-level", "trace", "debug or info or warning or error"),
        ("--log-format", "xml", "json or text"),
    ],
)
def test_an_invalid_value_is_refused_in_one_line(setting: str, text: str, allowed: str) -> None:
    flags, environ = ({setting: text}, {}) if setting.startswith("--") else ({}, {setting: text})
    with pytest.raises(InvalidSetting) as refusal:
        resolve(flags, environ)
    line = str(refusal.value)
    assert line.startswith(f'{setting}: "')
    assert allowed in line
    assert line.isprintable()
    assert len(line) < 500


def test_settings_made_in_code_follow_the_same_rules() -> None:
    with pytest.raises(InvalidSetting, match='--max-seats-per-claim: "-1"'):
        Settings(max_seats_per_claim=-1)
    with pytest.raises(InvalidSetting, match="--leader-elect-renew-deadline"):
        Settings(renew_deadline_seconds=60.0)


def test_an_invalid_election_time_names_the_given_setting() -> None:
    with pytest.raises(InvalidSetting, match=r"^--leader-elect-lease-duration: .* longer than"):
        resolve({"--leader-elect-lease-duration": "9s"}, {})
    with pytest.raises(InvalidSetting, match=r"^--leader-elect-renew-deadline: .* shorter than .*\(9s\)"):
        resolve({"--leader-elect-lease-duration": "9s", "--leader-elect-renew-deadline": "9s"}, {})


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "--max-seats-per-claim": st.integers(0, 256).map(str),
            "--retry-interval": st.integers(1, 10**6).map("{}ms".format),
            "--placement-strategy": st.sampled_from(["binpack", "spread"]),
            "--leader-elect": st.sampled_from(["true", "false"]),
            "--metrics-bind-address": st.integers(0, 65535).map(":{}".format) | st.just("0"),
            "--log-level": st.sampled_from(["debug", "info", "warning", "error"]),
            "--log-format": st.sampled_from(["json", "text"]),
        },
    )
)
def test_the_text_of_settings_parses_to_the_same_settings(flags: dict[str, str]) -> None:
    settings = resolve(flags, {})
    texts = {option.flag: text for field, option in OPTIONS.items() if (text := settings.text_of(field))}
    assert resolve(texts, {}).model_dump() == settings.model_dump()


def test_the_lease_namespace_is_the_controllers_in_a_cluster_else_the_workers() -> None:
    pod = {"POD_NAMESPACE": "open-rl-scheduler", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert resolve({}, pod).lease_namespace == "open-rl-scheduler"
    assert resolve({"--kubeconfig": "/k"}, pod).lease_namespace == "openrl-system"
    assert resolve({"--context": "c"}, pod).lease_namespace == "openrl-system"
    assert resolve({}, {"POD_NAMESPACE": "elsewhere"}).lease_namespace == "openrl-system"
    assert resolve({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}).lease_namespace == "openrl-system"


def test_a_later_error_names_the_given_setting() -> None:
    by_flag = resolve({"--kubeconfig": "/nope"}, {"KUBECONFIG": "/other"})
    assert str(by_flag.invalid("kubeconfig", "a file\nthat can be read")) == (
        '--kubeconfig: "/nope" is not allowed: a file that can be read'
    )
    assert str(resolve({}, {"KUBECONFIG": "/nope"}).invalid("kubeconfig", "x")).startswith("KUBECONFIG: ")


def test_the_meaning_of_the_seat_limit() -> None:
    assert Settings(max_seats_per_claim=1).seat_limit_meaning == (
        "exclusive placement: no two workers share a GPU"
    )
    assert Settings(max_seats_per_claim=0).seat_limit_meaning == "no limit"
    assert Settings(max_seats_per_claim=3).seat_limit_meaning == "at most 3 workers share a claim"
