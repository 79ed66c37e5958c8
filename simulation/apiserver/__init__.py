"""An in-memory API server: `server` implements the verbs, `client` the client port of a controller.

All objects, events and responses are JSON documents. The client decodes them with the code that decodes a
real server's responses.
"""
