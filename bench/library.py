# SPDX-License-Identifier: Apache-2.0
"""libhashattn.so from Python, to compare libraries on the same arrays in one process (standard library only).

Structs are parsed from the public header, so that they always match the library.
"""

import ctypes
import os
import re

TYPES = {"size_t": ctypes.c_size_t, "int": ctypes.c_int, "uint64_t": ctypes.c_uint64, "double": ctypes.c_double}
HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "include", "hashattn", "attention.h")


def struct_of(name, text):
    """The ctypes structure of `typedef struct name { ... } name;`. Pointers become void pointers, except strings."""
    body = re.search(r"typedef struct %s \{(.*?)\n\} %s;" % (name, name), text, re.S).group(1)
    fields = []
    for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
        line = " ".join(line.split())
        if "(*" in line:
            fields.append((re.search(r"\(\*(\w+)\)", line).group(1), ctypes.c_void_p))
            continue
        match = re.match(r"(?:const )?(\w+) (.*)", line)
        for item in match.group(2).split(",") if match else []:
            item = item.strip()
            array = re.match(r"(\w+)\[(\d+)\]", item)
            if item.startswith("*"):
                fields.append((item[1:], ctypes.c_char_p if match.group(1) == "char" else ctypes.c_void_p))
            elif array:
                fields.append((array.group(1), ctypes.c_char * int(array.group(2))))
            else:
                fields.append((item, TYPES.get(match.group(1), ctypes.c_int)))  # all other types are enums
    return type(name, (ctypes.Structure,), {"_fields_": fields})


class Library:
    def __init__(self, build, threads, precision="float32"):
        self.build, self.threads, self.other = build, threads, None
        with open(HEADER) as file:
            text = file.read()
        for name in ("context_options", "description", "array", "problem"):
            setattr(self, name, struct_of("hashattn_" + name, text))
        elements = re.search(r"typedef enum hashattn_element \{(.*?)\}", text, re.S)
        self.elements = [name.strip() for name in elements.group(1).split(",")] if elements else ["HASHATTN_FLOAT32"]
        self.so = ctypes.CDLL(os.path.join(build, "libhashattn.so"))
        self.so.hashattn_context_message.restype = ctypes.c_char_p
        self.so.hashattn_context_message.argtypes = [ctypes.c_void_p]
        options, message = self.context_options(), ctypes.create_string_buffer(512)
        self.so.hashattn_context_options_default(ctypes.byref(options))
        options.threads, options.precision = threads, precision.encode()
        self.context = ctypes.c_void_p()
        if self.so.hashattn_context_new(ctypes.byref(options), message, ctypes.c_size_t(512),
                                        ctypes.byref(self.context)):
            raise RuntimeError(message.value.decode())

    def in_bf16(self):
        """The same library with products in bf16, in a second context."""
        self.other = self.other or Library(self.build, self.threads, "bf16")
        return self.other

    def check(self, status):
        if status:
            raise RuntimeError(self.so.hashattn_context_message(self.context).decode())

    def describe(self):
        found = self.description(struct_size=ctypes.sizeof(self.description))
        self.so.hashattn_context_describe(self.context, ctypes.byref(found))
        text = {name: getattr(found, name) for name, _ in found._fields_ if name != "struct_size"}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in text.items()}


class Attention:
    """One mechanism on arrays (heads, rows, width) with data_ptr() and shape, in C order, float32 or bfloat16."""

    def __init__(self, library, name, **options):
        self.library, self.handle = library, ctypes.c_void_p()
        library.check(library.so.hashattn_attention_new(library.context, name.encode(), ctypes.byref(self.handle)))
        for key, value in options.items():
            library.check(library.so.hashattn_attention_set(self.handle, key.encode(), str(value).encode()))

    def views(self, *arrays):
        views = []
        for a in arrays:
            heads, rows, width = a.shape
            views.append(self.library.array(data=a.data_ptr(), sequence_stride=heads * rows * width,
                                            row_stride=width, head_stride=rows * width))
        return views

    def prepare(self, query, key, value, seed, element="HASHATTN_FLOAT32"):
        """Makes the problem and the blocks for saved and scratch memory, which a training loop also allocates in advance."""
        problem = self.library.problem()
        self.library.so.hashattn_problem_default(ctypes.byref(problem))
        problem.num_heads, problem.num_queries, problem.head_dim = query.shape
        problem.num_keys, problem.value_dim = key.shape[1], value.shape[2]
        problem.seed = seed
        if element != "HASHATTN_FLOAT32":
            problem.element = self.library.elements.index(element)
        saved, scratch = ctypes.c_size_t(), ctypes.c_size_t()
        self.library.check(self.library.so.hashattn_attention_sizes(
            self.handle, ctypes.byref(problem), ctypes.byref(saved), ctypes.byref(scratch)))
        self.problem, self.saved_bytes = problem, saved.value
        self.blocks = [ctypes.create_string_buffer(size + 64) for size in (saved.value, scratch.value)]
        self.aligned = [ctypes.c_void_p(ctypes.addressof(b) + -ctypes.addressof(b) % 64) for b in self.blocks]

    def forward(self, query, key, value, out):
        views = [ctypes.byref(v) for v in self.views(query, key, value, out)]
        self.library.check(self.library.so.hashattn_attention_forward(
            self.handle, ctypes.byref(self.problem), *views, *self.aligned))

    def backward(self, query, key, value, out, dout, dquery, dkey, dvalue):
        views = [ctypes.byref(v) for v in self.views(query, key, value, out, dout, dquery, dkey, dvalue)]
        self.library.check(self.library.so.hashattn_attention_backward(
            self.handle, ctypes.byref(self.problem), *views, *self.aligned))

    def close(self):
        self.library.so.hashattn_attention_free(self.handle)
