"""Memory that a call takes."""

import tracemalloc


def peak_of(call):
    """Return the most bytes that are allocated during a call, and its result."""
    tracemalloc.start()
    try:
        result = call()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()
