"""Inputs with exact answers, and the definitions to compare with.

oracle.py          the triple loop of the definition in Fractions
token_sets.py      seeded token sets of every kind
theory.py          small examples whose answers are known in closed form
softmax.py         softmax layers by loops
self_attention.py  self-attention in time by loops and by SciPy
requests.py        requests for an A that can be met
"""
