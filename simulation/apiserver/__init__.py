"""An API server in memory: `server` holds its verbs, `client` the port that a controller speaks to it.

Everything that is stored, sent and answered is JSON documents, decoded on the client's side by the code that
decodes a real server's answers.
"""
