"""A slider with a name. See `slider.js`."""

from pathlib import Path

import param
from panel.custom import AnyWidgetComponent


class Slider(AnyWidgetComponent):
    """A number between two others; Panel's own slider has no name for screen readers."""

    label = param.String(default="")
    value = param.Number(default=0.0)
    start = param.Number(default=0.0)
    end = param.Number(default=1.0)
    step = param.Number(default=0.01)

    _esm = Path(__file__).with_name("slider.js")
    _debounce = 0  # milliseconds; Panel waits 50
