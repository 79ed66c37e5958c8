"""An object that cannot be read hides only itself, whatever is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controller.api.pods import PODS
from informers.api import Resource, UnreadableObject
from informers.client.decoding import DEPTH_MAX, decode_or_unreadable, repaired
from informers.client.listing import ListSplitter
from informers.client.transport import KubeApi
from informers.client.watch_stream import EventDecoder, WatchCounts
from informers.errors import NotFound, Undecodable
from tests.informers.client.objects import THINGS, Thing, decode_page, thing
from tests.informers.client.server import ScriptedServer, reply, stream

# kube-apiserver accepts 10,000 levels.
DEPTHS = [150, 300, 990, 1500, 10_000]


def nested(depth: int) -> str:
    return '{"f:a":' * depth + "{}" + "}" * depth


def raw_thing(name: str, *, meta: str = '"x":1', spec: str = '"size":1', version: int = 7) -> str:
    identity = f'"name":"{name}","namespace":"ns","uid":"uid-{name}","resourceVersion":"{version}"'
    return f'{{"kind":"Thing","metadata":{{{identity},{meta}}},"spec":{{{spec}}}}}'


def raw_list(*items: str) -> bytes:
    return f'{{"kind":"ThingList","metadata":{{"resourceVersion":"9"}},"items":[{",".join(items)}]}}'.encode()


def decode_event(obj: str, resource: Resource[Any] = THINGS) -> Any:
    event = EventDecoder(resource, WatchCounts()).decode(f'{{"type":"ADDED","object":{obj}}}'.encode())
    assert event is not None
    return event


ODD_SPECS = {
    "a wrong type": '"size":"x"',
    "null": '"size":null',
    "a number beyond a double": '"size":1e400',
    "a number of 5,000 digits": '"size":' + "9" * 5000,
    "a nested value": '"size":' + "[" * 5000 + "]" * 5000,
    "a repeated key": '"size":1,"size":[]',
}


@pytest.mark.anyio
@pytest.mark.parametrize("depth", DEPTHS)
async def test_deep_nesting_of_unused_fields_hides_nothing(depth: int) -> None:
    deep = raw_thing("deep", meta=f'"managedFields":[{nested(depth)}]')
    page = await decode_page(raw_list(raw_thing("before"), deep, raw_thing("after")))
    assert [each.metadata.name for each in page.items] == ["before", "deep", "after"]
    event = decode_event(deep)
    assert (event.resource_version, event.object.metadata.name) == ("7", "deep")


@pytest.mark.anyio
async def test_a_nested_pod_of_any_namespace_is_read_like_all_others() -> None:
    """Its `metadata.managedFields` of 12 kB are nested 1,500 levels deep."""
    deep = (
        '{"kind":"Pod","metadata":{"name":"nested","namespace":"tenant-a","uid":"u","resourceVersion":"7",'
        f'"managedFields":[{nested(1500)}]}},"spec":{{"containers":[{{"name":"c"}}]}}}}'
    )
    assert decode_event(deep, PODS).object.metadata.name == "nested"


@pytest.mark.anyio
@pytest.mark.parametrize("what", ODD_SPECS)
async def test_an_odd_object_is_unreadable_and_named(what: str) -> None:
    odd = raw_thing("odd", spec=ODD_SPECS[what])
    page = await decode_page(raw_list(raw_thing("before"), odd, raw_thing("after")))
    assert [each.metadata.name for each in page.items] == ["before", "after"]
    (listed,) = page.unreadable
    watched = decode_event(odd).unreadable
    for each in (listed, watched):
        assert (each.namespace, each.name, each.uid, each.resource_version) == ("ns", "odd", "uid-odd", "7")
        assert each.error


@pytest.mark.anyio
@pytest.mark.parametrize("escape", [r"\ud800", r"\uDFFF", r"\udc00\ud800", r"\\\ud800"])
async def test_a_lone_surrogate_is_replaced(escape: str) -> None:
    odd = raw_thing("odd", spec=f'"text":"a{escape}b"')
    page = await decode_page(raw_list(raw_thing("before"), odd))
    assert [each.metadata.name for each in page.items] == ["before", "odd"]
    assert "\ufffd" in page.items[1].spec.text
    assert decode_event(odd).object.spec.text == page.items[1].spec.text


def test_escaped_characters_and_surrogate_pairs_stay_as_they_are() -> None:
    text = rb'["\\ud800","\ud83d\ude00","\"]"]'
    assert repaired(text) == text


def test_a_defect_of_a_decoder_hides_only_the_object() -> None:
    def decode(_: bytes) -> Thing:
        raise TypeError

    resource = Resource("", "v1", "things", "Thing", True, decode)
    found = decode_or_unreadable(resource, raw_thing("odd").encode())
    assert found == UnreadableObject("odd", "ns", "uid-odd", "7", "TypeError()")


@pytest.mark.anyio
async def test_an_item_without_metadata_is_unreadable() -> None:
    page = await decode_page(raw_list('{"spec":{}}', "null", "[]", raw_thing("after")))
    assert [each.name for each in page.unreadable] == ["", "", ""]
    assert [each.metadata.name for each in page.items] == ["after"]


@pytest.mark.parametrize("depth", [DEPTH_MAX - 1, DEPTH_MAX, DEPTH_MAX + 1, 10_000])
def test_only_values_that_nest_too_deep_are_cut(depth: int) -> None:
    text = b"[" * depth + b"]" * depth
    cut = repaired(text)
    assert (cut == text) == (depth <= DEPTH_MAX)
    assert cut.count(b"[") == min(depth, DEPTH_MAX)
    json.loads(cut)


@pytest.mark.parametrize("text", [b"[" * 300, b"]" * 300, b"[" * 300 + b'"' + b"]" * 300, b'["' + b"]" * 9])
def test_malformed_text_stays_malformed(text: bytes) -> None:
    assert repaired(text) == text


def test_brackets_in_strings_do_not_count() -> None:
    text = '["]]]","\\"[[[",' + "[" * 200 + '"]]]\\\\"' + "]" * 200 + ',"x"]'
    assert json.loads(repaired(text.encode()))[3] == "x"


def test_a_deep_object_does_not_prevent_the_slicing_of_a_list() -> None:
    items = [raw_thing(f"t{number}") for number in range(200)]
    items[5] = raw_thing("deep", meta=f'"managedFields":[{nested(2000)}]')
    text, splitter = raw_list(*items), ListSplitter(slice_bytes=5000)
    returned = [len(splitter.feed(text[at : at + 1000])) for at in range(0, len(text), 1000)]
    rest, _ = splitter.finish()
    assert sum(returned) + len(rest) == 200
    assert sum(returned) >= 150


@pytest.mark.anyio
async def test_answers_to_gets_and_writes_are_read_like_lists(api: KubeApi, server: ScriptedServer) -> None:
    deep = thing("a") | {"status": msgspec.Raw(nested(3000).encode())}
    server.answers(reply(msgspec.json.encode(deep)))
    assert (await api.get(THINGS, "a", "ns")).metadata.name == "a"
    assert (await api.create(THINGS, {}, "ns")).metadata.name == "a"
    deleted = await api.delete(THINGS, "a", "ns")
    assert deleted is not None
    assert deleted.metadata.name == "a"
    server.answers(reply(thing("a", size="x")))
    with pytest.raises(Undecodable, match="ns/a of kind Thing cannot be decoded"):
        await api.patch(THINGS, "a", {}, "ns")


@pytest.mark.anyio
async def test_a_served_list_and_watch_hide_one_object_only(api: KubeApi, server: ScriptedServer) -> None:
    deep = raw_thing("deep", meta=f'"managedFields":[{nested(10_000)}]', version=11)
    odd = raw_thing("odd", spec='"size":1e400', version=12)
    lines = [f'{{"type":"ADDED","object":{each}}}\n' for each in (deep, odd, raw_thing("last", version=13))]
    server.answers(reply(raw_list(deep, odd, raw_thing("last"))), stream("".join(lines).encode()))
    page = await api.list_page(THINGS)
    assert [each.metadata.name for each in page.items] == ["deep", "last"]
    assert [each.name for each in page.unreadable] == ["odd"]
    async with api.watch(THINGS, resource_version="9", timeout_seconds=5, idle_seconds=5) as events:
        seen = [event async for event in events]
    assert [event.resource_version for event in seen] == ["11", "12", "13"]
    assert [event.object is None for event in seen] == [False, True, False]


@pytest.mark.anyio
async def test_a_deep_error_body_keeps_its_code(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(reply(nested(5000).encode(), 404))
    with pytest.raises(NotFound):
        await api.get(THINGS, "a", "ns")
