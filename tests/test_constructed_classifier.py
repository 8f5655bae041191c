"""The constructed classifier: every given sequence, exactly, against the labels and
plain Python.
"""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm


def draw(seed: int):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 9)), int(rng.integers(2, 4))
    chosen = {}
    for _ in range(n):
        tokens = rng.integers(-3, 4, (int(rng.integers(1, 5)), d)) / (
            1 if seed % 2 else 2
        )
        chosen.setdefault(frozenset(map(tuple, tokens.tolist())), tokens)
    sequences = list(chosen.values())
    return sequences, [str(label) for label in rng.integers(0, 3, len(sequences))]


@pytest.mark.parametrize("seed", range(60))
def test_every_sequence_gets_its_label(seed: int) -> None:
    sequences, labels = draw(seed)
    model = hm.construct_classifier(sequences, labels)
    assert model.predict(sequences) == labels
    assert (
        model.predict([np.vstack([x[::-1], x[:1]]) for x in sequences]) == labels
    )  # order and copies do not count
    n = len(sequences)
    assert model.counts["rounds"] == n - 1
    assert len(model.blocks) == 1 + 2 * (n - 1) + -(-(n + 1) // 4)
    assert len(model.blocks) <= max(2, model.counts["paper_blocks"])
    for block in model.blocks[1:]:
        assert len(block.b) <= 4
        for row in block.W2.T:  # rank-one: one coordinate is written
            assert (row != 0).sum() <= 1


def test_codes_after_each_round_are_integers_and_split() -> None:
    sequences, labels = draw(7)
    model = hm.construct_classifier(sequences, labels)
    runs = [model.run(x) for x in sequences]
    for r in range(model.counts["rounds"] + 1):
        codes = [run[1 + 2 * r][:, 1].tolist() for run in runs]
        assert all(len(set(own)) == 1 for own in codes)
        assert sorted({own[0] for own in codes}) == list(range(r + 1))
    final = [run[-1][:, 0].tolist() for run in runs]
    names = list(dict.fromkeys(labels))
    assert final == [
        [names.index(y)] * len(x) for x, y in zip(sequences, labels, strict=True)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_simulate_classifies_every_sequence_in_rational_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = [(int(rng.integers(1, 5)), 2) for _ in range(12)]
    drawn = [
        rng.integers(-3, 4, shape) / 3 if seed % 2 else rng.normal(size=shape)
        for shape in shapes
    ]
    sequences = list({frozenset(map(tuple, x.tolist())): x for x in drawn}.values())
    labels = rng.integers(0, 3, len(sequences)).tolist()
    model = hm.construct_classifier(sequences, labels)
    assert (
        model.counts["largest"] < 1e6
    )  # a projection that separates by rounding alone has 1e16
    for x, label in zip(sequences, labels, strict=True):
        fractions = [[Fraction(a) for a in row] for row in x.tolist()]
        for given in (x, fractions):
            run = hm.simulate(given, model, layers=len(model.blocks))
            np.testing.assert_array_equal(run.array, np.array(model.run(x), float))
        assert (run.array[-1, :, 0] == model.labels.index(label)).all()


def test_batches_tensors_and_compositions_of_blocks_are_exact() -> None:
    torch = pytest.importorskip("torch")
    sequences, labels = draw(3)
    model = hm.construct_classifier(sequences, labels)
    n = len(model.blocks)
    batch = np.full(
        (len(sequences), max(map(len, sequences)), sequences[0].shape[1]), np.nan
    )
    for row, x in zip(batch, sequences, strict=True):
        row[: len(x)] = x
    mask = ~np.isnan(batch[..., 0])
    run = hm.simulate(torch.tensor(batch), model, layers=n, mask=mask).tokens.numpy()
    whole = hm.Compose(model.blocks)
    for b, x in enumerate(sequences):
        np.testing.assert_array_equal(run[:, b, mask[b]], np.array(model.run(x), float))
        np.testing.assert_array_equal(
            hm.simulate(x, whole, layers=1).array[-1], run[-1, b, mask[b]]
        )
    mixed = hm.simulate(
        sequences[0], hm.Compose([model.blocks[0], hm.Normalize("rms")]), layers=1
    )
    np.testing.assert_allclose((mixed.array[-1] ** 2).mean(axis=1), 1)


def test_attention_is_that_of_rank_one_matrices() -> None:
    sequences, labels = draw(3)
    model = hm.construct_classifier(sequences, labels)
    first = model.blocks[2]
    assert first.attends_here
    tokens = np.array(model.run(sequences[0])[2], float)
    scores = np.outer(tokens[:, 0], tokens[:, 1])  # ⟨B z_i, z_j⟩ with B = e_2 e_1^T
    best = scores == scores.max(axis=1, keepdims=True)
    np.testing.assert_array_equal(
        first.attention(tokens, 0), best / best.sum(axis=1, keepdims=True)
    )


def test_fractions_and_one_sequence() -> None:
    third = Fraction(1, 3)
    model = hm.construct_classifier(
        [[[third, 0]], [[third + Fraction(1, 10**30), 0]]], [True, False]
    )
    assert model.predict([[[third, 0]], [[third + Fraction(1, 10**30), 0]]]) == [
        True,
        False,
    ]
    assert hm.construct_classifier([[[1, 2]]], ["only"]).predict(
        [[[1, 2]], [[5, 5]]]
    ) == ["only", "only"]
