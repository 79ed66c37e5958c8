"""The demo without a cluster, as it is run: it tells its story, serves, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import select
import signal
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.demo.running import SECONDS, SMALL, demo, read_until, started

END_SECONDS = 5

pytestmark = pytest.mark.timeout(2 * SECONDS)


def test_it_tells_the_whole_story_and_leaves_nothing_behind(tmp_path: Path) -> None:
    answer = demo(*SMALL, "--gpu-memory=40Gi", "--seed=3", home=tmp_path)

    assert (answer.returncode, answer.stderr) == (0, "")
    acts = re.findall(r"^\d\. (.*)", answer.stdout, re.MULTILINE)
    assert acts[0] == "lora-1: never share, so each gets GPUs of its own"
    assert acts[-1] == "gpu-node-0 is opened again; its GPUs go to those who wait"
    assert "WaitingForCapacity: no free device or seat of 30Gi; shared claims hold at most 2 workers" in (
        " ".join(answer.stdout.split())
    )
    assert "Limit: no ledger ever held more than 2 of 2 seats" in answer.stdout
    assert re.search(r"\nHand-off: the seat of fft-\d was free \d+ ms after its deletion", answer.stdout)
    assert re.search(r"\nDrain: .* lost gpu-node-0; .* Every GPU was at work", answer.stdout)
    assert list(tmp_path.iterdir()) == []


def test_it_serves_until_it_is_interrupted_and_ends_well_then(tmp_path: Path) -> None:
    with started(*SMALL, "--serve", home=tmp_path) as process:
        shown = read_until(process, "Ctrl-C stops everything.")
        (kubeconfig,) = re.findall(r"export KUBECONFIG=(\S+)", shown)
        server = yaml.safe_load(Path(kubeconfig).read_text())["clusters"][0]["cluster"]["server"]
        with urllib.request.urlopen(f"{server}/apis/openrl.io/v1alpha1/workloads") as answer:  # noqa: S310
            assert b'"phase":"Running"' in answer.read()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate()

    assert (process.returncode, errors) == (0, "")
    assert rest == "Everything was stopped and removed.\n"
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_story_says_so_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with started(*SMALL, home=tmp_path) as process:
        read_until(process, "1. ")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()

    assert process.returncode == 130
    assert errors == "error: interrupted; everything was stopped and removed\n"
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_killed_takes_its_controller_along(tmp_path: Path) -> None:
    with started(*SMALL, "--serve", home=tmp_path) as process:
        read_until(process, "1. ")
        (controller,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        running = os.pidfd_open(int(controller))
        process.kill()
        process.communicate()

    try:
        ended, _, _ = select.select([running], [], [], END_SECONDS)
        assert ended
    finally:
        os.close(running)
