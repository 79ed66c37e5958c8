"""`python -m e2e.controlplane`: see `cli`."""

from e2e.controlplane.cli import main

main()
