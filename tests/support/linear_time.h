/* Checks that a reader of bytes is linear: its processor time for an input and for a much longer one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_LINEAR_TIME_H
#define TESTS_SUPPORT_LINEAR_TIME_H

#include "nn/params.h"
#include "support/folder.h"
#include "text/tokenizer.h"

/* An input, and what its reader needs. What is set is freed after the comparison. */
struct work {
    struct folder *folder; /* of this input alone */
    struct host *host;
    char *text; /* (size) grows */
    size_t size, capacity;
    struct tokenizer *tokenizer;
    uint32_t *ids;
    struct params params;
    uint32_t (*pairs)[2];
    void *own; /* anything else, which `drop` frees; NULL: nothing */
    void (*drop)(struct work *work);
};

/* A reader, and an input of n parts for it. Only `read` is timed; it may be called many times. */
struct linear {
    const char *name;
    size_t n;
    void (*make)(struct work *work, size_t n);
    void (*read)(struct work *work);
};

/* Fails if a reader takes more than LINEAR_LIMIT times as long for n parts as for n / LINEAR_SPAN: the least
   of five times each, in turn; measured again a few times if it fails, because the machine may be busy. A
   linear reader has about 32: 6 to 89 were measured on a busy machine, since short inputs have fixed costs
   and long ones leave the caches. A quadratic one approaches 1024, and fails if the quadratic part of its
   time for n parts is six times the linear one. */
enum { LINEAR_SPAN = 32, LINEAR_LIMIT = 192 };
void linear_check_all(const struct linear *readers, size_t count);

/* These append to the text. */
void put(struct work *work, const char *bytes, size_t size);
void put_text(struct work *work, const char *text);
void put_number(struct work *work, const char *before, size_t number, const char *after);
void put_repeated(struct work *work, const char *text, size_t n);

/* Writes the text to a file of the folder and empties it. */
void put_file(struct work *work, const char *name);
enum { LINEAR_PATH = 120 };
void path_of(const struct work *work, const char *name, char path[LINEAR_PATH]);

/* Fails unless the status is OK. */
void good(const struct work *work, hashattn_status status);

#endif
