# SPDX-License-Identifier: Apache-2.0
"""RACE attention (Joshi et al. 2026), which has no package: algorithm 1 in PyTorch, with our default tables. It
approximates the exact kernel of hashing with as many bits."""

import opponents

OPTIONS = {"num_tables": 8, "hash_bits": 4, "sharpness": 1.0}
EXACT = ("yoso-e", {"hash_bits": 4})
RIVALS = [("PyTorch, RACE", lambda n, heads, d: opponents.Race(8, 4, 1.0, d))]
