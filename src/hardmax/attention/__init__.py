"""Hardmax attention for torch, and layers of batches of token sets, on CPU and GPU.
Importing this loads nothing.
"""
