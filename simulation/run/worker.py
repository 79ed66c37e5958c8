"""`python -m simulation.run.worker`: run the seeds of a batch sequentially in one process.

Each input line is JSON: `{"seed": 7, "without": []}`. Each output line is a pickled `RunOutcome` in base 64.
Everything else goes to standard error.
"""

from __future__ import annotations

import base64
import gc
import json
import pickle
import sys

from simulation.run.simulate import simulate


def main() -> None:
    """Run seeds until standard input ends."""
    # Imported modules stay, so the collections after each run can skip them.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        job = json.loads(line)
        outcome = simulate(int(job["seed"]), without=job["without"])
        sys.stdout.write(base64.b64encode(pickle.dumps(outcome)).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
