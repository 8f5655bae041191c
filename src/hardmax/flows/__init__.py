"""Continuous time: integration, coordinates, and the limit that the spectrum of the
value matrix implies.
"""
