"""The components that share a cluster with the controller, each as small as its visible behaviour allows.

They see every change, act after a delay through `simulation.engine.event_queue`, and write through the
server's verbs in one step: they never meet a conflict, and never hide one from others.
"""
