"""The cell that answers a slice: it writes the answers, and what each token adds to them, and returns their hashes."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import InputError
from hardmax._files import written_whole
from hardmax._types import FloatArray
from hardmax._version import __version__
from hardmax.scale.design import Params
from hardmax.scale.parts import sha256_of
from hardmax.scale.slice_texts import texts_of
from hardmax.scale.slices import Slice
from hardmax.text.model import Model, answer_columns, contributions, in_parts, predicted_classes, sums_by_text
from hardmax.text.statistics import TokenSums, logit_classes
from hardmax.text.storage import FILE, load_model
from hardmax.text.vocabulary import Encoded

if TYPE_CHECKING:
    import pyarrow as pa

TOKENS = "_tokens"  # folder, which programs that read the answers pass over
MARK, ABOUT = b"hardmax", b"hardmax_tokens"  # in the footer of a file: what it follows from, and what its sums are of


def answers_name(number: int) -> str:
    """The file of the answers to a slice."""
    return f"answers-{number:09d}.parquet"


def tokens_name(number: int) -> str:
    """The file of the sums of a slice."""
    return f"{TOKENS}/tokens-{number:09d}.parquet"


@dataclass(frozen=True)
class Scoring:
    """From a slice to its files; a picklable function with all that answers follow from, but for the slice."""

    out: str
    model: str  # folder
    sha256: str  # of the file in it that has the hash of all others
    explain: bool
    at_least: float

    @property
    def settings(self) -> dict[str, Any]:
        """What answers follow from, but for the texts; not where the model lies."""
        return {name: value for name, value in asdict(self).items() if name not in ("out", "model")}

    def __call__(self, params: Params, rng: np.random.Generator) -> dict[str, Any]:
        part = Slice(**params)
        texts, out = texts_of(part), Path(self.out)
        paths, mark = [out / answers_name(part.number), out / tokens_name(part.number)], self._mark(part, texts)
        whole = [_is_whole(path, mark) for path in paths]  # what was written before a kill is kept
        if not all(whole):
            model, names = loaded(self.model, self.sha256)
            for path, table in zip(paths, self._tables(part, texts, model, names), strict=True):
                _write(table, path, mark)
        return {"answered": len(texts), "answers_sha256": sha256_of(paths[0]), "tokens_sha256": sha256_of(paths[1])}

    def _mark(self, part: Slice, texts: Sequence[str]) -> bytes:
        """A hash of all that the files follow from: parts that were written with another one are none of ours."""
        told = [__version__, self.settings, part.name, part.number, part.first, [len(text) for text in texts]]
        digest = sha256(json.dumps(told).encode())
        digest.update("".join(texts).encode(errors="surrogatepass"))
        return digest.hexdigest().encode()

    def _tables(
        self, part: Slice, texts: Sequence[str], model: Model, names: "pa.Array"
    ) -> tuple["pa.Table", "pa.Table"]:
        import pyarrow as pa

        sums = [TokenSums(len(model.weights.embedding), model.weights.outputs) for _ in model.classes]
        scores, known, explained = [], [], []
        for some in in_parts(texts):
            encoded = model.vocabulary.encode(some)
            terms = contributions(model.weights, encoded)
            scores.append(model.weights.bias + sums_by_text(terms, encoded))
            known.append(encoded.sizes)
            answers = np.repeat(predicted_classes(scores[-1]), encoded.sizes)
            for number, each in enumerate(sums):
                rows = answers == number
                each.add(encoded.ids[rows], terms[rows])
            if self.explain:
                explained.append(explanations(encoded, terms, names))
        answered = answer_columns(model, np.concatenate(scores), np.concatenate(known), self.at_least)
        columns = {} if part.name is None else {"file": pa.repeat(part.name, part.rows)}
        columns |= {"row": pa.array(range(part.first, part.first + part.rows), pa.int64()), **answered}
        if self.explain:
            columns["explanation"] = pa.chunked_array(explained)
        return pa.table(columns), sums_table(model, sums, names)


@lru_cache(maxsize=1)
def loaded(folder: str, digest: str) -> tuple[Model, "pa.Array"]:
    """A model and the names of all its tokens, once in a process."""
    import pyarrow as pa

    if sha256_of(Path(folder) / FILE) != digest:
        raise InputError(f"`{folder}` must hold the same model for every worker. Got another one. Copy it.")
    model = load_model(Path(folder)).model
    return model, pa.array(model.vocabulary.names(np.arange(len(model.vocabulary))), pa.string())


def explanations(encoded: Encoded, terms: FloatArray, names: "pa.Array") -> "pa.Array":
    """For each text its tokens in their order, each with what it adds to the logit, or to the logit of each class."""
    import pyarrow as pa

    values = pa.array(terms.ravel())
    if terms.shape[1] > 1:
        starts = np.arange(len(terms) + 1, dtype=np.int32) * terms.shape[1]
        values = pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), values)
    pairs = pa.StructArray.from_arrays([names.take(pa.array(encoded.ids)), values], ["token", "contribution"])
    return pa.ListArray.from_arrays(pa.array(encoded.starts.astype(np.int32)), pairs)


def sums_table(model: Model, sums: Sequence[TokenSums], names: "pa.Array") -> "pa.Table":
    """Sums as rows: a token, the class that its texts were answered with, the class `for` whose logit they are."""
    import pyarrow as pa

    blocks = []
    for label, found in zip(model.classes.tolist(), sums, strict=True):
        seen = np.flatnonzero(found.count)
        for output, spoken in enumerate(logit_classes(model.classes)):
            columns = {
                "id": pa.array(seen.astype(np.int32)),
                "token": names.take(pa.array(seen)),
                "answer": pa.repeat(label, len(seen)),
                "for": pa.repeat(spoken, len(seen)),
                "count": found.count[seen],
                "sum": found.sum[seen, output],
                "sum_abs": found.absolute[seen, output],
            }
            blocks.append(pa.table(columns))
    about = {"classes": model.classes.tolist(), "vocabulary": len(names)}
    return pa.concat_tables(blocks).replace_schema_metadata({ABOUT: json.dumps(about)})


def _write(table: "pa.Table", path: Path, mark: bytes) -> None:
    """Write a file beside, read its bytes back, sync, rename."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    marked = table.replace_schema_metadata((table.schema.metadata or {}) | {MARK: mark})
    # texts pay to be written as numbers of a dictionary, contributions do not
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    coded = [*texts, "explanation.list.element.token"]
    pq.write_table(marked, sink, compression="zstd", use_dictionary=coded, write_page_checksum=True)
    data = sink.getvalue()
    with written_whole(path, once=True) as temporary:
        with temporary.open("wb") as file:
            file.write(data)
        if sha256_of(temporary) != sha256(data).hexdigest():
            raise OSError(f"`{path}` must hold what was written to it. Got something else. Check the disk.")


def _is_whole(path: Path, mark: bytes) -> bool:
    """Whether a file is there as it was written; deletes any other of that name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, page_checksum_verification=True)
        whole = (table.schema.metadata or {}).get(MARK) == mark
    except FileNotFoundError:
        return False
    except (OSError, pa.ArrowException):
        whole = False
    if not whole:
        path.unlink(missing_ok=True)
    return whole
