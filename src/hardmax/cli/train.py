"""`hardmax train`."""

import json as json_format
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax._errors import ParameterError
from hardmax.cli import options, output, texts

if TYPE_CHECKING:
    from hardmax.sentiment.classifier import HardmaxClassifier
    from hardmax.sentiment.tables import Table

CHECKPOINT = "checkpoint"


def _option(panel: str, flag: str, about: str, *other: str) -> Any:
    return typer.Option(flag, *other, help=about, rich_help_panel=panel)


# Names of parameters are those of HardmaxClassifier, so that what is given can be passed on as it is.
MODEL, WORDS, TRAINING = "Model", "Words", "Training"
Paper = Annotated[bool, _option(MODEL, "--paper", "Start from the model of arXiv 2407.01602: 1 head, 8 layers.")]
Heads = Annotated[int, _option(MODEL, "--heads", "Independent models whose logits add.")]
D = Annotated[int, _option(MODEL, "--d", "Coordinates of a head; 2 can be drawn.")]
Layers = Annotated[int, _option(MODEL, "--layers", "How often tokens move.")]
Groups = Annotated[int, _option(MODEL, "--groups", "Deal heads out to so many groups, each trained by itself.")]
Alpha = Annotated[float, _option(MODEL, "--alpha", "The step size that training starts from.")]
TrainedA = Annotated[
    bool, _option(MODEL, "--trained-a", "Learn A of each head; with --training softmax.", "--trained-A")
]
Scale = Annotated[float, _option(MODEL, "--scale", "How large the embedding is at the start.")]
Longest = Annotated[int, _option(WORDS, "--longest", "Longest run of words that is a token: 1 for words alone.")]
Distinct = Annotated[
    bool, _option(WORDS, "--distinct/--all-occurrences", "Whether a repeated token of a text counts once.")
]
MinTexts = Annotated[int, _option(WORDS, "--min-texts", "Learn tokens that occur in so many texts.")]
MaxTokens = Annotated[int | None, _option(WORDS, "--max-tokens", "Learn so many tokens at the most.")]
Select = Annotated[str, _option(WORDS, "--select", "Which ones: telling or frequent.")]
MaxWords = Annotated[int | None, _option(WORDS, "--max-words", "Read so many words of each text.")]
Punctuation = Annotated[bool, _option(WORDS, "--punctuation/--no-punctuation", "Whether signs such as ! are words.")]
StopWords = Annotated[str | None, _option(WORDS, "--stop-words", '"english" leaves out its function words.')]
Lemmas = Annotated[str | None, _option(WORDS, "--lemmas", "Language whose words become lemmas, such as en.")]
Attention = Annotated[str, _option(TRAINING, "--training", "What is differentiated: hardmax or softmax.")]
Temperature = Annotated[float, _option(TRAINING, "--temperature", "Of --training softmax.")]
Epochs = Annotated[int | None, _option(TRAINING, "--epochs", "Passes over the texts: 5, or more for few texts.")]
BatchSize = Annotated[int, _option(TRAINING, "--batch-size", "Texts in a step.")]
LearningRate = Annotated[float, _option(TRAINING, "--learning-rate", "The largest one of the cycle.")]
AlphaRate = Annotated[float, _option(TRAINING, "--alpha-rate", "The same for the step sizes of heads.")]
WeightDecay = Annotated[float, _option(TRAINING, "--weight-decay", "Of the embedding, as in AdamW.")]
Dropout = Annotated[float, _option(TRAINING, "--dropout", "Part of a text's tokens that a group does not see.")]
NoEmbedding = Annotated[float, _option(TRAINING, "--embedding-dropout", "Part of the embedding that is set to 0.")]
Smoothing = Annotated[float, _option(TRAINING, "--label-smoothing", "How far labels move towards each other.")]
Validation = Annotated[float, _option(TRAINING, "--validation", "Part of the texts held back to choose by.")]
Patience = Annotated[int | None, _option(TRAINING, "--patience", "Stop after so many epochs without a better one.")]
Balanced = Annotated[bool, _option(TRAINING, "--balanced", "Let rare classes weigh as much as frequent ones.")]
Seed = Annotated[int, _option(TRAINING, "--seed", "The same seed gives the same model.")]
Device = Annotated[str, _option(TRAINING, "--device", "cpu, cuda, or auto for a GPU where there is one.")]
Resume = Annotated[bool, _option(TRAINING, "--resume", "Go on with the unfinished run in --out.")]


def train(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for the model.", show_default=False)],
    path: texts.File = None,
    text: texts.TextColumn = None,
    label: texts.LabelColumn = None,
    data: texts.Data = None,
    source: texts.DataSource = None,
    encoding: texts.Encoding = "utf-8",
    paper: Paper = False,
    heads: Heads = 32,
    d: D = 2,
    layers: Layers = 2,
    groups: Groups = 4,
    alpha: Alpha = 1.0,
    trained_A: TrainedA = False,
    scale: Scale = 6.4,
    longest: Longest = 3,
    distinct: Distinct = True,
    min_texts: MinTexts = 3,
    max_tokens: MaxTokens = 100_000,
    select: Select = "telling",
    max_words: MaxWords = None,
    punctuation: Punctuation = True,
    stop_words: StopWords = None,
    lemmas: Lemmas = None,
    training: Attention = "hardmax",
    temperature: Temperature = 1e-3,
    epochs: Epochs = None,
    batch_size: BatchSize = 64,
    learning_rate: LearningRate = 0.3,
    alpha_rate: AlphaRate = 0.01,
    weight_decay: WeightDecay = 0.05,
    dropout: Dropout = 0.5,
    embedding_dropout: NoEmbedding = 0.0,
    label_smoothing: Smoothing = 0.0,
    validation: Validation = 0.1,
    patience: Patience = None,
    balanced: Balanced = False,
    random_state: Seed = 0,
    device: Device = "auto",
    resume: Resume = False,
    compact: Annotated[bool, typer.Option("--compact", help="Round the embedding to a byte a number.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print notes and errors alone.")] = False,
    json: options.Json = False,
) -> None:
    """Train a text classifier on FILE, or on --data imdb, and save it in a folder.

    A run that is killed goes on with --resume, and ends with the same model. Several processes train together under
    torchrun --nproc-per-node 2 -m hardmax.cli.main train ...
    """
    if out.exists() and not out.is_dir():
        raise ParameterError("out", "be a folder", f"a file, {str(out)!r}", "Choose another name.")
    from hardmax.sentiment.tables import check_labels

    configured(context, checkpoint=out / CHECKPOINT).check_params()  # before anything is read or downloaded
    table = texts.read_labelled(context, "train")
    counts = check_labels(table.labels or [])
    from hardmax.sentiment.distributed import together

    with together(device) as team:
        classifier = configured(context, checkpoint=out / CHECKPOINT, verbose=team.leads and not quiet)
        if team.leads:
            _notes(table, counts, context.params)
        if team.leads and not (quiet or json):
            output.say(_what_was_read(table, counts, texts.source_name(context.params)))
        classifier.fit(table.texts, table.labels or [])
        if team.leads:
            save(classifier, out, compact=compact)
            _report(summary(classifier, table, counts, out), quiet=quiet, json=json)


def configured(context: typer.Context, **more: Any) -> "HardmaxClassifier":
    """The classifier that the options describe; what is not given stays as it is there, or as in the paper."""
    from hardmax import HardmaxClassifier

    known, chosen = HardmaxClassifier().get_params(), dict(more)
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        if name in known and source is not None and source.name == "COMMANDLINE":
            chosen[name] = value
    if context.params["balanced"]:
        chosen["class_weight"] = "balanced"
    classifier: HardmaxClassifier = (HardmaxClassifier.paper if context.params["paper"] else HardmaxClassifier)(
        **chosen
    )
    return classifier


def _notes(table: "Table", counts: dict[str, int], given: dict[str, Any]) -> None:
    """What is unusual about the rows, the classes, or the folder."""
    from hardmax.sentiment.tables import imbalance_note

    uneven = imbalance_note(counts)
    advice = "" if given["balanced"] or not uneven else " Pass --balanced to let rare classes weigh as much."
    unfinished, run = Path(given["out"], CHECKPOINT).exists(), ""  # older versions of Typer have text there
    if unfinished and not given["resume"]:
        run = f"{given['out']} holds an unfinished run. Starting anew; to go on with it, stop and pass --resume."
    if given["resume"] and not unfinished:
        run = f"{given['out']} holds no unfinished run. Starting at the beginning."
    for sentence in filter(None, (table.note, uneven + advice, run)):
        output.note(sentence)


def _what_was_read(table: "Table", counts: dict[str, int], name: str) -> str:
    listed = [f"{label} {count:,}" for label, count in counts.items()]
    more = f" and {len(listed) - output.MOST_ROWS} more" if len(listed) > output.MOST_ROWS else ""
    return (
        f"Read {len(table.texts):,} rows of {name}, texts from column {table.text_column}, labels from column "
        f"{table.label_column}: {', '.join(listed[: output.MOST_ROWS])}{more}."
    )


def save(classifier: "HardmaxClassifier", out: Path, *, compact: bool = False) -> None:
    """Write the model, and only then forget the checkpoint and what a kill may have left of one."""
    classifier.save(out, compact=compact)
    for path in (out / CHECKPOINT, *out.glob(f".{CHECKPOINT}-*")):
        path.unlink(missing_ok=True)


def summary(classifier: "HardmaxClassifier", table: "Table", counts: dict[str, int], out: Path) -> dict[str, Any]:
    """What is to be said of a finished run."""
    kept = next(epoch for epoch in classifier.history_ if epoch.kept)
    return {
        "model": str(out),
        "rows": len(table.texts),
        "skipped": table.skipped,
        "classes": counts,
        "epochs": classifier.n_iter_,
        "kept_epoch": kept.number + 1,
        "validation_accuracy": kept.accuracy,
        "vocabulary": len(classifier.model_.vocabulary),
    }


def _report(done: dict[str, Any], *, quiet: bool, json: bool) -> None:
    if json:
        print(json_format.dumps(done, ensure_ascii=False))
    if json or quiet:
        return
    accuracy = done["validation_accuracy"]
    kept = f"Validation accuracy {accuracy:.3f} in epoch {done['kept_epoch']}, which is kept." if accuracy else ""
    epochs = f"{done['epochs']} epoch{'s' if done['epochs'] > 1 else ''}"
    output.say(f"Trained {epochs}. {kept or 'Nothing was held back to validate with.'}")
    output.say(f"The vocabulary has {done['vocabulary']:,} tokens. The model is in {done['model']}.")
    output.say(f'Next: hardmax explain "a text" --model {shlex.quote(done["model"])}')
