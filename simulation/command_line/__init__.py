"""What the command lines of the simulation, the demo, the benchmarks and the test tools have in common.

`values` are the numbers that an option can take, `once` refuses an option that is said twice, `ending` turns
what went wrong into one line and an exit status. The program's own command line is `controller.runtime.cli`.
Its lines for a value that is not allowed are built alike (the option, the value, what is allowed); what is
read as a number, and what is quoted, are each one's own.
"""
