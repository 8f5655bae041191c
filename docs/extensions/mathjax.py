"""MathJax as a file of the site, so that formulas need no other host: one file of the
package on npm, with its hash.
"""

import hashlib
import subprocess
import tarfile
import tempfile
from base64 import b64encode
from pathlib import Path

PACKAGE, MEMBER = "mathjax@3.2.2", "package/es5/tex-svg.js"
SHA512 = "Bt+SSVU8eBG27zChVewOicYs7Xsdt40qm4+UpHyX7k0/O9NliPc+x77k1/FEsPsjKPZGJvtRZM1vO+geW0OhGw=="


def path(static: Path) -> str:
    """The path of the script below the static files of the site, fetched if it is not
    there.
    """
    script = static / "mathjax" / Path(MEMBER).name
    if not script.is_file():
        script.parent.mkdir(exist_ok=True)
        script.write_bytes(fetched())
    return script.relative_to(static).as_posix()


def fetched() -> bytes:
    """The script, out of a package whose content is what it was when it was chosen."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, PACKAGE]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=300)
        except FileNotFoundError:
            raise SystemExit(
                "The docs need npm, which fetches MathJax: apt-get install npm."
            ) from None
        (package,) = Path(folder).iterdir()
        digest = b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
        if digest != SHA512:
            raise SystemExit(f"{PACKAGE} must have the SHA-512 {SHA512}. Got {digest}.")
        with tarfile.open(package) as archive:
            member = archive.extractfile(MEMBER)
            assert member is not None
            return member.read()
