"""Admission: the rules of a cluster's owner, which change or refuse objects that are created.

`chain` applies the rules in the order of a real API server. The other modules are kinds of rules, each with
the wording and the codes of the component that it stands for.
"""
