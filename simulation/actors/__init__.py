"""The components that share a cluster with the controller, each with only its visible behavior.

An actor receives every change, acts after a delay (`simulation.engine.event_queue`), and writes through the
server's verbs in one step. So an actor never gets a conflict, but it can cause conflicts for others.
"""
