"""A bounded run of the fuzzer, and the sizes and depths that it reaches."""

from __future__ import annotations

from random import Random

import pytest

from controller.api.pods import PODS
from tests.fuzz.documents import CONTENTS, document, encode, odd_text
from tests.fuzz.rounds import run_round

ROUNDS = 40


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("seed", range(0, ROUNDS, 10))
async def test_odd_objects_hide_only_themselves(seed: int) -> None:
    for each in range(seed, seed + 10):
        await run_round(each)


def test_the_documents_are_valid_and_reach_every_decoder() -> None:
    for resource in CONTENTS:
        decoded = resource.decode(encode(document(resource, "good-0", 1)).encode())
        assert decoded.metadata.name == "good-0"


def test_mutations_are_reproducible_and_odd() -> None:
    texts = [odd_text(Random(seed), PODS, "odd-0", 1) for seed in range(300)]
    assert texts == [odd_text(Random(seed), PODS, "odd-0", 1) for seed in range(300)]
    assert len(set(texts)) > 250
    assert any("[" * 1000 in text for text in texts)
    assert any("1e400" in text for text in texts)
    rejected = 0
    for text in texts:
        try:
            PODS.decode(text.encode())
        except ValueError:
            rejected += 1
    assert 50 < rejected < 280
