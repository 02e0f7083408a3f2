/* Token files: what is written is read back, with every array in its place; broken files are refused with the
   path and the numbers; nothing of the size of the file is allocated.
   Bugs planted and caught: segments of the end token after A; offsets from 1; the counts of the header at its
   opening; labels after segments; an id equal to the number of ids accepted; two equal offsets; a segment of
   2; a file one byte longer; the mapping freed as an array, or not at all; a hash without segments.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/token_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "support/folder.h"
#include "tasks/dataset.h"
#include "text/tokenizer.h"

enum { START = 1, END = 2, IDS = 20, EXAMPLES = 3 };

static const uint32_t a[EXAMPLES][4] = {{10, 11, 12}, {13}, {14, 15}},
                      b[EXAMPLES][2] = {{16}, {17, 18}, {19}};
static const size_t a_count[EXAMPLES] = {3, 1, 2}, b_count[EXAMPLES] = {1, 2, 1};

static const char *path_in(const struct folder *folder, const char *name)
{
    static char path[120];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return path;
}

static const char *write_file(struct folder *folder, enum pair_order order)
{
    const struct token_header header = {.order = order, .tokenizer = 77, .num_ids = IDS, .seq_len = 7};
    struct token_writer writer;
    const char *path = path_in(folder, "x.tokens");
    check_status(&folder->host, token_writer_open(&folder->host, path, &header, START, END, &writer),
                 HASHATTN_OK, NULL);
    for (size_t i = 0; i < EXAMPLES; i++) {
        struct token_span second = {b[i], order == ORDER_NONE ? 0 : b_count[i]};
        check_status(
            &folder->host,
            token_writer_add(&folder->host, &writer, (struct token_span){a[i], a_count[i]}, second, i % 2),
            HASHATTN_OK, NULL);
    }
    check_status(&folder->host, token_writer_commit(&folder->host, &writer), HASHATTN_OK, NULL);
    assert_int_equal(folder_temporaries(folder->path), 0);
    return path;
}

static void what_is_written_is_read(void **state)
{
    struct folder *folder = *state;
    static const uint32_t ids[] = {1, 10, 11, 12, 2, 16, 2, 1, 13, 2, 17, 18, 2, 1, 14, 15, 2, 19, 2};
    static const uint8_t segments[] = {0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1};
    static const size_t offsets[] = {0, 7, 13, 19};
    static const uint32_t labels[] = {0, 1, 0};
    struct token_header header, same;
    struct dataset dataset;
    const char *path = write_file(folder, ORDER_SOP);
    check_status(&folder->host, token_file_map(&folder->host, path, &header, &dataset), HASHATTN_OK, NULL);
    assert_true(header.order == ORDER_SOP && header.tokenizer == 77 && header.num_ids == IDS &&
                header.seq_len == 7 && header.num_examples == 3 && header.num_tokens == 19);
    check_status(&folder->host, token_file_header(&folder->host, path, &same), HASHATTN_OK, NULL);
    assert_memory_equal(&header, &same, sizeof header);
    assert_true(dataset.count == 3 && dataset.segmented && !dataset.pairs && dataset.num_targets == 2);
    assert_true(dataset.targets[0].kind == TARGETS_MASKED && dataset.targets[1].kind == TARGETS_EXAMPLE);
    check_same_bits(dataset.ids, ids, sizeof ids, "ids");
    check_same_bits(dataset.segments, segments, sizeof segments, "segments");
    check_same_bits(dataset.offsets, offsets, sizeof offsets, "offsets");
    check_same_bits(dataset.targets[1].ids, labels, sizeof labels, "labels");
    assert_true((uintptr_t)dataset.offsets % 8 == 0 && (uintptr_t)dataset.targets[1].ids % 4 == 0);
    const char *at = dataset.map.bytes;
    dataset_free(&folder->host, &dataset);
    assert_null(dataset.map.bytes);
    assert_true(msync((void *)(uintptr_t)at, 1, MS_ASYNC) == -1 && errno == ENOMEM); /* nothing is mapped */
}

static void without_an_order_there_is_one_text(void **state)
{
    struct folder *folder = *state;
    static const uint32_t ids[] = {1, 10, 11, 12, 2, 1, 13, 2, 1, 14, 15, 2};
    struct token_header header;
    struct dataset dataset;
    const char *path = write_file(folder, ORDER_NONE);
    check_status(&folder->host, token_file_map(&folder->host, path, &header, &dataset), HASHATTN_OK, NULL);
    assert_true(dataset.count == 3 && !dataset.segmented && dataset.num_targets == 1 &&
                header.num_tokens == 12);
    check_same_bits(dataset.ids, ids, sizeof ids, "ids");
    dataset_free(&folder->host, &dataset);
}

/* Reads the file with `size` bytes at `at` replaced. */
static void check_changed(struct folder *folder, size_t at, const void *bytes, size_t size, const char *part)
{
    size_t all;
    struct token_header header;
    struct dataset dataset;
    char *file = folder_get(folder, "x.tokens", &all);
    assert_true(at + size <= all);
    memcpy(file + at, bytes, size);
    folder_put(folder, "y.tokens", file, all);
    free(file);
    const char *path = path_in(folder, "y.tokens");
    char with[300];
    snprintf(with, sizeof with, "y.tokens: %s", part);
    check_status(&folder->host, token_file_map(&folder->host, path, &header, &dataset), HASHATTN_BAD_FILE,
                 with);
    assert_true(dataset.map.bytes == NULL && dataset.ids == NULL);
}

static void broken_files_are_refused(void **state)
{
    struct folder *folder = *state;
    write_file(folder, ORDER_SOP);
    /* 64 bytes of header; 19 ids, padding to 144; 4 offsets; 3 labels at 176; 19 segments at 192. */
    check_changed(folder, 0, "H", 1, "is not a token file of `hashattn data mlm`");
    check_changed(folder, 8, &(uint32_t){2}, 4, "is of version 2, 1 is read");
    check_changed(folder, 12, &(uint32_t){3}, 4, "order is 3, allowed are 0 to 2");
    check_changed(folder, 16, &(uint64_t){4}, 8, "has 211 bytes, its 4 examples and 19 tokens need 219");
    check_changed(folder, 16, &(uint64_t){0}, 8, "the number of examples is 0, allowed are 1 to 4294967295");
    check_changed(folder, 24, &(uint64_t){(uint64_t)1 << 60}, 8,
                  "the number of tokens is 1152921504606846976");
    check_changed(folder, 40, &(uint32_t){0}, 4, "the number of ids is 0");
    check_changed(folder, 40, &(uint32_t){19}, 4, "token 17 is 19, allowed are 0 to 18");
    check_changed(folder, 44, &(uint32_t){2}, 4, "seq_len is 2, allowed are 3 to 65536");
    check_changed(folder, 44, &(uint32_t){6}, 4, "example 0 is tokens 0 to 7, it must have 1 to 6");
    check_changed(folder, 48, &(uint64_t){5}, 8, "an unused field is 5");
    check_changed(folder, 64 + 4 * 5, &(uint32_t){20}, 4, "token 5 is 20, allowed are 0 to 19");
    check_changed(folder, 144, &(uint64_t){1}, 8, "offsets are 1 to 19, they must be 0 to 19");
    check_changed(folder, 144 + 24, &(uint64_t){18}, 8, "offsets are 0 to 18, they must be 0 to 19");
    check_changed(folder, 144 + 16, &(uint64_t){7}, 8, "example 1 is tokens 7 to 7");
    check_changed(folder, 176 + 8, &(uint32_t){2}, 4, "label 2 is 2, allowed are 0 to 1");
    check_changed(folder, 192 + 18, &(uint8_t){2}, 1, "segment 18 is 2, allowed are 0 and 1");
    size_t all;
    struct token_header header;
    struct dataset dataset;
    char *file = folder_get(folder, "x.tokens", &all);
    assert_int_equal(all, 211);
    for (size_t size = 0; size <= all; size++) { /* the byte after the last is the NUL of folder_get */
        folder_put(folder, "y.tokens", file, size < all ? size : all + 1);
        check_status(&folder->host,
                     token_file_map(&folder->host, path_in(folder, "y.tokens"), &header, &dataset),
                     HASHATTN_BAD_FILE, "y.tokens: ");
    }
    free(file);
    check_status(&folder->host, token_file_header(&folder->host, path_in(folder, "y.tokens"), &header),
                 HASHATTN_BAD_FILE, "y.tokens: has 212 bytes");
}

static void the_hash_covers_everything(void **state)
{
    struct folder *folder = *state;
    struct token_header header;
    struct dataset dataset;
    write_file(folder, ORDER_SOP);
    static const size_t places[] = {64 + 4, 144 + 8, 176, 192 + 3}; /* an id, an offset, a label, a segment */
    uint64_t hashes[5];
    for (size_t i = 0; i < 5; i++) {
        size_t all;
        char *file = folder_get(folder, "x.tokens", &all);
        if (i > 0)
            file[places[i - 1]] ^= 1;
        folder_put(folder, "y.tokens", file, all);
        free(file);
        check_status(&folder->host,
                     token_file_map(&folder->host, path_in(folder, "y.tokens"), &header, &dataset),
                     HASHATTN_OK, NULL);
        hashes[i] = dataset.hash;
        dataset_free(&folder->host, &dataset);
        for (size_t k = 0; k < i; k++)
            assert_true(hashes[k] != hashes[i]);
    }
}

static void reading_allocates_nothing(void **state)
{
    struct folder *folder = *state;
    struct failing_host failing;
    struct token_header header;
    struct dataset dataset;
    const char *path = write_file(folder, ORDER_NSP);
    failing_host_init(&failing, 0);
    check_status(&failing.host, token_file_map(&failing.host, path, &header, &dataset), HASHATTN_OK, NULL);
    dataset_free(&failing.host, &dataset);
    assert_true(failing.calls == 0 && failing.outstanding == 0);
}

static void tokenizers_differ_by_their_tokens(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    struct tokenizer *one, *other;
    check_status(host, tokenizer_load(host, "tests/models/checkpoints/bert", &one), HASHATTN_OK, NULL);
    folder_put_text(folder, "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
    check_status(host, tokenizer_load(host, folder->path, &other), HASHATTN_OK, NULL);
    assert_true(token_file_hash(one) != token_file_hash(other));
    tokenizer_free(host, one);
    folder_put_text(folder, "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nb\na\n");
    check_status(host, tokenizer_load(host, folder->path, &one), HASHATTN_OK, NULL);
    assert_true(token_file_hash(one) != token_file_hash(other)); /* the same tokens with other ids */
    tokenizer_free(host, one);
    folder_put_text(folder, "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
    check_status(host, tokenizer_load(host, folder->path, &one), HASHATTN_OK, NULL);
    assert_true(token_file_hash(one) == token_file_hash(other));
    tokenizer_free(host, one);
    tokenizer_free(host, other);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_is_written_is_read),   IN_FOLDER(without_an_order_there_is_one_text),
        IN_FOLDER(broken_files_are_refused),  IN_FOLDER(the_hash_covers_everything),
        IN_FOLDER(reading_allocates_nothing), IN_FOLDER(tokenizers_differ_by_their_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
