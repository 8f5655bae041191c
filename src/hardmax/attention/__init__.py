"""Hardmax attention for torch, and many layers of many clouds, on CPU and GPU. Importing this loads nothing."""
