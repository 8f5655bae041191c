"""Questions that the papers leave open, put to a hundred thousand runs each; see
docs/studies.
"""
