"""The web app: a playground for tokens, and an explorer for reviews. `hardmax app` serves it.

Stores hold state and call the library; views draw; `app.py` assembles. Callbacks and JavaScript hold no mathematics.
"""
