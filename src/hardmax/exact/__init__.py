"""Argmax sets in exact arithmetic, the layers of the dynamics, and proofs of their
limits.
"""
