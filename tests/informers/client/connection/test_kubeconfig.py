"""Every mistake in a kubeconfig is one line that says where, what, and what is allowed."""

from __future__ import annotations

import copy
import errno
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from informers.client.kubeconfig import check
from informers.errors import ConfigurationError

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


def complaint(kubeconfig: str, context: str | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        check(kubeconfig, context)
    text = str(caught.value)
    assert "\n" not in text
    assert "SECRET" not in text
    return text


def test_the_current_context_is_used_unless_another_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "config", GOOD)
    assert check(file, None).context == "one"
    assert check(file, "two").context == "two"
    assert str(check(file, None)) == f"{file}, context 'one'"


def test_a_missing_file(tmp_path: Path) -> None:
    file = str(tmp_path / "nowhere")
    assert complaint(file) == (f"kubeconfig {file!r}: no such file; give the path of a readable kubeconfig")


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    assert complaint(str(tmp_path)) == f"kubeconfig {tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("below", "said"), [("good/config", "Not a directory"), ("x" * 300, "File name too long")]
)
def test_a_path_that_cannot_be_looked_up_is_refused_and_not_taken_for_a_missing_file(
    tmp_path: Path, below: str, said: str
) -> None:
    good, bad = write(tmp_path / "good", GOOD), tmp_path / below
    for kubeconfig in (str(bad), f"{good}{os.pathsep}{bad}"):
        assert complaint(kubeconfig) == f"kubeconfig {bad}: cannot be read: {said}"


def test_a_file_under_a_folder_that_one_may_not_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, look_up = tmp_path / "closed" / "config", Path.stat

    def refuse(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        # A mode would not keep root out.
        if path == file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return look_up(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", refuse)
    assert complaint(str(file)) == f"kubeconfig {file}: cannot be read: Permission denied"


def test_the_home_of_nobody() -> None:
    file = "~no-such-user/config"
    assert complaint(file) == f"kubeconfig {file}: cannot be read: its home directory is not known"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: b: c\n", "is not YAML: mapping values are not allowed here at line 1"),
        ("token: 'SECRET\nb: [", "is not YAML: found unexpected end of stream at line 2"),
        ("\0", "is not YAML: ReaderError"),
        ("", "is not a mapping with contexts, clusters and users"),
        ("- a\n", "is not a mapping with contexts, clusters and users"),
        ("contexts: nonsense\n", "Expected `array | null`, got `str` - at `$.contexts`"),
        ("contexts: [{name: a}]\n", "Object missing required field `context` - at `$.contexts[0]`"),
        ("current-context: a\n", "context 'a' is not defined; none is defined"),
        ("contexts: []\n", "current-context is not set; none is defined"),
    ],
)
def test_content_that_is_no_kubeconfig(tmp_path: Path, content: str, said: str) -> None:
    file = write(tmp_path / "config", content)
    assert complaint(file) == f"kubeconfig {file}: {said}"


def test_names_that_lead_nowhere_list_what_there_is(tmp_path: Path) -> None:
    file = write(tmp_path / "config", GOOD)
    assert complaint(file, "three") == (
        f"kubeconfig {file}: context 'three' is not defined; defined: 'one', 'two'"
    )
    for what, named, there in (("cluster", "d", "c"), ("user", "v", "u")):
        bad = copy.deepcopy(GOOD)
        bad["contexts"][0]["context"][what] = named
        file = write(tmp_path / "config", bad)
        assert complaint(file) == (
            f"kubeconfig {file}: context 'one': {what} {named!r} is not defined; defined: {there!r}"
        )


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"server": "10.0.0.1"}, "server '10.0.0.1' is not an http:// or https:// URL"),
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
def test_clusters(tmp_path: Path, cluster: dict[str, str], said: str) -> None:
    bad = copy.deepcopy(GOOD)
    bad["clusters"][0]["cluster"] = cluster
    file = write(tmp_path / "config", bad)
    assert complaint(file) == f"kubeconfig {file}: cluster 'c': {said.format(folder=tmp_path)}"


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"tokenFile": "t"}, "tokenFile '{folder}/t' cannot be read: No such file or directory"),
        ({"client-key-data": "QQ=="}, "client-certificate and client-key must be given together"),
        (
            {"client-certificate-data": "QQ==", "client-key": "k"},
            "client-key '{folder}/k' cannot be read: No such file or directory",
        ),
        ({"token": "SECRET\nx"}, "token must be a single line"),
    ],
)
def test_users(tmp_path: Path, user: dict[str, str], said: str) -> None:
    bad = copy.deepcopy(GOOD)
    bad["users"][0]["user"] = user
    file = write(tmp_path / "config", bad)
    assert complaint(file) == f"kubeconfig {file}: user 'u': {said.format(folder=tmp_path)}"
    assert check(file, "two").context == "two"


def test_a_number_for_a_token_and_a_plugin_without_a_version(tmp_path: Path) -> None:
    for user, said in (
        ({"token": 5}, "Expected `str | null`, got `int` - at `$.users[0].user.token`"),
        (
            {"exec": {"command": "x"}},
            "Object missing required field `apiVersion` - at `$.users[0].user.exec`",
        ),
    ):
        bad = copy.deepcopy(GOOD)
        bad["users"][0]["user"] = user
        file = write(tmp_path / "config", bad)
        assert complaint(file) == f"kubeconfig {file}: {said}"


def test_several_files_complete_each_other_and_the_first_definition_wins(tmp_path: Path) -> None:
    second = {**GOOD, "current-context": "two"}
    first = {"current-context": "mine", "contexts": [{"name": "mine", "context": {"cluster": "c"}}]}
    paths = os.pathsep.join(
        [write(tmp_path / "a", first), str(tmp_path / "missing"), write(tmp_path / "b", second)]
    )
    assert check(paths, None).context == "mine"
    assert check(paths, "one").paths == (tmp_path / "a", tmp_path / "b")
    assert complaint(paths, "none").endswith("; defined: 'mine', 'one', 'two'")


def test_paths_are_relative_to_the_file_that_has_them(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "t").write_text("x")
    good = copy.deepcopy(GOOD)
    good["users"][0]["user"] = {"tokenFile": "t"}
    assert check(write(tmp_path / "sub" / "config", good), None).context == "one"
