"""Hardmax exactly: one cloud on its way through the layers, its arithmetics, certificates, and the limit set."""
