"""`python -m hashattn` and the command `hashattn`: runs the tool of this package, which replaces the process.

SPDX-License-Identifier: Apache-2.0
"""

import os
import sys
from pathlib import Path


def main() -> None:
    tool = Path(__file__).resolve().parent / "bin" / "hashattn"
    try:
        os.execv(tool, ["hashattn", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"hashattn: cannot run {tool}: {error.strerror}")


if __name__ == "__main__":
    main()
