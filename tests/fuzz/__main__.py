"""`python -m tests.fuzz --minutes 10 --seed 1`, or `--round SEED` to repeat a failed round."""

from __future__ import annotations

import argparse
import sys
import time

import anyio

from tests.fuzz.rounds import run_round, seeds


def main() -> int:
    """Run rounds until the time is over; return 1 at the first failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="duration")
    parser.add_argument("--seed", type=int, default=1, help="first seed")
    parser.add_argument("--round", type=int, help="seed of one round")
    options = parser.parse_args()
    if options.round is not None:
        anyio.run(run_round, options.round)
        return 0
    deadline, rounds = time.monotonic() + options.minutes * 60, 0
    for seed in seeds(options.seed):
        if time.monotonic() >= deadline:
            break
        try:
            anyio.run(run_round, seed)
        except BaseException:
            sys.stderr.write(f"failed: python -m tests.fuzz --round {seed}\n")
            raise
        rounds += 1
    sys.stdout.write(f"{rounds} rounds passed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
