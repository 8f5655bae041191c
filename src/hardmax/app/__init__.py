"""The web app: a playground for tokens and an explorer for texts. `hardmax app` serves
it.

`api.py` answers requests as plain functions; `server.py` serves them over HTTP,
`notebook.py` in notebooks. The modules in `viewer/` draw and edit, and contain no
mathematics.
"""
