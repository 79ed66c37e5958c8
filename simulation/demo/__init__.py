"""The controller at work, told as a story that a person can watch: `open-rl-scheduler demo`.

`mix` decides who is submitted, `view` turns API objects into what is shown, `history` and `handoff`
measure, `summary` puts it into words: all of them pure. `story` plays the acts against an API server,
`screen` draws, `performance` plays a story until it ends or is interrupted. What it is played on is a
`stage`: `embedded` is a cluster in this process, `e2e.demo` a real control plane. `cli` is the edge of the
process.
"""
