"""
What goes wrong when a hypothesis or the code is broken, and how it looks
=========================================================================

What goes wrong when a hypothesis or the code is broken, and how it looks.

Published advice lists three signatures. Each is tried here, and two of its guesses turn out not to be causes.
"""

import numpy as np

import hardmax as hm

rng = np.random.default_rng(0)
cloud = rng.normal(size=(40, 2))

print("1. No leaders emerge: tokens that are not distinct?")
trajectory = hm.simulate(np.tile(cloud, (2, 1)), hm.Hardmax(0.5), layers=20)
alone = [i for i, members in enumerate(trajectory.sets(0)) if members.tolist() == [i]]
print(f"   Every token twice: by the letter of the definition, C_i = {{i}} holds for {len(alone)} of 80 tokens.")
print(f"   With equal tokens as one class: {trajectory.status}")
print(f"   Verdict: {hm.theorems.check(trajectory)[3]}")
assert not alone
assert len(trajectory.leaders) == len(hm.simulate(cloud, hm.Hardmax(0.5), layers=20).leaders)

print(
    "   Or a wrong normalisation? Scaling all tokens changes no set, so leaders emerge; they only fail to stand still."
)
wrong = [cloud]
for _ in range(5):  # divides by 1 + 2 alpha instead of 1 + alpha
    sets = hm.simulate(wrong[-1], hm.Hardmax(0.5), layers=0)
    wrong.append((wrong[-1] + 0.5 * sets.attention(0) @ wrong[-1]) / 2)
leader = int(hm.simulate(cloud, hm.Hardmax(0.5), layers=0).leaders[0])
print(f"   Leader {leader} then moves from {wrong[0][leader].round(3)} to {wrong[-1][leader].round(3)} in five layers.")

print("2. Tokens do not converge: alpha too large?")
for alpha in (0.01, 1, 100, 1e6):
    print(f"   alpha = {alpha:g}: {hm.limit(cloud, hm.Hardmax(alpha))}")
    assert hm.limit(cloud, hm.Hardmax(alpha)).certified
print("   Never: b = alpha/(1 + alpha) stays below 1. An A that is not positive definite is another matter:")
for name, A in (("-I", -np.eye(2)), ("I + 3 skew", np.array([[1.0, 3.0], [-3.0, 1.0]]))):
    limit = hm.limit(cloud, hm.Hardmax(0.5, A, any_A=True), max_layers=200)
    kind = "consensus" if len(limit.points) == 1 else f"{len(limit.points)} points"
    print(f"   A = {name}: {kind}. {limit}")

print("3. Clustering is unstable: softmax instead of hardmax?")
tokens = cloud
for _ in range(60):
    scores = 4 * tokens @ tokens.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    tokens = tokens + (weights @ tokens - tokens) / 3
hard = hm.simulate(cloud, hm.Hardmax(0.5), layers=60)
drift = np.abs(tokens[hard.leaders] - cloud[hard.leaders]).max()
print(f"   With softmax the leaders drift by up to {drift:.2g}; with hardmax by 0. No weight is ever 0.")
assert drift > 0.01
