"""`python -m simulation.run.worker`: runs seeds for a batch, one after the other, in a process of its own.

A line of JSON in, a line out: `{"seed": 7, "without": []}`, then the pickled `Outcome` in base 64. Everything
else that is written goes to standard error.
"""

from __future__ import annotations

import base64
import gc
import json
import pickle
import sys

from simulation.run.simulate import simulate


def main() -> None:
    """Serve until standard input ends."""
    # What was imported stays: it need not be looked at after each run.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        job = json.loads(line)
        outcome = simulate(int(job["seed"]), without=job["without"])
        sys.stdout.write(base64.b64encode(pickle.dumps(outcome)).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
