"""Requests of the viewer as plain functions: a path and a JSON object in, a reply out.

The server and the notebook call `handle`. Every request is complete: nothing is
remembered between two of them.
"""

import base64
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._types import AnyArray
from hardmax.app import exports, playground
from hardmax.app.playground import Cancelled, Stopped
from hardmax.app.problems import describe_value
from hardmax.app.scene import (
    MAX_COORDINATE,
    OVERLAYS,
    RULES,
    Scene,
    check_number,
    check_tokens,
    keep_first_layer,
    make_value_matrix,
)
from hardmax.configurations import CONFIGURATIONS, RANDOM_CONFIGURATIONS
from hardmax.draw.text_page import EXAMPLES
from hardmax.text.storage import shipped_models

TEXT_PATHS = ("explain", "flip", "compare", "table", "export-table", "export-text")
FILE_PATHS = ("table", "export-table")  # whose requests hold a file
KINDS = {"float32": "f4", "int32": "i4"}  # of arrays, as the viewer reads them
MAX_TABLE_CHARACTERS = 5_000_000  # of pasted tokens
MAX_FILE_BYTES = 20_000_000  # of a table of texts
MAX_QUICK_TEXT = (
    5_000  # characters of a text that is explained within about a tenth of a second
)


class Reply(NamedTuple):
    """A JSON object with arrays, or a file."""

    header: Mapping[str, Any]
    arrays: Mapping[str, AnyArray] = {}
    file: bytes | None = None
    media_type: str = "application/json"
    name: str = ""

    def to_bytes(self) -> bytes:
        """Return four bytes with the length of the header, the header as JSON, and the
        arrays at multiples of four.
        """
        parts, listed, at = [], [], 0
        for name, array in self.arrays.items():
            data = np.ascontiguousarray(array).tobytes()
            listed.append(
                {
                    "name": name,
                    "kind": KINDS[array.dtype.name],
                    "shape": array.shape,
                    "at": at,
                }
            )
            parts.append(data)
            at += len(data)
        text = json.dumps(
            {**self.header, "arrays": listed}, separators=(",", ":"), allow_nan=False
        ).encode()
        text += b" " * (-len(text) % 4)
        return b"".join([len(text).to_bytes(4, "little"), text, *parts])


class Context(NamedTuple):
    """The models that requests may name, the first one being the default, and whether
    the client has gone.
    """

    models: tuple[str, ...] = tuple(shipped_models())
    stopped: Stopped = lambda: False
    loaded: Mapping[str, Any] = {}  # models that are not read from a folder

    def find_model(self, body: Mapping[str, Any]) -> tuple[str, Any]:
        """Return the name of the requested model, and the model."""
        from hardmax.app.texts import load, name_classes

        name = body.get("model", self.models[0])
        if name not in self.models:
            raise ParameterError(
                "model", f"be one of {', '.join(self.models)}", describe_value(name)
            )
        return name, name_classes(self.loaded[name]) if name in self.loaded else load(
            name
        )


Handler = Callable[[Mapping[str, Any], Context], Reply]


def handle(path: str, body: Any, context: Context) -> Reply:
    """Return the reply to a request; raise InputError for an unknown path or invalid
    content.
    """
    if context.stopped():  # while the request waited
        raise Cancelled
    if path not in HANDLERS:
        raise ParameterError(
            "path", f"be one of {', '.join(HANDLERS)}", describe_value(path)
        )
    if not isinstance(body, Mapping):
        raise InputError(
            "A request must be a JSON object. Got something else. Load the page again."
        )
    return HANDLERS[path](body, context)


def choose_pool(path: str, body: Any) -> str:
    """Return "quick", "long" above about a tenth of a second, or "files", so that no
    request delays quicker ones.
    """
    if path in (*FILE_PATHS, "export", "export-text"):
        return "files"
    return "long" if _takes_long(path, body) else "quick"


def _takes_long(path: str, body: Any) -> bool:
    if path == "explain" and isinstance(body, Mapping):
        text = body.get("text")
        return isinstance(text, str) and len(text) > MAX_QUICK_TEXT
    if (
        path != "scene"
        or not isinstance(body, Mapping)
        or not isinstance(body.get("scene"), Mapping)
    ):
        return path not in ("scene", "open", "options", "configuration", "explain")
    scene = body["scene"]
    tokens, layers = scene.get("tokens"), scene.get("layers", 30)
    n = len(tokens) if isinstance(tokens, list) else 0
    quick = body.get("quick") is True and scene.get("rule", "hardmax") in (
        "hardmax",
        "softmax",
    )
    overlays = scene["overlays"] if isinstance(scene.get("overlays"), list) else []
    slow = scene.get("rule") == "softmax" or "cells" in overlays or "hulls" in overlays
    return (
        not quick
        or not isinstance(layers, int)
        or n * layers > 60_000
        or (n > 300 and slow)
    )


def _scene(body: Mapping[str, Any], context: Context) -> Reply:
    scene = Scene.from_data(body.get("scene"))
    return Reply(
        *playground.answer(
            scene, quick=body.get("quick") is True, stopped=context.stopped
        )
    )


def _options(body: Mapping[str, Any], context: Context) -> Reply:
    options = {
        "rules": RULES,
        "overlays": OVERLAYS,
        "configurations": CONFIGURATIONS,
        "random": list(RANDOM_CONFIGURATIONS),
        "models": context.models,
        "tour": playground.list_tour(),
        "examples": [*EXAMPLES.values()],
    }
    return Reply(options)


def _configuration(body: Mapping[str, Any], context: Context) -> Reply:
    values = {name: body[name] for name in ("n", "d", "seed") if name in body}
    return Reply(
        {
            "tokens": Scene.of_configuration(
                body.get("name", ""), **values
            ).tokens.tolist()
        }
    )


def _tokens(body: Mapping[str, Any], context: Context) -> Reply:
    from hardmax.text.tables import parse_table

    text = body.get("text")
    if not isinstance(text, str) or len(text) > MAX_TABLE_CHARACTERS:
        must = f"be rows of numbers, at most {MAX_TABLE_CHARACTERS:,} characters"
        raise ParameterError("text", must, "something else")
    table, note = parse_table(keep_first_layer(text), "tokens")
    return Reply({"tokens": check_tokens(table).tolist(), "note": note})


def _open(body: Mapping[str, Any], context: Context) -> Reply:
    scene, note = Scene.from_document(body.get("document"))
    return Reply({"scene": scene.to_data(), "note": note})


def _pull(body: Mapping[str, Any], context: Context) -> Reply:
    scene, axis = Scene.from_data(body.get("scene")), body.get("axis")
    if axis not in (0, 1) or scene.d != 2:
        raise ParameterError("axis", "be 0 or 1, in the plane", describe_value(axis))
    end = check_tokens([body.get("end")])[0]
    if end.shape != (2,):
        raise ParameterError("end", "be two numbers", f"{len(end)} numbers")
    return Reply({"A": playground.pull_ellipse(scene, axis, end).tolist()})


def _values(body: Mapping[str, Any], context: Context) -> Reply:
    most = MAX_COORDINATE
    given = {
        name: check_number(body.get(name), name, -most, most)
        for name in ("first", "second", "degrees")
    }
    return Reply({"V": make_value_matrix(**given).tolist()})


def _control(body: Mapping[str, Any], context: Context) -> Reply:
    return Reply(
        playground.choose_matrix(Scene.from_data(body.get("scene")), context.stopped)
    )


def _multiples(body: Mapping[str, Any], context: Context) -> Reply:
    return Reply(
        playground.make_multiples(Scene.from_data(body.get("scene")), context.stopped)
    )


def _check_kind(body: Mapping[str, Any]) -> str:
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in exports.MEDIA_TYPES:
        raise ParameterError(
            "kind", f"be one of {', '.join(exports.MEDIA_TYPES)}", describe_value(kind)
        )
    return kind


def _export(body: Mapping[str, Any], context: Context) -> Reply:
    kind = _check_kind(body)
    data = exports.to_file(
        Scene.from_data(body.get("scene")), kind, playground.watch(context.stopped)
    )
    return Reply(
        {}, file=data, media_type=exports.MEDIA_TYPES[kind], name=f"hardmax.{kind}"
    )


def _answer_text(path: str, body: Mapping[str, Any], context: Context) -> Reply:
    """Return the reply to a request about texts; its module loads the classifier, so it
    is imported here.
    """
    from hardmax.app import texts

    (name, model), progress = (
        context.find_model(body),
        playground.watch(context.stopped),
    )
    progress(0, 1)
    if path == "compare":
        return Reply(
            texts.compare(
                model,
                *(texts.Text.from_data(body.get(key)) for key in ("first", "second")),
            )
        )
    if path == "table":
        return Reply(
            texts.read_table(name, model, *_read_file(body), progress=progress)
        )
    if path == "export-table":
        data = texts.write_table(model, body.get("rows"), progress)
        return Reply({}, file=data, media_type="text/csv", name="predictions.csv")
    text = texts.Text.from_data(body)
    if path == "flip":
        return Reply(texts.flip(model, text, progress))
    head = check_number(body.get("head", 0), "head", 0, model.heads - 1)
    if path == "explain":
        return Reply(texts.answer(name, model, text, head))
    kind = _check_kind(body)
    data = texts.to_file(name, model, text, head, kind, progress)
    return Reply(
        {}, file=data, media_type=exports.MEDIA_TYPES[kind], name=f"explanation.{kind}"
    )


def _read_file(body: Mapping[str, Any]) -> tuple[str, bytes, str | None]:
    """Return name, content and column of texts of a table."""
    name, data, column = (
        body.get("name", "texts.txt"),
        body.get("data"),
        body.get("column"),
    )
    if (
        not isinstance(name, str)
        or not isinstance(data, str)
        or not isinstance(column, str | None)
    ):
        raise ParameterError("file", "have a name and data", "something else")
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        raise ParameterError("data", "be base64", "something else") from None
    if len(content) > MAX_FILE_BYTES:
        must, got = (
            f"have at most {MAX_FILE_BYTES // 10**6} MB",
            f"{len(content) / 1e6:.1f} MB",
        )
        raise ParameterError(
            "file", must, got, "Split it, or use the command hardmax predict."
        )
    return name, content, column


HANDLERS: dict[str, Handler] = {
    "options": _options,
    "scene": _scene,
    "configuration": _configuration,
    "tokens": _tokens,
    "open": _open,
    "pull": _pull,
    "values": _values,
    "control": _control,
    "multiples": _multiples,
    "export": _export,
    **{path: partial(_answer_text, path) for path in TEXT_PATHS},
}
