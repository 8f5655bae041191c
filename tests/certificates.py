"""Both checkers of certificates: for tests, and for every limit that tests make."""

import json
import shutil
import subprocess
from pathlib import Path

import hardmax as hm
from hardmax import certificate_checker

CHECKER = Path(certificate_checker.__file__)
MODULE = (CHECKER.parent / "viewer" / "certificate.js").as_uri()
NODE = shutil.which("node")
SCRIPT = f"""
import {{ check }} from "{MODULE}";
import {{ createInterface }} from "node:readline";
const lines = createInterface({{ input: process.stdin }});
for await (const line of lines) console.log(JSON.stringify(check(line)));
"""
MAX_CLAIMED = 400  # tokens; the checkers compare all pairs


def check_with_node(documents, encode=json.dumps):
    """Return the reports of the checker in JavaScript."""
    command = [NODE, "--input-type=module", "--eval", SCRIPT]
    lines = "\n".join(map(encode, documents))
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=240, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def collect_limits(monkeypatch):
    """Return a list to which the certified limits that are made from now on are
    appended.
    """
    found = []
    start = hm.Limit.__init__

    def start_and_keep(limit, record, given=None):
        start(limit, record, given)
        if limit.certified and len(record.classes.labels) <= MAX_CLAIMED:
            found.append(limit)

    monkeypatch.setattr(hm.Limit, "__init__", start_and_keep)
    return found


def assert_accepted(limits):
    """Check the certificates of limits in Python, and in JavaScript if Node.js is
    installed.
    """
    documents = [json.loads(json.dumps(limit.certificate())) for limit in limits]
    reports = [certificate_checker.check(document) for document in documents]
    assert [report.reason for report in reports if not report.accepted] == []
    if NODE is not None and documents:
        numbers = [report["inequalities"] for report in check_with_node(documents)]
        assert numbers == [report.inequalities for report in reports]
    return documents
