"""Tests of the driver in `e2e.controlplane`, which is a tool of the checkout and no installed package."""

import sys
from pathlib import Path

CHECKOUT = str(Path(__file__).parents[2])
if CHECKOUT not in sys.path:
    sys.path.append(CHECKOUT)
