"""`python -m simulation.demo`."""

import sys

from simulation.demo.cli import run

sys.exit(run(sys.argv[1:], program="python -m simulation.demo"))
