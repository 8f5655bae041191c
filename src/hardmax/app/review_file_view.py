"""A file of texts: chosen by the visitor, answered row by row, opened and downloaded."""

from collections.abc import Callable
from io import StringIO

import pandas
import panel as pn
from bokeh.models.widgets.tables import NumberFormatter

from hardmax.app.dropper import dropper
from hardmax.app.review_accounts import named
from hardmax.app.review_files import HEAD, MOST_BYTES, MOST_ROWS, TAKEN, Answers
from hardmax.app.review_html import CSS, paragraph

ABOUT = (
    f"A table with a text in each row ({', '.join(TAKEN)}), at most {MOST_ROWS:,} rows and {MOST_BYTES // 10**6} MB. "
    "It is read on the machine that serves this page, and not kept. Texts that were exported here (.json) open again."
)
EXCERPT = 300  # characters of a text in the table
PAGE = 12  # rows
FILTERS = {"probability": {"type": "number", "func": ">=", "placeholder": "at least, 0 to 1"}}


class FileView:
    """The widgets; the page reads the file."""

    def __init__(self, *, on_file: Callable[[str, bytes], None], on_open: Callable[[int], None]) -> None:
        self.file = dropper(MOST_BYTES, self._sent, max_width=460)
        self.column = pn.widgets.TextInput(
            label="Column of texts", placeholder="found by itself if called text or review", width=300
        )
        self.status = pn.pane.HTML(paragraph(ABOUT, "dim"), stylesheets=[CSS], sizing_mode="stretch_width")
        self.download = pn.widgets.FileDownload(
            callback=self._csv, filename="answers.csv", label="Download the answers as CSV", visible=False
        )
        self.place = pn.Column(sizing_mode="stretch_width")
        self._answers: Answers | None = None
        self._on_open = on_open
        self._on_file = on_file
        self._last: tuple[str, bytes] | None = None
        self.column.param.watch(lambda event: self._again(), "value")
        self.view = pn.Column(
            pn.FlexBox(self.file, self.column, align_items="end", gap="12px"),
            self.status,
            self.place,
            self.download,
            sizing_mode="stretch_width",
            css_classes=["hm-file"],
        )

    def _sent(self, name: str, data: bytes) -> None:
        self._last = name, data
        self._again()

    def _again(self) -> None:
        if self._last is not None:
            self._on_file(*self._last)

    def _csv(self) -> StringIO:
        return StringIO(self._answers.to_csv() if self._answers is not None else "")

    def show_status(self, sentence: str, kind: str = "") -> None:
        self.status.object = paragraph(sentence, kind)

    def show(self, answers: Answers | None) -> None:
        """The table, or none."""
        self._answers = answers
        self.download.visible = answers is not None
        if answers is None:
            self.place.clear()
            return
        self.show_status(f"{answers} Click a row to open its text above.")
        table = pn.widgets.Tabulator(
            frame_of(answers),
            show_index=False,
            disabled=True,
            pagination="remote",
            page_size=PAGE,
            header_filters={name: FILTERS.get(name, {"type": "input", "func": "like"}) for name in HEAD[1:]},
            formatters={"probability": NumberFormatter(format="0.0%")},
            widths={"row": 70, "answer": 110, "probability": 120, "known": 90},
            layout="fit_columns",
            sizing_mode="stretch_width",
            text_align={"probability": "right"},
        )
        table.on_click(lambda event: self._on_open(event.row))
        self.place[:] = [table]


def frame_of(answers: Answers) -> pandas.DataFrame:
    """The rows as they are shown."""
    rows = []
    for row in answers.rows:
        answer, known = named(row.label), "yes" if row.known else "no"
        rows.append((row.number, row.text[:EXCERPT], answer, row.probability, row.words, known))
    return pandas.DataFrame(rows, columns=list(HEAD))
