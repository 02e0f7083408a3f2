"""The ctypes declarations of the package against the C headers, with a C compiler.

Planted and caught: two fields of a struct swapped; a field left out; an argument left out; a result of another type; a
struct declared again in bench/.
SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import re
import shutil
import subprocess

import pytest

from conftest import ROOT
from hashattn import _library

HEADERS = sorted((ROOT / "include" / "hashattn").glob("*.h"))
STRUCTS = {
    "context_options": _library.ContextOptions, "description": _library.Description, "option": _library.Option,
    "mechanism_info": _library.MechanismInfo, "tensor": _library.Tensor, "array": _library.Array,
    "problem": _library.Problem, "stream_options": _library.StreamOptions, "chunk": _library.Chunk,
    "metric": _library.Metric, "metrics": _library.Metrics, "model_info": _library.ModelInfo,
    "evaluation": _library.Evaluation, "difference": _library.Difference, "comparison": _library.Comparison,
    "task_info": _library.TaskInfo, "prediction": _library.Prediction,
    "predict_options": _library.PredictOptions, "forecast": _library.Forecast, "progress": _library.Progress,
    "generate_options": _library.GenerateOptions, "generated": _library.Generated,
    "encode_options": _library.EncodeOptions, "encoding": _library.Encoding, "learn_options": _library.LearnOptions,
    "sources": _library.Sources, "prepared": _library.Prepared,
    "cache_options": _library.CacheOptions, "cache_report": _library.CacheReport,
    "pretrained_info": _library.PretrainedInfo, "sequences": _library.Sequences,
    "text_options": _library.TextOptions, "embedding": _library.Embedding, "guess": _library.Guess,
    "density_options": _library.DensityOptions, "density_info": _library.DensityInfo,
}


def compiler():
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None:
        pytest.skip("no C compiler")
    return found


def test_structs_have_the_layout_of_the_headers(tmp_path):
    lines = []
    for name, struct in STRUCTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(hashattn_{name}));')
        lines += [f'printf("{name}.{field} %zu %zu\\n", offsetof(hashattn_{name}, {field}), '
                  f'sizeof(((hashattn_{name} *)0)->{field}));' for field, *_ in struct._fields_]
    source = tmp_path / "layout.c"
    source.write_text("#include <stdio.h>\n#include <hashattn/hashattn.h>\nint main(void) {" + "\n".join(lines) + "}\n")
    subprocess.run([compiler(), "-I", ROOT / "include", source, "-o", tmp_path / "layout"], check=True)
    found = subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True).stdout.splitlines()
    expected = []
    for name, struct in STRUCTS.items():
        expected.append(f"{name} {ctypes.sizeof(struct)}")
        fields = [(field[0], getattr(struct, field[0])) for field in struct._fields_]
        expected += [f"{name}.{field} {place.offset} {place.size}" for field, place in fields]
    assert found == expected


def test_structs_are_declared_once():
    for script in sorted((ROOT / "bench").rglob("*.py")):
        assert not re.search(r"ctypes\.(Structure|Union)\b|_fields_ *=", script.read_text()), script


def prototypes():
    """Result and number of arguments of every function of the headers, by name without its prefix."""
    text = "".join(re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S) for header in HEADERS)
    found = {}
    for result, name, arguments in re.findall(r"HASHATTN_API ([^;(]*?)\bhashattn_(\w+)\(([^;]*)\);", text):
        count = 0 if arguments.strip() == "void" else arguments.count(",") + 1
        found[name] = ("".join(result.split()), count)
    return found


def test_functions_are_those_of_the_headers():
    found = prototypes()
    assert len(found) > 60
    results = {"void": None, "int": ctypes.c_int, "hashattn_status": ctypes.c_int, "size_t": ctypes.c_size_t,
               "int64_t": ctypes.c_int64, "constchar*": ctypes.c_char_p,
               "constchar*const*": ctypes.POINTER(ctypes.c_char_p)}
    for name, (result, arguments) in _library.FUNCTIONS.items():
        declared, count = found[name]
        assert results[declared] is result and count == len(arguments), name


def test_statuses_are_those_of_the_header():
    text = (ROOT / "include" / "hashattn" / "status.h").read_text()
    rows = re.findall(r"X\((\w+), (\d+), \d+,", text)
    assert len(rows) == 8
    for name, value in rows:
        assert getattr(_library, name) == int(value)


def test_defaults_have_the_sizes_of_the_package():
    library = _library.functions()
    for struct, fill in [(_library.Problem, library.problem_default_sized),
                         (_library.StreamOptions, library.stream_options_default_sized)]:
        found = struct()
        found.struct_size = 0
        fill(ctypes.byref(found), ctypes.sizeof(struct))
        assert found.struct_size == ctypes.sizeof(struct) and found.num_heads == 1
