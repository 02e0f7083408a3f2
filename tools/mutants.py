#!/usr/bin/env python3
"""Mutation testing: changes the source in one place at a time and checks whether a test fails.

A mutant is one changed operator, constant, condition, status, argument order or one removed statement in src/ or cli/.
It is killed if a test fails, crashes or exceeds its time limit; a mutant that no test detects survives and shows a gap.
Not counted are mutants that do not compile or give the same object code, and those that no test can distinguish from the
original, which are listed with the reason in tests/mutants-equivalent.txt.

The tree is copied into the build folder and compiled once; the tests are linked with one shared library, so that a mutant
costs one compilation and one link. With --sanitize address,undefined leaks, overruns and undefined behaviour count as
failures, as in tools/sanitize.sh, except in src/kernels/: their compilation would take minutes per mutant, and buffers in
their tests end at an unmapped page. Whether a survivor changes the object code is still decided without sanitizers,
because they record the columns of the source. The tests closest to the file run first: its own test, its folder, the folders above
it, the tool. The first failure ends the run. A mutant whose tests take longer than --seconds in total counts as a survivor.

The seed determines the mutants: source lines are shuffled per folder, and one change is drawn for each line. Every folder
gets at least 12 mutants (with a small --number: an equal share); the rest is divided by the number of lines. Results are
appended to BUILD/log-SEED.jsonl, and an interrupted run continues from there (delete it after changing the source). With
--again the survivors in the log are tried once more, with more --seconds or new tests.

  tools/mutants.py --seed 7 --number 200              all folders
  tools/mutants.py --seed 7 --number 30 io base       two folders
  tools/mutants.py --only src/io/json.c:309           every mutant of a file or line
SPDX-License-Identifier: Apache-2.0
"""
import argparse, concurrent.futures, hashlib, json, os, random, re, resource, shlex, shutil, signal, subprocess, sys, time

ORDER = "base io kernels parts attention nn objectives models tasks train measure api cli".split()
EQUIVALENT = "tests/mutants-equivalent.txt"
LEAST = 12
LIBRARIES = {"objects": "libhashattn.so", "checked_objects": "libchecked.so"}  # of the tool; of the tests, with assertions
LEAKS = "leak:__argz_add_sep"  # glibc's newlocale does not free the path that it makes if LOCPATH is set

# ---- possible changes of a line ----------------------------------------------------------------------------------------
NAME = r"[&*]?[A-Za-z_][\w.\[\]]*(?:->[\w.\[\]]+)*"
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
         "*": "/", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&", "true": "false",
         "false": "true", "++": "--", "--": "++", "HASHATTN_OK": "HASHATTN_INVALID", "HASHATTN_INVALID": "HASHATTN_BAD_FILE",
         "HASHATTN_BAD_FILE": "HASHATTN_INVALID", "HASHATTN_NO_MEMORY": "HASHATTN_INVALID", "EXIT_GOOD": "EXIT_USAGE",
         "EXIT_USAGE": "EXIT_RESOURCE", "EXIT_RESOURCE": "EXIT_USAGE"}
OPERATOR = re.compile(r"(?<=[\w)\]\"'] )(<=|>=|==|!=|<<|>>|&&|\|\||[-+*/%<>&|^])(?=\s)|(\+\+|--)|"
                      r"\b(true|false|HASHATTN_(?:OK|INVALID|BAD_FILE|NO_MEMORY)|EXIT_(?:GOOD|USAGE|ROOM))\b")
ASSIGN = re.compile(r"(?<= )([-+*/|&^]|<<|>>)=(?= )")
NUMBER = re.compile(r"(?<![\w.])(?:(\d+)([uUlL]*)|(\d+\.\d*(?:e[-+]?\d+)?)(f?))(?![\w.])")
STATEMENT = re.compile(r"(?:break|continue|[A-Za-z_*(][^;{}=]*(?:\(.*\)|(?<![<>=!])=[^=].*|\+\+|--|[-+*/|&^]=.*));", re.S)
DECLARATION = re.compile(r"(?:const|static|struct|enum|unsigned|else)\b|[a-z_]\w* +\**[a-z_]\w*( =|\[|,|;)")
RETURN = re.compile(r"return ([^;{}]+);")
COMMUTATIVE = re.compile(r"\b(?:size_product|size_sum|size_min|size_max|fmin|fmax|fminf|fmaxf)\($")
ARGUMENTS = re.compile(rf"(?<=[(,])(\s*)({NAME})(,\s+)({NAME})(?=[,)])")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def masked(text):
    """The text with comments, strings, preprocessor lines and assertions replaced by blanks, so that offsets stay valid."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*|'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.S | re.M)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', lambda m: '"' + " " * (len(m.group()) - 2) + '"', text)
    return re.sub(r"\b(?:_Static_assert|assert)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\);", blank, text)


def bodies(code):
    """Spans of function bodies (True) and of initialisers (False). Types and prototypes are not changed."""
    depth, begin, at_zero = 0, 0, 0
    for i, c in enumerate(code):
        if c == "{":
            if depth == 0:
                begin = i
            depth += 1
        elif c == "}":
            depth -= 1
            before = code[at_zero:begin].rstrip()
            if depth == 0:
                if before.endswith(")") or before.endswith("="):
                    yield begin, i, before.endswith(")")
                at_zero = i + 1
        elif c == ";" and depth == 0:
            if "=" in code[at_zero:i]:
                yield at_zero + code[at_zero:i].index("="), i, False
            at_zero = i + 1


def changes(text):
    """All mutants of a source text as (begin, end, new text)."""
    code = masked(text)
    for first, last, is_function in bodies(code):
        for m in OPERATOR.finditer(code, first, last):
            yield m.start(), m.end(), SWAPS[m.group()]
        for m in NUMBER.finditer(code, first, last):
            if m.group(1):
                yield m.start(), m.end(), str(int(m.group(1)) + 1) + m.group(2)
                if int(m.group(1)) > 0:
                    yield m.start(), m.end(), str(int(m.group(1)) - 1) + m.group(2)
            else:
                yield m.start(), m.end(), repr(float(m.group(3)) + 1) + m.group(4)
        for m in ARGUMENTS.finditer(code, first, last):
            if not COMMUTATIVE.search(code[:m.start()]):
                yield m.start(), m.end(), m.group(1) + m.group(4) + m.group(3) + m.group(2)
        if not is_function:
            continue
        for m in ASSIGN.finditer(code, first, last):
            yield m.start(), m.end(), "="
        for m in re.finditer(r"\bif \(", code[:last]):
            depth, end = 1, m.end()
            while depth > 0 and end < last:
                depth += {"(": 1, ")": -1}.get(code[end], 0)
                end += 1
            if m.start() >= first:
                yield m.end(), end - 1, "!(" + text[m.end():end - 1] + ")"
        for m in re.finditer(r"(?:[;{})]|\belse)\s*\n\s*(?=\S)", code[:last]):
            begin = m.end()
            if begin <= first or code[begin] in "{}#":
                continue
            found = STATEMENT.match(code, begin, min(last, (code + ";").index(";", begin) + 1))
            if found and not re.match(r"(?:for|if|while|switch|return|case|do)\b", code[begin:]) \
                    and not DECLARATION.match(code, begin):
                yield begin, found.end(), ";"
            found = RETURN.match(code, begin, last)
            if found and found.group(1).strip() not in ("0", "NULL", "false", "HASHATTN_OK"):
                yield begin, found.end(), "return 0;"


def flat(text):
    return " ".join(text.split())


def mutants_of(path, text):
    """The mutants of one file, each with its line number, the lines before and after the change, and its offsets."""
    result = []
    for begin, end, new in changes(text):
        from_, to = text.rfind("\n", 0, begin) + 1, text.find("\n", end)
        result.append({"file": path, "line": text.count("\n", 0, begin) + 1, "place": [begin, end], "new": new,
                       "old_text": flat(text[from_:to]), "new_text": flat(text[from_:begin] + new + text[end:to])})
    return result


def read_equivalents():
    """Reads blocks of three lines, `src/x/y.c: reason`, `- old line`, `+ new line`, into a set of (file, old, new)."""
    listed, file, old = set(), None, None
    for line in open(EQUIVALENT) if os.path.exists(EQUIVALENT) else []:
        if line.startswith("- "):
            old = flat(line[2:])
        elif line.startswith("+ "):
            listed.add((file, old, flat(line[2:])))
        elif re.match(r"(?:src|cli)/\S+: ", line):
            file = line.split(":")[0]
    return listed


# ---- the build --------------------------------------------------------------------------------------------------------
class Build:
    def __init__(self, folder, jobs, sanitize):
        self.folder, self.tree, self.sanitize = os.path.abspath(folder), os.path.abspath(folder) + "/tree", sanitize
        files = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], text=True).split("\n")
        shutil.rmtree(self.tree, ignore_errors=True)
        for file in filter(os.path.isfile, files):
            os.makedirs(os.path.dirname(f"{self.tree}/{file}"), exist_ok=True)
            shutil.copy2(file, f"{self.tree}/{file}")
        subprocess.run(["cmake", "-S", self.tree, "-B", self.folder + "/cmake", "-DCMAKE_BUILD_TYPE=Release",
                        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", f"-DHASHATTN_SANITIZE={sanitize}"],
                       check=True, stdout=subprocess.DEVNULL)
        with open(self.folder + "/leaks", "w") as f:
            f.write(LEAKS + "\n")
        self.environment = {**os.environ, "TMPDIR": self.folder + "/tmp"}
        if sanitize:  # a test that replaces a table of the library has two of one name
            self.environment |= {
                "HASHATTN_SANITIZED": sanitize, "UBSAN_OPTIONS": "halt_on_error=1", "TSAN_OPTIONS": "halt_on_error=1",
                "LSAN_OPTIONS": f"suppressions={self.folder}/leaks:print_suppressions=0",
                "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_odr_violation=0:hard_rss_limit_mb=8000"}
        self.commands, self.targets, self.users = {}, {}, {}
        for row in json.load(open(self.folder + "/cmake/compile_commands.json")):
            words = os.environ.get("CMAKE_C_COMPILER_LAUNCHER", "").split() + shlex.split(row["command"])
            target = re.match(r"CMakeFiles/(\S+)\.dir/", words[words.index("-o") + 1]).group(1)
            if target in ("grown_api", "hashattn-mpi") or target.startswith("test_abi_"):  # need generated headers, or MPI
                continue
            hidden = None if target == "tool_objects" else "-fvisibility=hidden"  # tests replace functions of the library
            words = [w for w in words if w != hidden and not w.startswith(("-W", "-g"))]  # -g records columns
            if row["file"].startswith(self.tree + "/src/kernels/"):
                words = [w for w in words if not w.startswith("-fsanitize=")]
            at = words.index("-o") + 1
            words[at] = f"{self.folder}/objects/{target}/{os.path.relpath(row['file'], self.tree)}.o"
            words += ["-fno-semantic-interposition", "-Werror=incompatible-pointer-types", "-Werror=int-conversion",
                      "-MMD", "-MF", words[at] + ".d"]
            self.commands[words[at]] = words
            self.targets.setdefault(target, []).append(words[at])
        if "checked_objects" in self.targets:  # kernels of instruction sets are compiled once (CMakeLists.txt)
            self.targets["checked_objects"] += [o for o in self.targets["objects"] if "/kernels/isa_" in o]
        packages = "jansson libutf8proc cmocka".split()
        self.libraries = subprocess.check_output(["pkg-config", "--libs", *packages], text=True).split() + ["-lm", "-lpthread"]
        if any(c.endswith("/kernels/product.c.o") for c in self.commands):
            self.libraries += ["-ldnnl", "-lgomp"]
        old = [o for o in self.commands if not self.is_made(o)]
        print(f"compiling {len(old)} files", file=sys.stderr)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            failed = [o for o, ok in zip(old, pool.map(self.compile, old)) if not ok]
            assert not failed, f"the source does not compile: {failed}"
            for object_ in self.commands:
                self.note_made(object_)
                for file in open(object_ + ".d").read().split():  # a compiler cache may write relative paths
                    if os.path.abspath(file).startswith(self.tree):
                        self.users.setdefault(os.path.relpath(file, self.tree), set()).add(object_)
            below = [t for t in (*LIBRARIES, "support") if t in self.targets]  # sanitizers have one set of objects
            for target in below:
                self.link(target)
            list(pool.map(self.link, [t for t in self.targets if t not in below]))

    def compile(self, object_):
        os.makedirs(os.path.dirname(object_), exist_ok=True)
        return subprocess.run(self.commands[object_], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def is_made(self, object_):
        """True if the object is of this source and command: then an earlier call compiled it and no mutant was left in it."""
        if not os.path.exists(object_ + ".made") or open(object_ + ".made").read() != shlex.join(self.commands[object_]):
            return False
        files = [f for f in open(object_ + ".d").read().replace("\\\n", " ").split() if not f.endswith(":")]
        return all(os.path.exists(f) and os.path.getmtime(f) < os.path.getmtime(object_) for f in files)

    def note_made(self, object_):
        with open(object_ + ".made", "w") as f:
            f.write(shlex.join(self.commands[object_]))

    def plain(self, object_):
        """The object code without sanitizers, or None if the source does not compile."""
        command = [w for w in self.commands[object_] if not w.startswith("-fsanitize=")]
        command[command.index("-o") + 1] = self.folder + "/plain.o"
        command[command.index("-MF") + 1] = self.folder + "/plain.d"
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        return open(self.folder + "/plain.o", "rb").read() if done else None

    def output(self, target):
        known = {**LIBRARIES, "support": "libsupport.so", "tool_objects": "hashattn"}
        return f"{self.folder}/{known.get(target, 'tests/' + target)}"

    def link(self, target):
        output, shared = self.output(target), target in (*LIBRARIES, "support")
        key = hashlib.sha256(b"".join(open(o, "rb").read() for o in self.targets[target])).hexdigest()
        if os.path.exists(output) and os.path.exists(output + ".key") and open(output + ".key").read() == key:
            return
        os.makedirs(os.path.dirname(output), exist_ok=True)
        library = "-lchecked" if "checked_objects" in self.targets else "-lhashattn"
        above = [] if target in LIBRARIES else {"support": [library], "tool_objects": ["-lhashattn"]}.get(
            target, ["-lsupport", library])
        sanitize = [f"-fsanitize={self.sanitize}"] if self.sanitize else []
        subprocess.run(["cc", *sanitize, *(["-shared"] if shared else []), "-o", output, *self.targets[target], f"-L{self.folder}",
                        f"-Wl,-rpath,{self.folder}", *above, *self.libraries], check=True)
        with open(output + ".key", "w") as f:
            f.write(key)

    def may_be_report(self, name):
        """True if a sanitizer may have failed the last test: then even a mutant of the same object code may fail it."""
        output = open(self.folder + "/output.txt", "rb").read()
        return self.sanitize != "" and ("/" in name or b"Sanitizer" in output or b"runtime error:" in output)

    def holding(self, objects):
        """The targets that contain any of the objects."""
        return [t for t in self.targets if set(objects) & set(self.targets[t])]


# ---- the tests --------------------------------------------------------------------------------------------------------
def run_test(build, name, limit_cpu, limit_wall):
    """Returns 0 or the failure, and the seconds. The limit is on processor time, so that a busy machine kills no mutant."""
    command = ["sh", f"tests/{name}.sh", build.folder] if "/" in name else [f"{build.folder}/tests/{name}"]

    def limits():
        for number in (signal.SIGHUP, signal.SIGINT):  # a background process may have inherited that they are ignored
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (limit_cpu, limit_cpu + 1))
        if not build.sanitize:  # sanitizers reserve terabytes of addresses
            resource.setrlimit(resource.RLIMIT_AS, (1 << 36, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 31, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    scratch = build.folder + "/tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    begin = time.time()
    with open(build.folder + "/output.txt", "w") as output:
        process = subprocess.Popen(command, cwd=build.tree, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                                   env=build.environment, start_new_session=True, preexec_fn=limits)
        try:
            code = process.wait(limit_wall)
        except subprocess.TimeoutExpired:
            code = "time"
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    return "time" if code in ("time", -signal.SIGXCPU) else code, time.time() - begin


def tests_for(tests, path):
    """The names of the tests in the order in which they run, each with its distance: 0 own, 1 folder, 2 above, 3 tool."""
    folder, unit = os.path.dirname(path).removeprefix("src/"), os.path.splitext(os.path.basename(path))[0]
    floor, rank = folder.split("/")[0], {name: i for i, name in enumerate(ORDER)}
    result = []
    for name, test in tests.items():
        if name.startswith("cli/"):
            near = 3 if floor != "cli" else 0 if unit + ".c" in test["covers"] else 1
        elif test["folder"].split("/")[0] == floor:
            own = ("test_" + unit, "test_slots_" + re.sub("^(simd|ref)_", "", unit))
            near = 0 if name in own or unit + ".c" in test["covers"] else 1 if test["folder"] == folder else 2
        elif unit + ".c" in test["covers"]:
            near = 2
        elif floor != "cli" and rank.get(test["folder"].split("/")[0], 99) >= rank[floor]:
            near = 2
        else:
            continue
        result.append((near, test["seconds"], name))
    return [(near, name) for near, _, name in sorted(result)]


def baseline(build):
    """Runs every test on the unchanged source and records its seconds; tests that fail here are left out."""
    known, path = {}, build.folder + "/baseline.json"
    if os.path.exists(path):
        known = json.load(open(path))
    tests = {}
    scripts = ["cli/" + f[:-3] for f in sorted(os.listdir("tests/cli")) if f.startswith("test_") and f.endswith(".sh") and f != "test_install.sh"]
    for name in [t for t in sorted(build.targets) if t.startswith("test_")] + scripts:
        source = f"tests/{name}.sh" if "/" in name else next(
            c for c in build.commands[build.targets[name][0]] if c.endswith(".c")).replace(build.tree + "/", "")
        text = open(source).read()
        digest = hashlib.sha256(text.encode()).hexdigest()
        covers = re.findall(r"[\w]+\.c\b", "".join(re.findall(r"Covers:[^.]*\.c(?:[^.]*\.c)*", text)))
        test = {"folder": os.path.dirname(source).removeprefix("tests/"), "covers": covers, "digest": digest}
        if known.get(name, {}).get("digest") == digest:
            test["seconds"] = known[name]["seconds"]
        else:
            for _ in range(2): # a timing test may fail once on a busy machine
                failed, test["seconds"] = run_test(build, name, 600, 600)
                if not failed:
                    break
            if failed:
                print(f"{name} fails on the unchanged source ({failed}) and is left out", file=sys.stderr)
                continue
        tests[name] = test
        json.dump(tests | {n: t for n, t in known.items() if n not in tests}, open(path, "w"), indent=1)
    return tests


def is_same(build, path, text, before, objects):
    """True if the file at path gives the object code of text, its original, where both are compiled without sanitizers."""
    changed = [o for o in objects if open(o, "rb").read() != before[o]]
    if not all(any(w.startswith("-fsanitize=") for w in build.commands[o]) for o in changed):
        return False
    codes = [build.plain(o) for o in changed]
    with open(path) as f:
        mutated = f.read()
    with open(path, "w") as f:
        f.write(text)
    same = all(build.plain(o) == code for o, code in zip(changed, codes))
    with open(path, "w") as f:
        f.write(mutated)
    return same


def try_mutant(build, tests, mutant, most_seconds):
    """Tries one mutant and returns its record: invalid (and why), killed (by which test) or survived."""
    path = f"{build.tree}/{mutant['file']}"
    text, (begin, end) = open(path).read(), mutant["place"]
    objects = sorted(build.users.get(mutant["file"], ()))
    before = {file: open(file, "rb").read() for file in objects + [build.output(t) for t in build.holding(objects)]}
    record = {**mutant, "result": "survived"}
    for object_ in objects:
        os.remove(object_ + ".made")
    try:
        with open(path, "w") as f:
            f.write(text[:begin] + mutant["new"] + text[end:])
        for_tool = set() if build.sanitize else set(objects) & set(build.targets["objects"])  # compiled only before the tests of the tool
        for_tests = [o for o in objects if o not in for_tool]
        if not objects or not all(map(build.compile, for_tests)):
            return {**record, "result": "invalid", "why": "does not compile" if objects else "not built"}
        same = {**record, "result": "invalid", "why": "same object code"}
        if all(open(o, "rb").read() == before[o] for o in for_tests):
            return same
        for target in build.holding(for_tests):
            build.link(target)
        spent, began = 0, time.time()
        for near, name in tests_for(tests, mutant["file"]):
            seconds = tests[name]["seconds"]
            if near > 0 and spent + seconds > most_seconds:
                continue
            spent += seconds
            if for_tool and "/" in name:
                list(map(build.compile, for_tool))
                build.link("objects")
                for_tool = set()
            limits = int(10 + 5 * seconds), 60 + 10 * seconds
            failed, _ = run_test(build, name, *limits)
            if failed and (failed == "time" or run_test(build, name, *limits)[0]): # twice, because a busy machine may fail a test
                if build.may_be_report(name) and is_same(build, path, text, before, for_tests):
                    return same
                return {**record, "result": "killed", "by": name, "near": near, "how": failed, "seconds": time.time() - began}
        return same if is_same(build, path, text, before, for_tests) else {**record, "tests_seconds": spent}
    finally:
        with open(path, "w") as f:
            f.write(text)
        for file, content in before.items():
            with open(file, "wb") as f:
                f.write(content)
            if os.path.exists(file + ".key"):
                os.remove(file + ".key")
        for object_ in objects:
            build.note_made(object_)


# ---- the run ----------------------------------------------------------------------------------------------------------
def draw(folder, seed, listed):
    """Mutants of a folder in an order determined by the seed, one per source line."""
    chance, lines = random.Random(f"{seed}:{folder}"), {}
    root = folder if folder == "cli" else "src/" + folder
    for path in sorted(f"{place}/{name}" for place, _, names in os.walk(root) for name in names):
        if path.endswith((".c", ".h")):
            for mutant in mutants_of(path, open(path).read()):
                if (mutant["file"], mutant["old_text"], mutant["new_text"]) not in listed:
                    lines.setdefault((mutant["file"], mutant["line"]), []).append(mutant)
    order = list(lines)
    chance.shuffle(order)
    return [chance.choice(lines[line]) for line in order]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", nargs="*", default=ORDER, help="folders of src/, or cli (default: all)")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--number", type=int, default=200, help="number of valid mutants (default 200)")
    options.add_argument("--seconds", type=float, default=120, help="limit for the tests of one mutant, not counting the file's own test (default 120)")
    options.add_argument("--again", action="store_true", help="try the survivors of the log again")
    options.add_argument("--only", action="append", help="FILE or FILE:LINE: try all its mutants instead of a sample")
    options.add_argument("--sanitize", default="", help="sanitizers of the build, such as address,undefined (default: none)")
    options.add_argument("--build", default="build-mutants")
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    given = options.parse_args()
    unknown = set(given.folders) - set(ORDER)
    if unknown:
        options.error(f"no folder {', '.join(sorted(unknown))}; there are {' '.join(ORDER)}")
    listed = read_equivalents()
    build = Build(given.build, given.jobs, given.sanitize)
    tests = baseline(build)
    if given.only:
        for wanted in given.only:
            file, _, line = wanted.partition(":")
            for mutant in mutants_of(file, open(file).read()):
                if not line or mutant["line"] == int(line):
                    show(try_mutant(build, tests, mutant, given.seconds))
        return
    drawn = {f: draw(f, given.seed, listed) for f in given.folders}
    total = sum(map(len, drawn.values()))
    least = min(LEAST, given.number // len(drawn))
    rest = given.number - least * len(drawn)
    shares = {f: least + rest * len(drawn[f]) // total for f in drawn}
    log, known = f"{given.build}/log-{given.seed}.jsonl", {}
    for line in open(log) if os.path.exists(log) else []:
        record = json.loads(line)
        known[record["file"], record["old_text"], record["new_text"], record["line"]] = record
    results, left = [], {folder: iter(mutants) for folder, mutants in drawn.items()}
    while left:  # round robin, so that an interrupted run covers every folder
        for folder, mutants in list(left.items()):
            for mutant in mutants:
                record = known.get((mutant["file"], mutant["old_text"], mutant["new_text"], mutant["line"]))
                if record is None or given.again and record["result"] == "survived":
                    record = try_mutant(build, tests, mutant, given.seconds)
                    with open(log, "a") as f:
                        f.write(json.dumps(record) + "\n")
                if record["result"] != "invalid":
                    results.append({**record, "folder": folder})
                    show(record)
                    break
            shares[folder] -= 1
            if shares[folder] == 0:
                del left[folder]
    report(results, given)


def show(record):
    how = f"killed by {record['by']} ({record['how']})" if record["result"] == "killed" else record.get("why", "SURVIVED")
    print(f"{record['file']}:{record['line']}: {how}\n  - {record['old_text']}\n  + {record['new_text']}", flush=True)


def report(results, given):
    print(f"\nseed {given.seed}, {len(results)} mutants\n")
    print("| folder | mutants | killed | by the file's test | its folder | folders above | tool | by time |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for folder in [*given.folders, "all"]:
        rows = [r for r in results if folder in (r["folder"], "all")]
        dead = [r for r in rows if r["result"] == "killed"]
        near = [sum(r["near"] == n for r in dead) for n in range(4)]
        print(f"| {folder} | {len(rows)} | {len(dead)} ({100 * len(dead) // max(1, len(rows))} %) | "
              f"{' | '.join(map(str, near))} | {sum(r['how'] == 'time' for r in dead)} |")


if __name__ == "__main__":
    main()
