"""Each kubeconfig mistake gives one line with the place, the value and the allowed values."""

from __future__ import annotations

import copy
import errno
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from informers.client.kubeconfig import select_context
from informers.errors import ConfigurationError

EXEC_VERSION = "client.authentication.k8s.io/v1"
EXEC_VERSIONS = f"use {EXEC_VERSION} or {EXEC_VERSION}beta1"
GOOD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "one",
    "contexts": [
        {"name": "one", "context": {"cluster": "c", "user": "u"}},
        {"name": "two", "context": {"cluster": "c", "namespace": "n"}},
    ],
    "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],
    "users": [{"name": "u", "user": {"token": "SECRET"}}],
    "preferences": {},
}


def write(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def error_of(kubeconfig: str, context: str | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        select_context(kubeconfig, context)
    text = str(caught.value)
    assert "\n" not in text
    assert "SECRET" not in text
    return text


def test_the_current_context_is_the_default(tmp_path: Path) -> None:
    file = write(tmp_path / "config", GOOD)
    assert select_context(file, None).context == "one"
    assert select_context(file, "two").context == "two"
    assert str(select_context(file, None)) == f"{file}, context 'one'"


def test_a_missing_file(tmp_path: Path) -> None:
    file = str(tmp_path / "nowhere")
    assert error_of(file) == (f"kubeconfig {file!r}: no such file; give the path of a readable kubeconfig")


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    assert error_of(str(tmp_path)) == f"kubeconfig {tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("below", "expected"), [("good/config", "Not a directory"), ("x" * 300, "File name too long")]
)
def test_a_path_that_cannot_be_looked_up_is_an_error_not_a_missing_file(
    tmp_path: Path, below: str, expected: str
) -> None:
    good, bad = write(tmp_path / "good", GOOD), tmp_path / below
    for kubeconfig in (str(bad), f"{good}{os.pathsep}{bad}"):
        assert error_of(kubeconfig) == f"kubeconfig {bad}: cannot be read: {expected}"


def test_a_file_in_an_inaccessible_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, look_up = tmp_path / "closed" / "config", Path.stat

    def deny(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        # File modes do not restrict root.
        if path == file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return look_up(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", deny)
    assert error_of(str(file)) == f"kubeconfig {file}: cannot be read: Permission denied"


def test_an_unknown_home_directory() -> None:
    file = "~no-such-user/config"
    assert error_of(file) == f"kubeconfig {file}: cannot be read: its home directory is unknown"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a: b: c\n", "is not YAML: mapping values are not allowed in this context at line 1"),
        ("token: 'SECRET\nb: [", "is not YAML: found unexpected end of stream at line 2"),
        ("\0", "is not YAML: ReaderError"),
        ("", "current-context is not set; none is defined"),
        ("hello", "is not a mapping with contexts, clusters and users"),
        ("- a\n", "is not a mapping with contexts, clusters and users"),
        ("contexts: nonsense\n", "Expected `array`, got `str` - at `$.contexts`"),
        (
            "current-context: a\ncontexts: [{name: a}]\n",
            "context 'a': cluster '' is not defined; none is defined",
        ),
        ("current-context: a\n", "context 'a' is not defined; none is defined"),
        ("contexts: []\n", "current-context is not set; none is defined"),
    ],
)
def test_content_that_is_not_a_kubeconfig(tmp_path: Path, content: str, expected: str) -> None:
    file = write(tmp_path / "config", content)
    assert error_of(file) == f"kubeconfig {file}: {expected}"


def test_an_undefined_name_lists_the_defined_names(tmp_path: Path) -> None:
    file = write(tmp_path / "config", GOOD)
    assert error_of(file, "three") == (
        f"kubeconfig {file}: context 'three' is not defined; defined: 'one', 'two'"
    )
    for field, name, defined in (("cluster", "d", "c"), ("user", "v", "u")):
        bad = copy.deepcopy(GOOD)
        bad["contexts"][0]["context"][field] = name
        file = write(tmp_path / "config", bad)
        assert error_of(file) == (
            f"kubeconfig {file}: context 'one': {field} {name!r} is not defined; defined: {defined!r}"
        )


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ({}, "server '' is not an http:// or https:// URL"),
        ({"server": "10.0.0.1/path"}, "server '10.0.0.1/path' is not an http:// or https:// URL"),
        ({"server": "ftp://h"}, "server 'ftp://h' is not an http:// or https:// URL"),
        ({"server": "https://u:SECRET@h"}, "server must not contain a user name: set username"),
        ({"server": ["https://h"]}, "Expected `str`, got `array` - at `$.server`"),
        (
            {"server": "https://h", "insecure-skip-tls-verify": "maybe"},
            "Invalid enum value 'maybe' - at `$.insecure-skip-tls-verify`",
        ),
        (
            {"server": "https://h", "insecure-skip-tls-verify": True, "certificate-authority-data": "QQ=="},
            "certificate-authority and insecure-skip-tls-verify cannot both be set",
        ),
        (
            {"server": "https://h", "certificate-authority": "ca.crt", "certificate-authority-data": "QQ=="},
            "certificate-authority and certificate-authority-data cannot both be set",
        ),
        (
            {"server": "https://h", "proxy-url": "socks5://u:SECRET@h:1080"},
            "proxy-url with scheme 'socks5' is not supported: use http:// or https://",
        ),
        ({"server": "https://h", "proxy-url": "h:3128"}, "proxy-url is not an http:// or https:// URL"),
        ({"server": "https://h", "proxy-url": "http://"}, "proxy-url is not an http:// or https:// URL"),
        ({"server": "https://"}, "server 'https://' is not an http:// or https:// URL"),
        ({"server": "https://h:99999"}, "server 'https://h:99999' is not an http:// or https:// URL"),
        (
            {"server": "https://h", "certificate-authority": "ca.crt"},
            "certificate-authority '{folder}/ca.crt' cannot be read: No such file or directory",
        ),
        (
            {"server": "https://h", "certificate-authority-data": "SECRET"},
            "certificate-authority-data is not base64: Incorrect padding",
        ),
    ],
)
def test_invalid_clusters(tmp_path: Path, cluster: dict[str, Any], expected: str) -> None:
    bad = copy.deepcopy(GOOD)
    bad["clusters"][0]["cluster"] = cluster
    file = write(tmp_path / "config", bad)
    assert error_of(file) == f"kubeconfig {file}: cluster 'c': {expected.format(folder=tmp_path)}"


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"tokenFile": "t"}, "tokenFile '{folder}/t' cannot be read: No such file or directory"),
        ({"client-key-data": "QQ=="}, "client-certificate and client-key must be given together"),
        (
            {"client-certificate-data": "QQ==", "client-key": "k"},
            "client-key '{folder}/k' cannot be read: No such file or directory",
        ),
        ({"token": "SECRET\nx"}, "token must be a single line"),
        ({"as": "a\nb"}, "as must be a single line"),
        ({"as": "a", "as-uid": "\0"}, "as must be a single line"),
        ({"as": "a", "as-groups": ["g", "h\r"]}, "as-groups must be a single line"),
        ({"as": "a", "as-user-extra": {"k": ["b\nc"]}}, "as-user-extra 'k' must be a single line"),
        ({"as-groups": ["g"]}, "as-uid, as-groups and as-user-extra need as"),
        ({"as-uid": "1"}, "as-uid, as-groups and as-user-extra need as"),
        ({"as-user-extra": {"k": ["v"]}}, "as-uid, as-groups and as-user-extra need as"),
        ({"password": "SECRET"}, "password is set without username"),
        ({"username": "u", "tokenFile": os.devnull}, "token and username cannot both be set"),
        (
            {"auth-provider": {"name": "oidc"}},
            "auth-provider is not supported: use a credential plugin (exec)",
        ),
        ({"auth-provider": {}}, "auth-provider is not supported: use a credential plugin (exec)"),
        ({"exec": {"command": "x"}}, f"exec: apiVersion '' is not supported: {EXEC_VERSIONS}"),
        (
            {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
            f"exec: apiVersion 'client.authentication.k8s.io/v1alpha1' is not supported: {EXEC_VERSIONS}",
        ),
        ({"exec": {"apiVersion": EXEC_VERSION}}, "exec: command is not set"),
        (
            {"exec": {"command": "x", "apiVersion": EXEC_VERSION, "env": [{"value": "SECRET"}]}},
            "exec: env needs a name without '=' in each entry",
        ),
        (
            {"exec": {"command": "x", "apiVersion": EXEC_VERSION, "interactiveMode": "Sometimes"}},
            "Invalid enum value 'Sometimes' - at `$.exec.interactiveMode`",
        ),
    ],
)
def test_invalid_users(tmp_path: Path, user: dict[str, Any], expected: str) -> None:
    bad = copy.deepcopy(GOOD)
    bad["users"][0]["user"] = user
    file = write(tmp_path / "config", bad)
    assert error_of(file) == f"kubeconfig {file}: user 'u': {expected.format(folder=tmp_path)}"
    assert select_context(file, "two").context == "two"


def test_a_name_that_one_file_defines_twice(tmp_path: Path) -> None:
    bad = copy.deepcopy(GOOD)
    bad["users"] *= 2
    file = write(tmp_path / "config", bad)
    assert error_of(file) == f"kubeconfig {file}: user 'u' is defined twice"


def test_several_files_are_merged_and_the_first_definition_wins(tmp_path: Path) -> None:
    second = {**GOOD, "current-context": "two"}
    first = {"current-context": "mine", "contexts": [{"name": "mine", "context": {"cluster": "c"}}]}
    paths = os.pathsep.join(
        [write(tmp_path / "a", first), str(tmp_path / "missing"), write(tmp_path / "b", second)]
    )
    assert select_context(paths, None).context == "mine"
    assert select_context(paths, "one").paths == (tmp_path / "a", tmp_path / "b")
    assert error_of(paths, "none").endswith("; defined: 'mine', 'one', 'two'")


def test_paths_are_relative_to_the_file_that_contains_them(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "t").write_text("x")
    good = copy.deepcopy(GOOD)
    good["users"][0]["user"] = {"tokenFile": "t"}
    assert select_context(write(tmp_path / "sub" / "config", good), None).context == "one"
