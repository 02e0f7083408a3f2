/* Replays the corpus of one fuzz target as a test: every file, every prefix of it, and files with a few bytes
   changed at random (the same ones in every run). Each input ends at the end of its own heap block, so that a
   sanitizer detects an access one byte past it. A failure is a crash or an abort of the target.
   SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "fuzz/fuzz.h"
#include "support/check.h"

enum {
    MAX_FILES = 200,
    MAX_SIZE = 1 << 20, /* bytes of a corpus file */
    MAX_PREFIXES = 600, /* of one file: the first ones and the last one */
    NUM_CHANGED = 5000, /* changed inputs in all */
    MAX_CHANGES = 4,    /* bytes changed in one */
};

struct corpus {
    struct {
        char *bytes;
        size_t size;
    } files[MAX_FILES];
    size_t count;
};

static int load(void **state)
{
    static struct corpus corpus;
    struct host host;
    host_init(&host);
    struct dirent **entries;
    int count = scandir(FUZZ_CORPUS, &entries, NULL, alphasort); /* sorted: the same inputs in every run */
    if (count < 0)
        return -1;
    for (int i = 0; i < count; i++) {
        char path[4096];
        struct stat facts;
        if (file_join(&host, FUZZ_CORPUS, entries[i]->d_name, path, sizeof path) != HASHATTN_OK ||
            stat(path, &facts) != 0 || !S_ISREG(facts.st_mode))
            continue;
        if (corpus.count == MAX_FILES || file_read(&host, path, MAX_SIZE, &corpus.files[corpus.count].bytes,
                                                   &corpus.files[corpus.count].size) != HASHATTN_OK)
            return -1;
        corpus.count++;
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    *state = &corpus;
    return corpus.count > 0 ? 0 : -1;
}

static int unload(void **state)
{
    struct corpus *corpus = *state;
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < corpus->count; i++)
        memory_free(&host, corpus->files[i].bytes);
    return 0;
}

static void replay(const void *bytes, size_t size)
{
    uint8_t *input = malloc(size > 0 ? size : 1);
    memcpy(input, bytes, size);
    assert_int_equal(LLVMFuzzerTestOneInput(input, size), 0);
    free(input);
}

static void every_file(void **state)
{
    const struct corpus *corpus = *state;
    for (size_t i = 0; i < corpus->count; i++)
        replay(corpus->files[i].bytes, corpus->files[i].size);
}

static void every_prefix(void **state)
{
    const struct corpus *corpus = *state;
    for (size_t i = 0; i < corpus->count; i++)
        for (size_t size = 0; size < corpus->files[i].size && size < MAX_PREFIXES; size++)
            replay(corpus->files[i].bytes, size);
}

static void changed_bytes(void **state)
{
    const struct corpus *corpus = *state;
    struct random random = random_open(random_key(1, RANDOM_DATA, 0));
    char *changed = malloc(MAX_SIZE);
    for (size_t n = 0; n < NUM_CHANGED; n++) {
        size_t i = n % corpus->count, size = corpus->files[i].size;
        memcpy(changed, corpus->files[i].bytes, size);
        for (uint32_t left = 1 + random_below(&random, MAX_CHANGES); left > 0 && size > 0; left--) {
            size_t at = random_below(&random, (uint32_t)size);
            changed[at] = (char)(random_below(&random, 2) == 0 ? changed[at] ^ 1 << random_below(&random, 8)
                                                               : (int)random_below(&random, 256));
        }
        replay(changed, size);
    }
    free(changed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file),
        cmocka_unit_test(every_prefix),
        cmocka_unit_test(changed_bytes),
    };
    return cmocka_run_group_tests_name(FUZZ_CORPUS, tests, load, unload);
}
