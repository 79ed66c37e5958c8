"""Everything that goes wrong in a run: scripted, periodic and external faults, and their scenarios."""
