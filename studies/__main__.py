"""`python -m studies NAME --out runs/NAME`: run a study, or go on with it; keep its table, draw it, and fill its page.

Without --out the table that is kept is drawn and its page filled again.
"""

import argparse
from pathlib import Path

import pandas as pd

from hardmax._display import progress_bar
from hardmax._files import save_text
from studies import endings, heads, leaders, sphere, temperature
from studies.study import Study

STUDIES = {module.STUDY.name: module.STUDY for module in (leaders, endings, heads, temperature, sphere)}


def filled(page: str, study: Study, table: pd.DataFrame) -> str:
    """A page with the facts of a table between the mark of its study and the next empty line but one."""
    before, _, after = page.partition(study.mark)
    _, _, rest = after.partition("\n<!-- end -->")
    lines = "\n".join(f"- {fact}" for fact in study.facts(table))
    return f"{before}{study.mark}\n\n{lines}\n\n<!-- end -->{rest}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--out", type=Path, help="Folder for the rows, or with some of them.")
    parser.add_argument("--engine", default="local", help="Address of a Dask scheduler.")
    given = parser.parse_args(arguments)
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
