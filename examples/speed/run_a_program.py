"""
A stack machine inside a transformer
====================================

Hard attention in the plane can look things up exactly: with the key :math:`(2a, -a^2)`
for address :math:`a` and the query :math:`(b, 1)`, the product :math:`2ab - a^2 = b^2 -
(a-b)^2` is largest at :math:`a = b`. One head is a memory. Here a causal transformer
with weights made by hand runs programs of a stack machine, one token for each step:

- attention: head 0 reads the instruction at the program counter, heads 1 to 3 the three
  numbers on top of the stack. Equal addresses tie, and the latest key wins:
  ``ties="latest"``;
- two feed-forward blocks, :math:`W_2 \\max(W_1 h + w, 0)`, compute the next program
  counter and what is written.

The keys are kept in a :class:`hardmax.HullCache`, so that a step takes the logarithm of
the number of steps so far.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

PUSH, ADD, ADD_BELOW, DUPLICATE, SWAP, JUMP_UNLESS_ZERO, HALT = range(7)

# %%
# A program that adds n, n - 1, ..., 1. ``ADD_BELOW`` adds the top to the number two
# below it.

N = 300
program = [
    (PUSH, 0),  # the sum
    (PUSH, N),  # the counter n
    (DUPLICATE, 0),  # 2, begin of the loop: sum, n, n
    (PUSH, -1), (ADD, 0), (SWAP, 0),  # sum, n - 1, n
    (ADD_BELOW, 0),  # sum + n, n - 1
    (DUPLICATE, 0), (JUMP_UNLESS_ZERO, 2),
    (HALT, 0),
]  # fmt: skip
opcodes = np.eye(7)[[opcode for opcode, _ in program]]  # one-hot
code_values = np.c_[opcodes, [argument for _, argument in program]]


def key(addresses: np.ndarray) -> np.ndarray:
    return np.c_[2.0 * addresses, -(addresses**2.0)]


def query(addresses: np.ndarray) -> np.ndarray:
    return np.c_[addresses, np.ones(len(addresses))]


# %%
# The first feed-forward block splits the jump into "taken" and "not taken". For
# integers max(a, 0) - max(a - 1, 0) + max(-a, 0) - max(-a - 1, 0) is 1 unless a = 0,
# and max(p + q - 1, 0) is "p and q".
#
# The second has, for each case and each output, a linear form of the numbers x =
# (argument, counter, size, a, b, c, 1), where a, b, c are the numbers on top of the
# stack. max(f + M (bit - 1), 0) - max(-f + M (bit - 1), 0) is f where the bit of the
# case is 1 and 0 elsewhere, for all forms with values up to M.

M = 1e6
CASES = ("push", "add", "add below", "duplicate", "swap", "jump", "go on")
argument, counter, size, top, second, third, one = np.eye(7)
nowhere = -9 * one  # for numbers that are never read
FORMS = np.array(
    # of the next counter and size, and of two writes: address, number, address, number
    [
        [counter + one, size + one, size, argument, nowhere, 0 * one],
        [counter + one, size - one, size - 2 * one, top + second, nowhere, 0 * one],
        [counter + one, size - one, size - 3 * one, top + third, nowhere, 0 * one],
        [counter + one, size + one, size, top, nowhere, 0 * one],
        [counter + one, size, size - one, second, size - 2 * one, top],
        [argument, size - one, nowhere, 0 * one, nowhere, 0 * one],
        [counter + one, size - one, nowhere, 0 * one, nowhere, 0 * one],
    ]
)  # fmt: skip  (cases, outputs, numbers)
W1 = np.concatenate([np.concatenate([sign * form, M * np.eye(7)[case]]) for case in range(7) for form in FORMS[case]
                     for sign in (1, -1)]).reshape(-1, 14)  # fmt: skip
W2 = np.tile(np.kron(np.eye(6), [1, -1]), 7)


def feed_forward(bits: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the next counter and size, and two writes, from the bits of the opcode and
    the numbers.
    """
    relu = partial(np.maximum, 0.0)
    is_zero = 1 - (
        np.array([1, -1, 1, -1])
        @ relu(np.outer([1, 1, -1, -1], numbers[3])[:, 0] - [0, 1, 0, 1])
    )
    jump = relu(bits[JUMP_UNLESS_ZERO] + np.array([-is_zero, is_zero - 1]))
    return W2 @ relu(W1 @ np.concatenate([numbers, bits[:5], jump]) - M)


# %%
# The run. The first tokens are the program, the keys of head 0; then each token is a
# step, whose two writes are appended to the memory of the stack.

code, stack = hm.HullCache(ties="latest"), hm.HullCache(ties="latest")
code.append(key(np.arange(len(program))), code_values)
stack.append(key(np.arange(-3, 0)), np.zeros((3, 1)))  # below the stack

state, trace = np.zeros(2), []  # program counter and size of the stack
while True:
    bits, argument = np.split(code.query(query(state[:1]))[0], [7])
    if bits[HALT]:
        break
    numbers = np.concatenate(
        [argument, state, stack.query(query(state[1] - [1, 2, 3]))[:, 0], [1.0]]
    )
    trace.append([*state, stack.query(query(np.zeros(1)))[0, 0]])
    out = feed_forward(bits, numbers)
    state, written = out[:2], out[2:].reshape(2, 2)
    stack.append(key(written[:, 0]), written[:, 1:])
result = int(stack.query(query(np.zeros(1)))[0, 0])
print(f"{len(trace):,} steps, {len(stack):,} keys; the sum of 1 to {N} is {result:,}")
assert result == N * (N + 1) // 2

# %%
# Left: the program counter and the size of the stack in the first steps. Right: the
# number at the bottom of the stack, the sum. All of them are read by attention.

counters, sizes, sums = np.array(trace).T
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
left.step(np.arange(40), counters[:40], where="post", label="program counter")
left.step(np.arange(40), sizes[:40], where="post", label="size of the stack")
left.set(xlabel="step", xlim=(0, 39))
left.legend(loc="lower right", fontsize=8)
right.plot(sums)
right.set(xlabel="step", ylabel="number at the bottom of the stack")
figure.tight_layout()

# %%
# What to try
# -----------
# Write another program: a loop that multiplies by repeated addition, or a counter that
# runs down. The stack is a cache of keys, so its size does not change the cost of a
# step.
