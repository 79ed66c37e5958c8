"""The demo without a cluster, end to end: it runs all steps, serves, and leaves nothing behind."""

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


def test_the_demo_runs_to_its_end_and_leaves_nothing_behind(tmp_path: Path) -> None:
    answer = demo(*SMALL, "--gpu-memory=40Gi", "--seed=3", home=tmp_path)

    assert (answer.returncode, answer.stderr) == (0, "")
    steps = re.findall(r"^\d\. (.*)", answer.stdout, re.MULTILINE)
    assert steps[0] == "Create lora-1: exclusive workers never share their GPUs"
    assert steps[-1] == "Uncordon gpu-node-0: waiting workers get its GPUs"
    assert "WaitingForCapacity: no free device or seat of 30Gi; shared claims hold at most 2 workers" in (
        " ".join(answer.stdout.split())
    )
    assert "Limit: no claim ever had more than 2 of 2 seats booked" in answer.stdout
    assert re.search(
        r"\nHand-off: the seat of fft-\d was freed \d+ ms after the deletion request", answer.stdout
    )
    assert re.search(
        r"\nDrain: the workers of gpu-node-0 were settled .* all GPUs were in use", answer.stdout
    )
    assert list(tmp_path.iterdir()) == []


def test_serve_keeps_the_cluster_until_an_interrupt_and_exits_with_status_0(tmp_path: Path) -> None:
    with started(*SMALL, "--serve", home=tmp_path) as process:
        shown = read_until(process, "Press Ctrl-C to stop everything.")
        (kubeconfig,) = re.findall(r"export KUBECONFIG=(\S+)", shown)
        server = yaml.safe_load(Path(kubeconfig).read_text())["clusters"][0]["cluster"]["server"]
        with urllib.request.urlopen(f"{server}/apis/openrl.io/v1alpha1/workloads") as answer:  # noqa: S310
            assert b'"phase":"Running"' in answer.read()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate()

    assert (process.returncode, errors) == (0, "")
    assert rest == "Stopped and removed everything.\n"
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_demo_reports_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with started(*SMALL, home=tmp_path) as process:
        read_until(process, "1. ")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()

    assert process.returncode == 130
    assert errors == "error: interrupted; stopped and removed everything\n"
    assert list(tmp_path.iterdir()) == []


def test_the_controller_ends_when_the_demo_is_killed(tmp_path: Path) -> None:
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
