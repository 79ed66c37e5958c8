"""Reads YAML as kubectl does, for kubeconfigs and the output of credential plugins.

Every scalar is text and a null is absent. So a date, `1:30` or `yes` keeps its spelling where text is meant.
Only the first document counts, and unknown tags are ignored. JSON, UTF-16 and byte order marks work.
kubectl's parser is a port of libyaml, so libyaml parses here too. It accepts tabs that PyYAML's own parser
rejects. PyYAML's parser is the fallback for builds without libyaml. Errors never quote the text: it may be a
secret.
"""

from __future__ import annotations

import base64
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as _BaseLoader
except ImportError:  # PyYAML was built without libyaml
    from yaml import SafeLoader as _BaseLoader  # type: ignore[assignment]

_NULL, _MERGE, _BINARY = (f"tag:yaml.org,2002:{name}" for name in ("null", "merge", "binary"))


class PlainText(str):
    """An unquoted scalar; only its field decides whether it is text, a number or a boolean."""

    __slots__ = ()


class _Loader(_BaseLoader):
    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        # In order: if a mapping has a key of its own and a merged one, the later wins for kubectl.
        pairs = []
        for key, value in node.value:
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in reversed(sources) if key.tag == _MERGE else ():
                if not isinstance(source, yaml.MappingNode):
                    raise yaml.MarkedYAMLError(problem="<< merges mappings only", problem_mark=key.start_mark)
                self.flatten_mapping(source)
                pairs += source.value
            if key.tag != _MERGE:
                pairs.append((key, value))
        node.value = pairs

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        values = super().construct_mapping(node, deep)
        return {str(key): value for key, value in values.items() if value is not None}

    def construct_any(self, node: yaml.Node) -> object:
        if isinstance(node, yaml.MappingNode):
            return self.construct_yaml_map(node)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_yaml_seq(node)
        if node.tag == _BINARY:
            return base64.b64decode(node.value).decode()
        return PlainText(node.value) if isinstance(node, yaml.ScalarNode) and not node.style else node.value


_Loader.yaml_constructors = {_NULL: yaml.SafeLoader.construct_yaml_null, None: _Loader.construct_any}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in {_NULL, _MERGE}]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(data: bytes) -> object:
    """Return the first document of `data`, `None` if it is empty. Raises `ValueError` with one line."""
    try:
        loader = _Loader(data)
        return loader.get_data() if loader.check_data() else None  # type: ignore[no-untyped-call]
    except yaml.MarkedYAMLError as error:
        line = f" at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{error.problem}{line}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(type(error).__name__) from error


def json_value(value: object) -> object:
    """Return `value` with the types of its unquoted scalars, to be passed on as JSON."""
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if not isinstance(value, PlainText) or ":" in value:  # kubectl knows no sexagesimal numbers
        return value
    typed = yaml.safe_load(value)
    return typed if isinstance(typed, bool | int | float) else value
