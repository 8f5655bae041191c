"""Models that come with the package."""

from pathlib import Path
from typing import TYPE_CHECKING

from hardmax._errors import ParameterError

if TYPE_CHECKING:
    from hardmax.sentiment.classifier import HardmaxClassifier

FOLDER = Path(__file__).with_name("models")


def pretrained(name: str = "imdb") -> "HardmaxClassifier":
    """A trained `HardmaxClassifier` from inside the package; no network.

    Parameters
    ----------
    name : str
        "imdb": sentiment of film reviews, the most accurate. "imdb-2d": the paper's model with one head in the plane,
        for pictures. Their cards, with recipe, data, metrics and limits, lie beside them.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.pretrained("imdb").predict(["A wonderful film, moving and funny."]).tolist()
    ['pos']
    """
    from hardmax.sentiment import HardmaxClassifier  # or the extra that it needs

    names = sorted(path.parent.name for path in FOLDER.glob("*/model.json"))
    if name not in names:
        advice = "For a folder use HardmaxClassifier.load."
        raise ParameterError("name", f"be one of {', '.join(names)}", f"{name!r}", advice)
    return HardmaxClassifier.load(FOLDER / name)
