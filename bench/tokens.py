#!/usr/bin/env python3
"""Compares tokenizers with the reference library (pip `tokenizers`): ids, offsets, truncation, pairs and decoding on
generated and real lines, vocabularies learned from the same text, and speed.

  bench/tokens.py BUILD --setup                 installs the reference library into BUILD/tokenizers-env
  bench/tokens.py BUILD [--lines N] [--seed S] [--vocab DIR]... TEXT...

TEXT: files of real text, one paragraph a line. DIR: vocab.json with merges.txt, encoder.json with vocab.bpe, or vocab.txt.
Without --vocab only vocabularies learned from TEXT are compared. Any difference is printed, and the exit code is 1."""
import argparse
import ctypes
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from environment import enter

PACKAGES = ["tokenizers==0.23.3", "numpy"]  # the declarations of the library come with the package, which needs numpy
os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


class Ours:
    """A tokenizer of the library."""

    def __init__(self, build, directory):
        from library import Library, _library
        self.library, self.tokenizer = Library(build, threads=0), ctypes.c_void_p()
        self.options_of, self.result = _library.EncodeOptions, _library.Encoding()
        self.library.check(self.library.call.tokenizer_load(self.library.context, directory.encode(), ctypes.byref(self.tokenizer)))

    def encode(self, text, second=None, max_tokens=0, special=False, offsets=True):
        options = self.options_of(max_tokens=max_tokens, special_tokens=special, offsets=offsets)
        self.library.check(self.library.call.tokenizer_encode(self.tokenizer, text, len(text), second, len(second or b""),
                                                              ctypes.byref(options), ctypes.byref(self.result)))
        n = self.result.count
        return (self.result.ids[:n], self.result.segments[:n],
                list(zip(self.result.begins[:n], self.result.ends[:n])) if offsets else None)

    def encode_all(self, texts):
        options, result = ctypes.byref(self.options_of()), ctypes.byref(self.result)
        encode, tokenizer = self.library.call.tokenizer_encode, self.tokenizer
        for text in texts:
            encode(tokenizer, text, len(text), None, 0, options, result)

    def decode(self, ids, skip_special):
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        array = (ctypes.c_uint32 * max(1, len(ids)))(*ids)
        self.library.check(self.library.call.tokenizer_decode(self.tokenizer, array, len(ids), skip_special, ctypes.byref(text),
                                                              ctypes.byref(size)))
        return ctypes.string_at(text, size.value).decode()


# ---- the reference with the settings of the transformers library ----


def reference_of(directory):
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    def file(name):
        return os.path.join(directory, name)

    if os.path.exists(file("tokenizer.json")):
        return Tokenizer.from_file(file("tokenizer.json"))
    if os.path.exists(file("vocab.txt")):
        vocab = models.WordPiece.read_file(file("vocab.txt"))
        t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
        t.normalizer = normalizers.BertNormalizer()
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.decoder = decoders.WordPiece()
        t.add_special_tokens(["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"])
        t.post_processor = processors.BertProcessing(("[SEP]", vocab["[SEP]"]), ("[CLS]", vocab["[CLS]"]))
        return t
    names = ("vocab.json", "merges.txt") if os.path.exists(file("vocab.json")) else ("encoder.json", "vocab.bpe")
    vocab, merges = models.BPE.read_file(*map(file, names))
    t = Tokenizer(models.BPE(vocab, merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    if "<s>" in vocab and "</s>" in vocab:
        t.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
        t.post_processor = processors.RobertaProcessing(("</s>", vocab["</s>"]), ("<s>", vocab["<s>"]), trim_offsets=True,
                                                        add_prefix_space=False)
    else:
        t.add_special_tokens(["<|endoftext|>"])
        t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


# ---- lines ----

SPACES = [0x9, 0xB, 0xC, 0xD, 0x1C, 0x20, 0x20, 0x20, 0x85, 0xA0, 0x1680, 0x180E, 0x2000, 0x2003, 0x200B, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF, 0xA]
RANGES = [(0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0x0, 0x1F), (0x80, 0xFF), (0x100, 0x24F), (0x300, 0x36F), (0x370, 0x3FF),
          (0x400, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xFFF), (0x1100, 0x11FF), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF),
          (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x2BFF), (0x3000, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xF8FF),
          (0xF900, 0xFFFD), (0x10000, 0x1FFFF), (0x1F300, 0x1FAFF), (0x1D100, 0x1D1FF), (0x20000, 0x3FFFF), (0xE0000, 0x10FFFF)]
PIECES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "''", "don't", " n't", "<mask>", " <mask> ", "  <mask>", "<s>", "</s>",
          "<pad>", "[MASK]", "[SEP]", "[CLS]", "[UNK]", " [MASK] ", "<|endoftext|>", "<", "[", "new york", " New  York", "Token", "token",
          "a\u0301\u0323", "\u1e69", "s\u0323\u0307", "\u0344", "\uac01", "\u1100\u1161\u11a8", "\u0130", "\u03a3\u03c2", "\ufb01", "123", "1\u00b2\u00bd", "4.5%",
          "http://a.b/c?d=e", "\u4e2d\u6587", "\U0001f469\u200d\U0001f4bb", "\u00e9\u00e8", "\u0e33", "\u05e9\u05c1\u05bc", "x" * 120, "\u0000", "\u0001a"]


def generated_line(r):
    def piece():
        kind = r.random()
        if kind < 0.25:
            low, high = r.choice(RANGES)
            return "".join(chr(r.randint(low, high)) for _ in range(r.randint(1, 8)))
        if kind < 0.5:
            return "".join(chr(r.choice(SPACES)) for _ in range(r.choice([1, 1, 1, 2, 3])))
        if kind < 0.7:
            return "".join(chr(r.randint(97, 122)) for _ in range(r.randint(1, 10))).capitalize()
        if kind < 0.9:
            return r.choice(PIECES)
        if kind < 0.95:
            return "e" + "".join(chr(r.choice([r.randint(0x300, 0x36F), r.randint(0x591, 0x5BD), r.randint(0x1DC0, 0x1DFF), 0x8E0, 0x1D165, 0x302A]))
                                 for _ in range(r.randint(1, 6)))
        return chr(r.randint(0, 0x10FFFF))

    text = "".join(piece() for _ in range(r.choice([0, 1, 2, 5, 10, 20])))
    return "".join(c for c in text if not 0xD800 <= ord(c) < 0xE000)


def real_lines(paths, most):
    lines = []
    for path in paths:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            lines += [line.rstrip("\n") for line in file]
    random.Random(1).shuffle(lines)
    return lines[:most]


# ---- comparisons ----


def byte_positions(text):
    positions = [0]
    for c in text:
        positions.append(positions[-1] + len(c.encode()))
    return positions


class Comparison:
    def __init__(self, name, ours, reference):
        self.name, self.ours, self.reference = name, ours, reference
        self.lines = self.tokens = self.differences = 0

    def differ(self, what, text, got, want):
        self.differences += 1
        if self.differences <= 5:
            print(f"DIFFERENT {self.name}: {what}\n  text {text!r}\n  got  {got}\n  want {want}")

    def same(self, what, texts, got, encoding):
        positions = [byte_positions(t) for t in texts]
        want = [(encoding.ids, "ids"), (encoding.type_ids, "segments")]
        for g, (w, part) in zip(got, want):
            if list(g) != list(w):
                return self.differ(f"{what}, {part}", texts, list(g), list(w))
        if got[2] is not None:
            offsets = [(0, 0) if s is None else (positions[s][b], positions[s][e])
                       for (b, e), s in zip(encoding.offsets, encoding.sequence_ids)]
            if got[2] != offsets:
                self.differ(f"{what}, offsets of {encoding.tokens}", texts, got[2], offsets)

    def run(self, lines, seed):
        r = random.Random(seed)
        self.reference.no_truncation()
        plain = [self.reference.encode(line, add_special_tokens=False) for line in lines]
        special = [self.reference.encode(line) for line in lines]
        pairs = [(lines[r.randrange(len(lines))], lines[r.randrange(len(lines))]) for _ in range(len(lines) // 10)]
        limits = r.sample(range(4, 60), 8)
        for line, a, b in zip(lines, plain, special):
            bytes_ = line.encode()
            self.same("encode", [line], self.ours.encode(bytes_), a)
            self.same("encode with special tokens", [line], self.ours.encode(bytes_, special=True), b)
            for skip in (False, True):
                want, got = self.reference.decode(b.ids, skip_special_tokens=skip), self.ours.decode(b.ids, skip)
                if got != want:
                    self.differ("decode", line, got, want)
            self.tokens += len(a.ids)
        for limit in limits:
            self.reference.enable_truncation(limit)
            for line in r.sample(lines, min(len(lines), len(lines) // 20 + 1)):
                self.same(f"at most {limit} tokens", [line], self.ours.encode(line.encode(), special=True, max_tokens=limit),
                          self.reference.encode(line))
            for a, b in pairs[: len(pairs) // 8 + 1]:
                self.same(f"a pair, at most {limit} tokens", [a, b],
                          self.ours.encode(a.encode(), b.encode(), special=True, max_tokens=limit), self.reference.encode(a, b))
            r.shuffle(pairs)
        self.reference.no_truncation()
        for a, b in pairs:
            self.same("a pair", [a, b], self.ours.encode(a.encode(), b.encode(), special=True), self.reference.encode(a, b))
        self.lines += len(lines)


def every_character(comparison):
    """Every character of Unicode in three surroundings."""
    characters = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for i in range(0, len(characters), 64):
        part = characters[i : i + 64]
        for line in ("".join(part), "a".join(part), " ".join(c + "\u0301" for c in part)):
            comparison.same("every character", [line], comparison.ours.encode(line.encode()),
                            comparison.reference.encode(line, add_special_tokens=False))
            comparison.lines += 1


def speed(comparison, lines, repeats=7):
    """Median over interleaved runs of the processor time of the reference divided by ours, and MB/s. Both use one thread."""
    texts = [line.encode() for line in lines]
    size = sum(map(len, texts)) / 1e6
    ratios, ours, theirs = [], [], []
    for i in range(repeats + 1):
        begun = time.process_time()
        comparison.ours.encode_all(texts)
        between = time.process_time()
        comparison.reference.encode_batch_fast(lines, add_special_tokens=False)
        ended = time.process_time()
        if i > 0:  # the first run warms the caches of both
            ours.append(size / (between - begun))
            theirs.append(size / (ended - between))
            ratios.append((ended - between) / (between - begun))
    return statistics.median(ratios), statistics.median(ours), statistics.median(theirs)


# ---- learning ----


def learn(build, texts, size, out):
    """Both programs learn from the same files. Returns the seconds of processor time of both."""
    from tokenizers import ByteLevelBPETokenizer

    def children():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    begun = children()
    subprocess.run([os.path.join(build, "hashattn"), "tokenizer", "train", *texts, "--vocab-size", str(size), "--out", out, "--quiet"], check=True)
    ours, begun = children() - begun, time.process_time()
    reference = ByteLevelBPETokenizer()
    reference.train(texts, vocab_size=size, min_frequency=2, show_progress=False,
                    special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    theirs = time.process_time() - begun
    mine, its = json.load(open(os.path.join(out, "tokenizer.json")))["model"], json.loads(reference._tokenizer.to_str())["model"]
    same = mine["vocab"] == its["vocab"] and [m.split(" ") for m in mine["merges"]] == [list(m) for m in its["merges"]]
    return same, ours, theirs


def variants(directory, learned):
    """Tokenizers of the reference with unusual settings, saved as tokenizer.json."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    def save(name, tokenizer):
        os.makedirs(os.path.join(directory, name))
        tokenizer.save(os.path.join(directory, name, "tokenizer.json"))
        return name, os.path.join(directory, name)

    added = [AddedToken("new york", lstrip=True), AddedToken("Token", single_word=True), AddedToken("  ", normalized=False),
             AddedToken("[MASK]", rstrip=True, special=True), AddedToken("<x>", lstrip=True, rstrip=True, normalized=False)]
    t = Tokenizer.from_file(os.path.join(learned, "tokenizer.json"))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=True)
    t.add_tokens(added)
    yield save("BPE, prefix space, added tokens", t)
    t = Tokenizer.from_file(os.path.join(learned, "tokenizer.json"))
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
        processors.TemplateProcessing(single="<s> $A </s> <pad>", pair="<s> $B:1 </s>:1 $A:0 </s>",
                                      special_tokens=[("<s>", 0), ("</s>", 2), ("<pad>", 1)])])
    yield save("BPE, template", t)
    letters = [chr(c) for c in range(33, 127)] + ["\u00e9", "\u4e2d", "e", "\u0130", "i", "\u1e69", "\u03c3", "\u00df"]
    vocab = {w: i for i, w in enumerate(dict.fromkeys(["[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + c for c in letters), "the", "##the", "token"]))}
    for settings in ((True, True, True, True), (True, True, None, False), (False, True, False, True), (True, False, True, False), (False, False, False, False)):
        t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=20))
        t.normalizer = normalizers.BertNormalizer(*settings)
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.decoder = decoders.WordPiece(cleanup=False)
        t.add_tokens(added)
        t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
        yield save("WordPiece " + "".join("-" if s is None else "ny"[s] for s in settings), t)


# ---- vectors for the tests ----

LEARNED_TEXT = ("The cat sat on the mat, and the dog sat on the log. Don't they'll say: it's 42 degrees, we've 1000 cats!\n"
                "the the cats catch  cattle\tand dogs; a caf\u00e9 in \u4e2d\u6587\n") * 3
WORDPIECE_VOCAB = ("[PAD] [UNK] [CLS] [SEP] [MASK] the cat ##s sat un ##aff ##able a ##b ##c b c i s ss ##s\u03c3 \u03c3 ! , ' \u4e2d \u6587 \u2260 = "
                   "1 ##2 ##23 cafe e \u00fc \u03b1 ##\u03b1 new york - new york").split(" ")


def print_vectors():
    """tests/text/reference_vectors.h: ids and byte offsets of the reference for two small tokenizers."""
    from tokenizers import AddedToken, ByteLevelBPETokenizer, Tokenizer, models, normalizers, pre_tokenizers, processors

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "text")
        open(path, "w", newline="").write(LEARNED_TEXT)
        learned = ByteLevelBPETokenizer()
        learned.train([path], vocab_size=320, min_frequency=2, show_progress=False, special_tokens=["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
        bpe = Tokenizer.from_str(learned._tokenizer.to_str())
    bpe.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    vocab = {w: i for i, w in enumerate(dict.fromkeys(WORDPIECE_VOCAB))}
    bert = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    bert.normalizer = normalizers.BertNormalizer()
    bert.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    bert.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    bert.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    r = random.Random(7)
    lines = ["", " ", "The cat sat.", "  the\n\n cats' don't they'll", "x" * 101, "caf\u00e9 cafe\u0301", "\u0130stanbul \u03a3\u03c3", "a\u0323\u0307b 123",
             "[MASK] un[MASK]affable <s> ", "\u4e2d\u6587 \u2260 = \u00a0\u3000!"] + [generated_line(r)[:24] for _ in range(50)]
    lines = [line for line in lines if "\0" not in line]
    def quoted(text):
        return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode()) + '"'

    print("/* Written by `bench/tokens.py BUILD --vectors`: what the reference library returns for two small tokenizers.\n"
          "   SPDX-License-Identifier: Apache-2.0 */\n#ifndef TESTS_TEXT_REFERENCE_VECTORS_H\n#define TESTS_TEXT_REFERENCE_VECTORS_H\n\n"
          "// clang-format off\nstatic const char vectors_text[] =")
    for line in LEARNED_TEXT.splitlines(keepends=True):
        print("    " + quoted(line))
    print("    ;\nstatic const char vectors_vocab[] =")
    for word in vocab:
        print("    " + quoted(word + "\n"))
    print("    ;\n/* ids, begin and end of each token, ended by -1 */\nstatic const struct vector {\n    const char *line;\n    int bpe[400], bert[400];\n} vectors[] = {")
    for line in lines:
        positions = byte_positions(line)
        rows = []
        for t in bpe, bert:
            e = t.encode(line, add_special_tokens=False)
            rows.append("{" + ", ".join(f"{i}, {positions[b]}, {positions[c]}" for i, (b, c) in zip(e.ids, e.offsets)) + (", " if e.ids else "") + "-1}")
        print("    {" + quoted(line) + ",\n     " + ",\n     ".join(rows) + "},")
    print("};\n// clang-format on\n\n#endif")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("texts", nargs="*")
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--vectors", action="store_true", help="print tests/text/reference_vectors.h")
    parser.add_argument("--lines", type=int, default=50000, help="generated lines; as many real ones are added")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vocab", action="append", default=[])
    parser.add_argument("--vocab-size", type=int, default=30000)
    arguments = parser.parse_args()
    environment = os.path.join(arguments.build, "tokenizers-env")
    if arguments.setup:
        here = os.path.dirname(os.path.abspath(__file__))
        return subprocess.run([os.path.join(here, "../tools/python_env.sh"), environment, sys.executable, *PACKAGES]).returncode
    enter(environment, "bench/tokens.py BUILD --setup")
    if arguments.vectors:
        return print_vectors()
    if not arguments.texts:
        parser.error("files of text are needed")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        learned = os.path.join(folder, "learned")
        size = sum(map(os.path.getsize, arguments.texts)) / 1e6
        same, ours, theirs = learn(arguments.build, arguments.texts, arguments.vocab_size, learned)
        failed |= not same
        print(f"learn {arguments.vocab_size} tokens from {size:.1f} MB: {'same' if same else 'DIFFERENT'} vocabulary and merges; "
              f"{size / ours:.1f} MB/s, reference {size / theirs:.1f} MB/s, ratio {theirs / ours:.1f}", flush=True)
        r = random.Random(arguments.seed)
        generated = [generated_line(r) for _ in range(arguments.lines)]
        real = real_lines(arguments.texts, arguments.lines)
        print("| tokenizer | lines | tokens | differences | MB/s | reference | ratio |\n|---|---|---|---|---|---|---|", flush=True)
        few = max(1, arguments.lines // 10)
        cases = [(os.path.basename(os.path.normpath(d)), d, True) for d in arguments.vocab]
        cases += [("learned here", learned, True)] + [(n, d, False) for n, d in variants(folder, learned)]
        for name, directory, whole in cases:
            comparison = Comparison(name, Ours(arguments.build, directory), reference_of(directory))
            comparison.run(generated if whole else generated[:few], arguments.seed)
            comparison.run(real if whole else real[:few], arguments.seed + 1)
            if directory != learned:
                every_character(comparison)
            ratio, mine, its = speed(comparison, real[:20000])
            failed |= comparison.differences > 0
            print(f"| {name} | {comparison.lines:,} | {comparison.tokens:,} | {comparison.differences} | {mine:.1f} | {its:.1f} | {ratio:.2f} |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
