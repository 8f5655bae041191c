"""Rules: how tokens move. A rule is immutable and holds no tokens."""

from hardmax.rules.base import Flow, Layered, Rule
from hardmax.rules.compose import Compose, MultiHead
from hardmax.rules.frank_wolfe import FrankWolfe
from hardmax.rules.hardmax import Hardmax
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.softmax import Softmax
from hardmax.rules.sphere import Sphere
from hardmax.rules.token_wise import FeedForward, Normalize

__all__ = [
    "Compose",
    "FeedForward",
    "Flow",
    "FrankWolfe",
    "Hardmax",
    "Layered",
    "MultiHead",
    "Normalize",
    "Rule",
    "SelfAttention",
    "Softmax",
    "Sphere",
]
