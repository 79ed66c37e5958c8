"""Tests of kubeconfigs, identities and the run folder."""

import ssl
import stat
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.errors import KubeconfigInvalid
from e2e.controlplane.kubeconfig import read_access, write_kubeconfig
from e2e.controlplane.processes.binaries import Binaries
from e2e.controlplane.processes.identity import CONTROLLER_USER, new_identities, new_signing_key
from e2e.controlplane.processes.layout import Layout, free_ports
from tests.controlplane.fakes import write_program

AUTHORITY = b"""\
-----BEGIN CERTIFICATE-----
MIIBmTCCAUCgAwIBAgIUZ8OyEt2O70w83BPgCxxyveaMFRUwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOdGVzdC1hdXRob3JpdHkwIBcNMjYxMTI5MTkzMDAxWhgPMjEy
NjExMDUxOTMwMDFaMBkxFzAVBgNVBAMMDnRlc3QtYXV0aG9yaXR5MFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEEUXnjkp0jkrBahOZ1cLcztfVCtY98D18ETXwSrgG
hJjWGOSJdGVh1aYtFbpPxtfA2jFiKCwilzO794I/VU8JpKNkMGIwHQYDVR0OBBYE
FAuG0VYcRXub7VuWAribNzg2lQEgMB8GA1UdIwQYMBaAFAuG0VYcRXub7VuWArib
Nzg2lQEgMA8GA1UdEwEB/wQFMAMBAf8wDwYDVR0RBAgwBocEfwAAATAKBggqhkjO
PQQDAgNHADBEAiB9tkZDU9qy/FIpiUiSe00ZNHDT9krFzA3i232PED9ODQIgE/yw
CiqeeDFOlrsdkwrK+DD5vtpbmzauUO5ozud9vg4=
-----END CERTIFICATE-----
"""

SERVER = "https://127.0.0.1:6443"


def write(path: Path, cluster: object, user: object) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def test_a_written_kubeconfig_can_be_read_and_verifies_the_server(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, server=SERVER, certificate_authority=AUTHORITY, user="someone", token="secret")
    access = read_access(path)
    assert (access.server, access.token) == (SERVER, "secret")
    assert access.tls is not None
    assert access.tls.verify_mode is ssl.CERT_REQUIRED
    assert access.tls.check_hostname
    assert len(access.tls.get_ca_certs()) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_the_kubeconfig_can_disable_verification(tmp_path: Path) -> None:
    path = write(tmp_path / "k", {"server": SERVER, "insecure-skip-tls-verify": True}, {"token": "t"})
    access = read_access(path)
    assert access.tls is not None
    assert access.tls.verify_mode is ssl.CERT_NONE


def test_a_token_may_come_from_a_file_or_a_plug_in(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n", encoding="utf-8")
    assert read_access(write(tmp_path / "k", {"server": SERVER}, {"tokenFile": "token"})).token == "from-file"

    answer = 'import json, os\nprint(json.dumps({"status": {"token": "from-" + os.environ["KIND"]}}))'
    plugin = write_program(tmp_path / "plugin", answer)
    user = {"exec": {"command": str(plugin), "env": [{"name": "KIND", "value": "plugin"}]}}
    assert read_access(write(tmp_path / "k", {"server": SERVER}, user)).token == "from-plugin"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file or directory"),
        ("a: [", "not YAML"),
        ("just text", "not a kubeconfig"),
        ("{}", "no entry None under contexts"),
    ],
)
def test_an_unusable_kubeconfig_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(KubeconfigInvalid, match=message) as failure:
        read_access(path)
    assert str(path) in str(failure.value)


def test_a_failing_plug_in_and_a_missing_server_are_named(tmp_path: Path) -> None:
    broken = {"exec": {"command": str(tmp_path / "absent")}}
    with pytest.raises(KubeconfigInvalid, match=r"credential plug-in .*absent failed"):
        read_access(write(tmp_path / "k", {"server": SERVER}, broken))
    with pytest.raises(KubeconfigInvalid, match="no server address"):
        read_access(write(tmp_path / "k", {}, {}))


def test_the_controller_has_the_identity_of_its_service_account(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path, Binaries(tmp_path), client_qps=1000)
    layout.certificate.parent.mkdir()
    layout.certificate.write_bytes(AUTHORITY)
    layout.write_kubeconfigs()

    token = read_access(layout.kubeconfig("controller")).token
    lines = (tmp_path / "tokens.csv").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"{token},")]
    user = "system:serviceaccount:open-rl-scheduler:open-rl-scheduler"
    groups = "system:serviceaccounts,system:serviceaccounts:open-rl-scheduler,system:authenticated"
    assert line == f'{token},{user},{user},"{groups}"'
    assert user == CONTROLLER_USER


def test_no_two_runs_share_a_token_or_a_key() -> None:
    first, second = new_identities(), new_identities()
    tokens = {identity.token for run in (first, second) for identity in run.values()}
    assert len(tokens) == len(first) + len(second)
    assert new_signing_key() != new_signing_key()


def test_only_the_administrator_kwok_and_the_controller_manager_are_masters() -> None:
    masters = {name for name, identity in new_identities().items() if "system:masters" in identity.groups}
    assert masters == {"admin", "kube-controller-manager", "kwok"}


def test_the_scheduler_is_not_throttled_and_the_audit_log_not_rotated(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path, Binaries(tmp_path), client_qps=1000)
    assert {"--kube-api-qps=1000", "--kube-api-burst=2000"} <= set(layout.command("kube-scheduler"))
    assert "--audit-log-maxsize=0" in layout.command("kube-apiserver")


def test_free_ports_are_distinct() -> None:
    assert len(set(free_ports(20))) == 20
