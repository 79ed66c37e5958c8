"""`python -m simulation`."""

from simulation.run.cli import main

main()
