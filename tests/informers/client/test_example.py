"""The example program runs, and the documentation quotes it verbatim."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest
from anyio.streams.text import TextReceiveStream

from tests.informers.client.conftest import kubeconfig
from tests.informers.client.objects import event
from tests.informers.client.server import ScriptedServer, forever, reply, stream

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "watch_pods.py"
PAGE = ROOT / "docs" / "informers.md"
LINES_MAX = 30


def pod(name: str, version: int, phase: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "status": {"phase": phase}}


async def test_the_example_prints_changes_of_pods_until_interrupted(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.answers(
        reply({"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [pod("a", 1, "Pending")]}),
        stream(
            event("ADDED", pod("b", 6, "Pending")),
            event("MODIFIED", pod("a", 7, "Running")),
            event("DELETED", pod("b", 8, "Pending")),
            then=forever,
        ),
    )
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig(tmp_path / "config", server.url, user={}))}
    process = await anyio.open_process([sys.executable, str(EXAMPLE), "ns"], cwd=ROOT, env=environment)
    async with process:
        assert process.stdout is not None
        assert process.stderr is not None
        output = ""
        with anyio.fail_after(30):
            async for text in TextReceiveStream(process.stdout):
                output += text
                if output.count("\n") == 4:
                    process.send_signal(signal.SIGINT)
            errors = [text async for text in TextReceiveStream(process.stderr)]
            await process.wait()
    assert output.splitlines() == [
        "added a Pending",
        "added b Pending",
        "changed a Pending -> Running",
        "deleted b Pending",
    ]
    assert (process.returncode, errors) == (0, [])
    assert server.received[0].path == "/api/v1/namespaces/ns/pods"


def test_the_page_quotes_the_example_verbatim_and_it_is_short() -> None:
    code = EXAMPLE.read_text(encoding="utf-8")
    assert f"```python\n{code}```" in PAGE.read_text(encoding="utf-8")
    assert len([line for line in code.splitlines() if line and not line.startswith("#")]) <= LINES_MAX
