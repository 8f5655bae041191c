"""Continuous time: integration, coordinates, and what the spectrum of the value matrix lets one expect."""
