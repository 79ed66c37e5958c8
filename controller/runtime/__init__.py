"""The process around the controller: command line, logs, signals, probes, leadership."""
