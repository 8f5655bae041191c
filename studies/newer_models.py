"""`python -m studies.newer_models NAME`: print figures that docs/newer-models.md
quotes.

capture   share of tokens that Renyi centres have captured at time beta
probe     accuracy of a linear probe on MiniLM's sentence vectors, with hardmax in
          chosen layers
"""

import argparse

import numpy as np

import hardmax as hm
from hardmax._types import AnyArray
from hardmax.text.datasets import load_imdb
from hardmax.transformers.inspection import run_model
from hardmax.transformers.loading import load, tokenize
from studies.small_files import Kind, drawn, pool


def capture(runs: int = 20) -> None:
    """Print how many tokens of causal flows on the circle are near a Renyi centre at
    time beta, over beta.

    A token is captured within 2 beta^{-1/2} of the start of a centre. arXiv 2411.04990
    states capture for a time of order beta.
    """
    for beta in (25, 100, 400):
        radius = 2 / beta**0.5
        angles = []
        for seed in range(runs):
            tokens = hm.configuration("sphere", n=40, d=2, seed=seed)
            rule = hm.Sphere(beta, causal=True)
            run = hm.simulate(tokens, rule, times=[beta], rtol=1e-6)
            centres = tokens[hm.renyi_centres(tokens, radius)]
            cosines = np.clip(run.array[-1] @ centres.T, -1, 1)
            angles.append(np.arccos(cosines).min(axis=1))
        shares = np.array(angles) / radius  # (runs, n)
        print(
            f"beta = {beta}: {(shares <= 1).mean():.1%} of the tokens in {runs} runs"
            f" are captured; the farthest is at {shares.max():.2f} of the radius"
        )


def probe(source: str | None, count: int, model: str = "minilm") -> None:
    """Print the accuracy on test sentences of logistic regression on the mean of the
    last hidden states.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kind, reviews = (
        Kind("sentences", 2, uneven=False),
        load_imdb(source=source, ratings=True),
    )
    texts = [
        drawn(pool(reviews[s], kind), kind, count, np.random.default_rng(k))
        for k, s in enumerate(reviews)
    ]
    _, network, tokenizer = load(model)
    network = network.float()  # twice as fast
    n_layers, heads = (
        network.config.num_hidden_layers,
        network.config.num_attention_heads,
    )
    ids = [tokenize(sentences, network, tokenizer) for sentences, _ in texts]
    chosen: dict[str, list[int]] = {
        "softmax": [],
        **{f"hard layer {k}": [k] for k in range(1, n_layers + 1)},
    }
    chosen |= {"all layers hard": list(range(1, n_layers + 1))}
    wrong_of: dict[str, AnyArray] = {}
    for name, layers in chosen.items():
        hard = {(k, head) for k in layers for head in range(heads)}
        x, test = (
            np.array(
                [run_model(network, one, hard)[1][-1].mean(axis=0) for one in part]
            )
            for part in ids
        )
        regression = make_pipeline(
            StandardScaler(), LogisticRegression(C=0.01, max_iter=1000)
        ).fit(x, texts[0][1])
        wrong = wrong_of[name] = regression.predict(test) != texts[1][1]
        differ = wrong.astype(int) - wrong_of["softmax"]
        error = (
            differ.std() / len(differ) ** 0.5
        )  # of the difference on the same sentences
        print(
            f"{name}: {1 - wrong.mean():.3f}, {-differ.mean():+.3f} ± {error:.3f} to"
            " softmax",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.newer_models", description=__doc__
    )
    parser.add_argument("study", choices=["capture", "probe"])
    parser.add_argument(
        "--data-source",
        help="Archive or folder of the IMDb reviews; without it they are downloaded.",
    )
    parser.add_argument(
        "--count", type=int, default=1000, help="Sentences to train on, and to measure."
    )
    given = parser.parse_args(arguments)
    if given.study == "capture":
        capture()
    else:
        probe(given.data_source, given.count)


if __name__ == "__main__":
    main()
