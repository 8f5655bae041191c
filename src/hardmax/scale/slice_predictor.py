"""The cell of `predict_files`: write the predictions and token sums of a slice."""

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
from hardmax.scale.slices import Slice, read_slice
from hardmax.scale.store import hash_file
from hardmax.text.model import Model, answer_columns, contributions, in_parts, predicted_classes, sums_by_text
from hardmax.text.statistics import TokenSums, logit_classes
from hardmax.text.storage import FILE, load_model
from hardmax.text.vocabulary import Encoded

if TYPE_CHECKING:
    import pyarrow as pa

TOKENS = "_tokens"  # folder; programs that read Parquet folders skip names with an underscore
SOURCE, ABOUT = b"hardmax", b"hardmax_tokens"  # metadata of a file: hash of its inputs; description of its sums


def answers_name(number: int) -> str:
    """Return the file of the predictions for a slice."""
    return f"answers-{number:09d}.parquet"


def tokens_name(number: int) -> str:
    """Return the file of the token sums of a slice."""
    return f"{TOKENS}/tokens-{number:09d}.parquet"


@dataclass(frozen=True)
class SlicePredictor:
    """The cell of the sweep: it writes the predictions and token sums of a slice, and returns the hashes of the files.

    Its fields, the slice and the version determine the files.
    """

    out: str
    model: str  # folder
    sha256: str  # of the file in it that holds the hashes of all others
    explain: bool
    at_least: float

    @property
    def settings(self) -> dict[str, Any]:
        """All fields except locations."""
        return {name: value for name, value in asdict(self).items() if name not in ("out", "model")}

    def __call__(self, params: Params, rng: np.random.Generator) -> dict[str, Any]:
        part = Slice(**params)
        texts, out = read_slice(part), Path(self.out)
        paths, source = [out / answers_name(part.number), out / tokens_name(part.number)], self._hash(part, texts)
        kept = [_is_from(path, source) for path in paths]  # after a kill, or if another file has changed
        if not all(kept):
            model, names = load_once(self.model, self.sha256)
            for path, table in zip(paths, self._tables(part, texts, model, names), strict=True):
                _write(table, path, source)
        return {"answered": len(texts), "answers_sha256": hash_file(paths[0]), "tokens_sha256": hash_file(paths[1])}

    def _hash(self, part: Slice, texts: Sequence[str]) -> bytes:
        """Return a hash of all inputs of the files."""
        known = [__version__, self.settings, part.name, part.number, part.start, [len(text) for text in texts]]
        digest = sha256(json.dumps(known).encode())
        digest.update("".join(texts).encode(errors="surrogatepass"))
        return digest.hexdigest().encode()

    def _tables(
        self, part: Slice, texts: Sequence[str], model: Model, names: "pa.Array"
    ) -> tuple["pa.Table", "pa.Table"]:
        """Return the table of predictions and the table of token sums."""
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
        columns |= {"row": pa.array(range(part.start + 1, part.stop + 1), pa.int64()), **answered}
        if self.explain:
            columns["explanation"] = pa.chunked_array(explained)
        return pa.table(columns), sums_table(model, sums, names)


@lru_cache(maxsize=1)
def load_once(folder: str, digest: str) -> tuple[Model, "pa.Array"]:
    """Return a model and the names of all its tokens, once per process."""
    import pyarrow as pa

    if hash_file(Path(folder) / FILE) != digest:
        raise InputError(f"`{folder}` must hold the same model for every worker. Got another one. Copy it.")
    model = load_model(Path(folder)).model
    return model, pa.array(model.vocabulary.names(np.arange(len(model.vocabulary))), pa.string())


def explanations(encoded: Encoded, terms: FloatArray, names: "pa.Array") -> "pa.Array":
    """Return for each text its tokens in order, each with its contribution to the logit, or to each logit."""
    import pyarrow as pa

    values = pa.array(terms.ravel())
    if terms.shape[1] > 1:
        starts = np.arange(len(terms) + 1, dtype=np.int32) * terms.shape[1]
        values = pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), values)
    pairs = pa.StructArray.from_arrays([names.take(pa.array(encoded.ids)), values], ["token", "contribution"])
    return pa.ListArray.from_arrays(pa.array(encoded.starts.astype(np.int32)), pairs)


def sums_table(model: Model, sums: Sequence[TokenSums], names: "pa.Array") -> "pa.Table":
    """Return sums as rows: a token, the class `answer` of its texts, the class `for` whose logit the sums are of."""
    import pyarrow as pa

    blocks = []
    for label, found in zip(model.classes.tolist(), sums, strict=True):
        seen = np.flatnonzero(found.count)
        for output, logit_class in enumerate(logit_classes(model.classes)):
            columns = {
                "id": pa.array(seen.astype(np.int32)),
                "token": names.take(pa.array(seen)),
                "answer": pa.repeat(label, len(seen)),
                "for": pa.repeat(logit_class, len(seen)),
                "count": found.count[seen],
                "sum": found.sum[seen, output],
                "sum_abs": found.absolute[seen, output],
            }
            blocks.append(pa.table(columns))
    about = {"classes": model.classes.tolist(), "vocabulary": len(names)}
    return pa.concat_tables(blocks).replace_schema_metadata({ABOUT: json.dumps(about)})


def _write(table: "pa.Table", path: Path, source: bytes) -> None:
    """Write a file atomically, with the hash of its inputs in the metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    marked = table.replace_schema_metadata((table.schema.metadata or {}) | {SOURCE: source})
    # Dictionary encoding pays for texts, not for contributions.
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    coded = [*texts, "explanation.list.element.token"]
    with written_whole(path, once=True) as temporary:
        pq.write_table(marked, temporary, compression="zstd", use_dictionary=coded, write_page_checksum=True)


def _is_from(path: Path, source: bytes) -> bool:
    """Return whether a file is intact and was written from these inputs; delete any other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, page_checksum_verification=True)
        is_ours = (table.schema.metadata or {}).get(SOURCE) == source
    except FileNotFoundError:
        return False
    except (OSError, pa.ArrowException):
        is_ours = False
    if not is_ours:
        path.unlink(missing_ok=True)
    return is_ours
