"""Inputs with exact answers, and the definition to compare with.

oracle.py  the triple loop of the definition in Fractions
clouds.py  seeded clouds of every kind
theory.py  small examples whose answers are known in closed form
"""
