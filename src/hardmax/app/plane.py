"""The plane as a component of Panel: `request` comes from the browser, `answer` goes there. See `plane.js`."""

from pathlib import Path

import param
from panel.custom import AnyWidgetComponent


class Plane(AnyWidgetComponent):
    """Tokens that can be dragged; everything else that it shows comes from Python."""

    request = param.Dict(default={})
    answer = param.Bytes(default=b"")
    busy = param.Boolean(default=False)

    _esm = Path(__file__).with_name("plane.js")
    _debounce = 0  # milliseconds; Panel waits 50, and the plane asks no more than once a frame anyway
