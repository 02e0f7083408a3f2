# SPDX-License-Identifier: Apache-2.0
"""A build's libhashattn.so with memory blocks made in advance, to compare libraries on the same arrays in one process. The
structs and functions are those of the Python package; tests/python compares them with the headers."""

import ctypes
import os
import sys
from ctypes import byref

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from hashattn import _library  # noqa: E402


class Library:
    def __init__(self, build, threads, precision="float32"):
        self.build, self.threads, self.other = build, threads, None
        self.call = _library.Functions(ctypes.CDLL(os.path.join(build, "libhashattn.so")))
        message, self.context = ctypes.create_string_buffer(512), ctypes.c_void_p()
        options = _library.ContextOptions(threads=threads, precision=precision.encode(), isa=None)
        if self.call.context_new(byref(options), message, len(message), byref(self.context)):
            raise RuntimeError(message.value.decode())

    def in_bf16(self):
        """The same library with products in bf16, in a second context."""
        self.other = self.other or Library(self.build, self.threads, "bf16")
        return self.other

    def check(self, status):
        if status:
            raise RuntimeError(self.call.context_message(self.context).decode())

    def describe(self):
        found = _library.Description()
        self.call.context_describe(self.context, byref(found))
        text = {name: getattr(found, name) for name, _ in found._fields_ if name != "struct_size"}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in text.items()}


class Attention:
    """One mechanism on arrays (heads, rows, width) with data_ptr() and shape, in C order, float32 or bfloat16."""

    def __init__(self, library, name, **options):
        self.library, self.handle = library, ctypes.c_void_p()
        library.check(library.call.attention_new(library.context, name.encode(), byref(self.handle)))
        for key, value in options.items():
            library.check(library.call.attention_set(self.handle, key.encode(), str(value).encode()))

    @staticmethod
    def views(*arrays):
        views = []
        for a in arrays:
            heads, rows, width = a.shape
            views.append(byref(_library.Array(data=a.data_ptr(), sequence_stride=heads * rows * width, row_stride=width,
                                              head_stride=rows * width)))
        return views

    def prepare(self, query, key, value, seed, bf16=False):
        """Makes the problem and the blocks for saved and scratch memory, which a training loop also allocates in advance."""
        problem, saved, scratch = _library.Problem(), ctypes.c_size_t(), ctypes.c_size_t()
        self.library.call.problem_default_sized(byref(problem), ctypes.sizeof(problem))
        problem.num_heads, problem.num_queries, problem.head_dim = query.shape
        problem.num_keys, problem.value_dim = key.shape[1], value.shape[2]
        problem.max_len = max(problem.num_queries, problem.num_keys)
        problem.seed, problem.element = seed, _library.BF16 if bf16 else _library.FLOAT32
        self.library.check(self.library.call.attention_sizes(self.handle, byref(problem), byref(saved), byref(scratch)))
        self.problem, self.saved_bytes, self.scratch_bytes = problem, saved.value, scratch.value
        self.blocks = [ctypes.create_string_buffer(size + 64) for size in (saved.value, scratch.value)]
        self.aligned = [ctypes.c_void_p(ctypes.addressof(b) + -ctypes.addressof(b) % 64) for b in self.blocks]

    def forward(self, query, key, value, out):
        self.library.check(self.library.call.attention_forward(
            self.handle, byref(self.problem), *self.views(query, key, value, out), *self.aligned))

    def backward(self, query, key, value, out, dout, dquery, dkey, dvalue):
        self.library.check(self.library.call.attention_backward(
            self.handle, byref(self.problem), *self.views(query, key, value, out, dout, dquery, dkey, dvalue), *self.aligned))

    def close(self):
        self.library.call.attention_free(self.handle)
