"""The version, once for the package and what it writes."""

__version__ = "0.1.0"
