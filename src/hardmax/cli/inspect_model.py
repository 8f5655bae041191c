"""`hardmax inspect-model`."""

import json as json_format
from dataclasses import asdict
from typing import Annotated

import typer

from hardmax.cli import options, output, texts


def inspect_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder of hardmax train, or imdb, or imdb-2d.")],
    json: options.Json = False,
) -> None:
    """Say what a model is: what it answers, what it was trained on, its scores and its limits."""
    from hardmax.text.card import model_card

    classifier = texts.load(model)
    record = classifier.training_
    if json:
        known = {"classes": classifier.classes_.tolist(), "tokens": len(classifier.model_.vocabulary)}
        known |= {"params": classifier.get_params(), "history": [asdict(epoch) for epoch in classifier.history_]}
        known["training"] = None if record is None else asdict(record)
        print(json_format.dumps(known, ensure_ascii=False, default=str))
        return
    output.say(model_card(classifier.model_, classifier.history_, record).rstrip())
