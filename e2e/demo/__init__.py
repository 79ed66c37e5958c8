"""`make demo`: the controller at work on a real control plane, told as a story that a person can watch.

`mix` decides who is submitted, `picture` turns API objects into what is shown, `history` and `handoff`
measure, `summary` puts it into words: all of them pure. `story` plays the acts against the API server,
`stage` sets up what it needs and takes it down again, `screen` draws, `cli` is the edge of the process.
"""
