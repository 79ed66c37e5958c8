"""Scripted, periodic and external faults, and the scenarios of runs."""
