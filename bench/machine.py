# SPDX-License-Identifier: Apache-2.0
"""What a comparison ran on: processor, kind of machine, versions. Standard library only."""

import importlib.metadata as metadata
import os
import platform
import subprocess
import time

# (vendor, family): [(first model, last model, name)], from the manufacturers' lists of families and models
GENERATIONS = {
    ("AuthenticAMD", 23): [(0x00, 0x2F, "Zen 1"), (0x30, 0xAF, "Zen 2")],
    ("AuthenticAMD", 25): [(0x00, 0x0F, "Zen 3"), (0x10, 0x1F, "Zen 4"), (0x20, 0x5F, "Zen 3"), (0x60, 0x7F, "Zen 4"),
                           (0xA0, 0xAF, "Zen 4")],
    ("AuthenticAMD", 26): [(0x00, 0x7F, "Zen 5")],
    ("GenuineIntel", 6): [(143, 143, "Sapphire Rapids"), (207, 207, "Emerald Rapids"), (173, 174, "Granite Rapids")],
}


def cpuinfo(path="/proc/cpuinfo"):
    """What it says about the first processor; {} if the file does not exist."""
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        first = file.read().split("\n\n")[0]
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}


def kind_of(info):
    """The processor's generation, which names its column of a table. A virtual machine may hide the model: with AMX it is
    then "Intel AMX". Any other processor is named by its name, family and model."""
    family, model = int(info.get("cpu family", -1)), int(info.get("model", -1))
    for first, last, name in GENERATIONS.get((info.get("vendor_id"), family), []):
        if first <= model <= last:
            return name
    if info.get("vendor_id") == "GenuineIntel" and "amx_tile" in info.get("flags", "").split():
        return "Intel AMX"
    return f"{info.get('model name', platform.machine())}, family {family} model {model}".replace("|", "/")


def describe(torch, library, threads):
    versions = {"python": platform.python_version()}
    for name in ("torch", "transformers", "onnxruntime", "numpy"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    is_, info = library.describe(), cpuinfo()
    commit = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--short", "HEAD"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
    versions["hashattn"] = f"{is_['version']}, commit {commit or 'unknown'}"
    flags = info.get("flags", "").split()
    return {"kind": kind_of(info), "processor": is_["processor"], "family": info.get("cpu family"), "model": info.get("model"),
            "cores": os.cpu_count(), "threads": threads, "isa": is_["isa"], "torch_isa": torch.backends.cpu.get_cpu_capability(),
            "products": is_["products"], "projection": is_["projection"], "amx": "amx_tile" in flags,
            "versions": versions, "commit": commit or None, "date": time.strftime("%Y-%m-%d")}
