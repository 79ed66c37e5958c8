"""Shared parts of the command lines of the simulation, the demo, the benchmarks and the test tools.

`values` has number types for options and refuses repeated options. `exit_status` turns an error into one line
and an exit status. The program's own command line is `controller.runtime.cli`; both report an invalid value
as `<option>: <value> is not allowed: <what is allowed>`.
"""
