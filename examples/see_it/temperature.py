"""
Softmax tends to hardmax as the temperature falls, at the rate that the gap allows
==================================================================================

Softmax tends to hardmax as the temperature falls, at the rate that the gap allows.

A layer differs from the hardmax layer by a constant times exp(-gap / temperature), where gap is the smallest lead of a
chosen token over one that is not. The last column is the slope of log(difference) against 1/temperature.
"""

import numpy as np

import hardmax as hm

tokens = hm.configuration("gaussian", n=40, d=3, seed=1)
products = np.sort(tokens @ tokens.T, axis=1)
gap = (products[:, -1] - products[:, -2]).min()
target = hm.simulate(tokens, hm.Hardmax(0.5), layers=1).array[1]

print(f"smallest lead: {gap:.4f}")
inverse, logs = [], []
for temperature in gap / np.array([2, 4, 8, 16, 24]):
    moved = hm.simulate(tokens, hm.Softmax(0.5, temperature=temperature), layers=1).array[1]
    inverse.append(1 / temperature)
    logs.append(np.log(np.abs(moved - target).max()))
    slope = np.diff(logs[-2:]) / np.diff(inverse[-2:]) if len(logs) > 1 else [np.nan]
    print(f"temperature {temperature:.5f}   difference {np.exp(logs[-1]):.2e}   slope {slope[0]:.4f}")
assert abs(slope[0] + gap) < 0.05 * gap
