/* Only system calls that look, and one that removes a planted file.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/tool/outputs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/shared/tool/tool.h"

/* A path as its directory and the name there. */
struct parted {
    char *copy; /* owned, holds both; NULL: no memory */
    const char *parent, *name;
};

static struct parted part(const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL)
        return (struct parted){NULL, NULL, NULL};
    for (size_t end = strlen(copy); end > 1 && copy[end - 1] == '/';)
        copy[--end] = '\0';
    char *slash = strrchr(copy, '/');
    if (slash == NULL)
        return (struct parted){copy, ".", copy};
    *slash = '\0';
    return (struct parted){copy, slash == copy ? "/" : copy, slash + 1};
}

/* 0, or the errno of making an entry in the directory of the path. */
static int check_parent(const char *path)
{
    struct parted parted = part(path);
    struct stat facts;
    int error = parted.copy == NULL                       ? ENOMEM
                : stat(parted.parent, &facts) != 0        ? errno
                : !S_ISDIR(facts.st_mode)                 ? ENOTDIR
                : access(parted.parent, W_OK | X_OK) != 0 ? errno
                                                          : 0;
    free(parted.copy);
    return error;
}

int outputs_check_file(const char *path)
{
    struct stat facts;
    int error = 0;
    if (strcmp(path, "-") == 0)
        return EXIT_GOOD;
    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) /* written in place */
        error = S_ISDIR(facts.st_mode) ? EISDIR : access(path, W_OK) != 0 ? errno : 0;
    else if (lstat(path, &facts) != 0 || !S_ISLNK(facts.st_mode)) /* the target of a link is elsewhere */
        error = check_parent(path);
    return error == 0 ? EXIT_GOOD : tool_fail(EXIT_RESOURCE, "%s: cannot write: %s", path, strerror(error));
}

int outputs_check_directory(const char *path)
{
    struct stat facts;
    int error = 0;
    if (stat(path, &facts) != 0)
        error = check_parent(path);
    else if (!S_ISDIR(facts.st_mode))
        error = ENOTDIR;
    else if (access(path, W_OK | X_OK) != 0)
        error = errno;
    return error == 0 ? EXIT_GOOD
                      : tool_fail(EXIT_RESOURCE, "%s: cannot make the directory: %s", path, strerror(error));
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(word, *words) != 0)
        words++;
    return *words != NULL;
}

static bool ends_in(const char *path, const char *const *endings)
{
    size_t size = strlen(path);
    for (; *endings != NULL; endings++)
        if (size >= strlen(*endings) && strcmp(path + size - strlen(*endings), *endings) == 0)
            return true;
    return false;
}

/* True if the file is or would be in the folder, or in a folder of that. */
static bool is_below(const char *path, const struct stat *folder)
{
    struct parted parted = part(path);
    char *place = parted.copy == NULL ? NULL : realpath(parted.parent, NULL);
    struct stat facts;
    bool is = place != NULL && stat(place, &facts) == 0 && same(&facts, folder);
    if (place != NULL && !is) {
        char *slash = strrchr(place, '/');
        slash[slash == place] = '\0';
        is = stat(place, &facts) == 0 && same(&facts, folder);
    }
    free(place);
    free(parted.copy);
    return is;
}

/* True if a reader of the folder reads this file too. */
static bool is_document(const char *path, const struct stat *folder)
{
    static const char *const endings[] = {".txt", ".jsonl", ".csv", ".tsv", NULL};
    char *place = ends_in(path, endings) ? realpath(path, NULL) : NULL;
    bool is = place != NULL && is_below(place, folder);
    free(place);
    return is;
}

/* True if the file has its place in the folder, and a name that a run, a checkpoint or a tokenizer has. */
static bool is_of_model(const char *path, const struct stat *folder)
{
    static const char *const endings[] = {".safetensors", ".next", "config.json", ".index.json", NULL};
    static const char *const names[] = {"trainer.json",
                                        "log.jsonl",
                                        "lock",
                                        "tokenizer.json",
                                        "vocab.txt",
                                        "vocab.json",
                                        "merges.txt",
                                        "encoder.json",
                                        "added_tokens.json",
                                        "special_tokens_map.json",
                                        "vocab.bpe",
                                        "modules.json",
                                        "config_sentence_transformers.json",
                                        NULL};
    struct parted parted = part(path);
    bool is = parted.copy != NULL && (ends_in(parted.name, endings) || is_one_of(parted.name, names)) &&
              is_below(path, folder);
    free(parted.copy);
    return is;
}

int outputs_check_inputs(const char *option, const char *path, const char *const *inputs, size_t count)
{
    struct stat out, in;
    if (path == NULL || strcmp(path, "-") == 0 || stat(path, &out) != 0 || !S_ISREG(out.st_mode))
        return EXIT_GOOD;
    for (size_t i = 0; i < count; i++) {
        bool found = inputs[i] != NULL &&
                     (strcmp(inputs[i], "-") == 0 ? fstat(STDIN_FILENO, &in) : stat(inputs[i], &in)) == 0;
        if (found && (same(&out, &in) || (S_ISDIR(in.st_mode) && is_document(path, &in))))
            return tool_fail(EXIT_USAGE, "--%s %s is also an input; give another name", option, path);
    }
    return EXIT_GOOD;
}

int outputs_check_model(const char *option, const char *path, const char *model)
{
    struct stat facts;
    if (path == NULL || model == NULL || strcmp(path, "-") == 0 || stat(model, &facts) != 0)
        return EXIT_GOOD;
    if (!S_ISDIR(facts.st_mode))
        return outputs_check_inputs(option, path, &model, 1);
    char *place = realpath(path, NULL); /* of a link to a file of the model */
    bool found = is_of_model(path, &facts) || (place != NULL && is_of_model(place, &facts));
    free(place);
    return found ? tool_fail(EXIT_USAGE, "--%s %s is a file of %s; give another name", option, path, model)
                 : EXIT_GOOD;
}

/* True if neither file is there, and both would be the same entry of a directory. */
static bool same_missing(const char *path, const char *other)
{
    struct parted a = part(path), b = part(other);
    struct stat first, second;
    bool is = a.copy != NULL && b.copy != NULL && strcmp(a.name, b.name) == 0 &&
              stat(a.parent, &first) == 0 && stat(b.parent, &second) == 0 && same(&first, &second);
    free(a.copy);
    free(b.copy);
    return is;
}

int outputs_check_two(const char *option, const char *path, const char *other, const char *other_path)
{
    struct stat first, second;
    if (path == NULL || other_path == NULL)
        return EXIT_GOOD;
    bool standard = strcmp(path, "-") == 0, other_standard = strcmp(other_path, "-") == 0;
    bool there = (standard ? fstat(STDOUT_FILENO, &first) : stat(path, &first)) == 0;
    bool other_there = (other_standard ? fstat(STDOUT_FILENO, &second) : stat(other_path, &second)) == 0;
    bool is = (standard && other_standard) ||
              (there && other_there ? !S_ISCHR(first.st_mode) && same(&first, &second)
                                    : !there && !other_there && same_missing(path, other_path));
    return is ? tool_fail(EXIT_USAGE, "--%s %s is also the output of --%s; give another name", option, path,
                          other)
              : EXIT_GOOD;
}

void outputs_own(const char *path)
{
    struct stat facts;
    if (lstat(path, &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode))
        unlink(path);
}
