"""The other end of `worker.Child`: `python -m benchmarks.serve CASE METHOD QUICK`.

The parent writes a line of JSON, this process answers with one. Answers of methods go through .npz files.
"""

import json
import os
import sys
from typing import Any

import numpy as np

from benchmarks import CASES
from benchmarks.worker import Local
from hardmax.search import dispatch


def serve(case: str, method: str, quick: bool) -> None:
    """Answer the parent's requests until it closes the pipe."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not reach the parent
    dispatch.is_loaded = lambda kernel: True  # as after a second of use: first calls have processes of their own
    local = Local(next(m for m in CASES[case].methods(quick) if m.name == method))
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        try:
            reply = {"value": _reply(local, verb, *arguments)}
        except Exception as problem:  # the parent tells it
            reply = {"error": f"{type(problem).__name__}: {problem}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _reply(local: Local, verb: str, *arguments: str) -> Any:
    if verb == "finish":
        answer, facts = local.finish()
        np.savez(arguments[0], **answer)
        return facts
    return getattr(local, verb)()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], bool(int(sys.argv[3])))
