"""The coloured text as a Panel component; what happens in the browser is in `words.js`."""

from pathlib import Path

import param
from panel.custom import AnyWidgetComponent


class Words(AnyWidgetComponent):
    """A text in coloured words that can be struck and replaced.

    `pieces` are those of `review_texts.pieces`. What a visitor asks for comes as `request`, whose `number` grows.
    """

    _esm = Path(__file__).with_name("words.js")

    pieces = param.List(default=[])
    label = param.String(default="")
    request = param.Dict(default={})
