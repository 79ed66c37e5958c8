"""What the command lines of the simulation, the demo, the benchmarks and the test tools have in common.

`values` are the numbers that an option can take, `once` refuses an option that is said twice, `ending` turns
what went wrong into one line and an exit status. The program's own command line is `controller.cli`: these
say a value that is not allowed in the same words.
"""
