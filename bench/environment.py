# SPDX-License-Identifier: Apache-2.0
"""The private environments of other programs' Python packages. Standard library only."""

import os
import sys

MARK = "HASHATTN_BENCH_ENVIRONMENT"


def enter(environment, setup, threads=None):
    """Starts this script again with the Python of the environment, unless it runs there already; its libraries load nothing
    from a network, and PyTorch has that number of threads. setup: the command that installs the environment."""
    python = os.path.join(environment, "bin", "python")
    if not os.path.exists(python):
        sys.exit(f"no {environment}: run {setup} first")
    if os.path.realpath(sys.prefix) == os.path.realpath(environment):
        return
    if os.environ.get(MARK) == environment:  # started there, and yet elsewhere: it would never end
        sys.exit(f"{python} runs in {sys.prefix}, not in {environment}: remove that folder and run {setup}")
    os.environ.update({MARK: environment, "TRANSFORMERS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"})
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    os.execv(python, [python, os.path.abspath(sys.argv[0]), *sys.argv[1:]])
