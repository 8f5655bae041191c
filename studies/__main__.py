"""`python -m studies NAME --out runs/NAME`: run or resume a study of the dynamics,
write its table, figure and page.

Without --out the recorded table is drawn again. The studies of the classifier, paper,
ablations, small and explanations, write --out as JSON.
"""

import argparse
from pathlib import Path

import pandas as pd

from hardmax._display import progress_bar
from hardmax._files import save_text
from studies import (
    causal,
    classifier,
    endings,
    flow_heads,
    heads,
    leaders,
    robustness,
    spectrum,
    sphere,
    temperature,
)
from studies.study import Study

MODULES = (
    leaders,
    causal,
    endings,
    heads,
    robustness,
    spectrum,
    flow_heads,
    temperature,
    sphere,
)
STUDIES = {module.STUDY.name: module.STUDY for module in MODULES}
CLASSIFIER = ("paper", "ablations", "small")


def filled(page: str, study: Study, table: pd.DataFrame) -> str:
    """A page with the facts of a table between the mark of its study and the next empty
    line but one.
    """
    before, _, after = page.partition(study.mark)
    _, _, rest = after.partition("\n<!-- end -->")
    lines = "\n".join(f"- {fact}" for fact in study.facts(table))
    return f"{before}{study.mark}\n\n{lines}\n\n<!-- end -->{rest}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument("study", choices=[*STUDIES, *CLASSIFIER, "explanations"])
    parser.add_argument(
        "--out",
        type=Path,
        help="Folder for the rows; of the classifier's studies a JSON file.",
    )
    parser.add_argument(
        "--engine", default="local", help="Address of a Dask scheduler."
    )
    texts = parser.add_argument_group("studies of the classifier")
    texts.add_argument(
        "--data-source",
        help="Archive or folder of the IMDb reviews; without it they are downloaded.",
    )
    texts.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ROW",
        help="Train this row only; repeatable.",
    )
    texts.add_argument(
        "--seed", type=int, default=0, help="Seed of the split and of training."
    )
    texts.add_argument("--device", default="auto", help="cpu, cuda or auto.")
    texts.add_argument(
        "--model", default="imdb", help="Model whose explanations are compared."
    )
    texts.add_argument(
        "--count", type=int, default=200, help="Number of explained texts."
    )
    texts.add_argument(
        "--method", action="append", default=[], help="Compare this method; repeatable."
    )
    texts.add_argument(
        "--rationales", type=Path, help="Parquet file of words that people marked."
    )
    given = parser.parse_args(arguments)
    if given.study not in STUDIES and given.out is None:
        parser.error("--out must be given: a JSON file for the rows.")
    if given.study == "explanations":
        options = {
            "count": given.count,
            "methods": given.method,
            "rationales": given.rationales,
        }
        classifier.explain(
            given.out, source=given.data_source, model=given.model, **options
        )
        return
    if given.study in CLASSIFIER:
        options = {"only": given.only, "seed": given.seed, "device": given.device}
        classifier.run(given.study, given.out, source=given.data_source, **options)
        return
    study = STUDIES[given.study]
    if given.out is not None:
        with progress_bar("Cells") as progress:
            table = study.run(given.out, engine=given.engine, progress=progress)
        table.to_csv(study.table, index=False)
    table = pd.read_csv(study.table)
    study.draw(table).savefig(study.picture, dpi=150)
    save_text(filled(study.page.read_text(encoding="utf-8"), study, table), study.page)


if __name__ == "__main__":
    main()
