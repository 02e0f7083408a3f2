/* The allocator and the message of a failure, passed to every function that can fail or allocate. There is
   one host per context. Only the calling thread uses it; units of work on other threads neither fail nor
   allocate, except encoders, which have hosts of their own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stddef.h>

#include "hashattn/status.h"

struct host {
    void *(*allocate)(void *user, size_t alignment, size_t bytes); /* bytes > 0; NULL if out of memory */
    void (*release)(void *user, void *block);                      /* block may be NULL */
    void *user;
    struct file_writer *unfinished; /* list of unfinished writers (file_writer.h) */
    char message[512];              /* of the last failure; NUL-terminated */
    char note[640];                 /* what the last reader of a table found; NUL-terminated */
    int repaired;                   /* 1: it repaired something, which the note says */
    int option_dashes;              /* 1: messages name options as on a command line */
};

/* Makes a host that uses aligned_alloc and free. */
void host_init(struct host *host);

/* Writes the message and returns `status`, so that a failure is one line:
   return host_fail(h, HASHATTN_INVALID, ...);
   Every message passes hashattn_message_clean, because files, names of files among them, are quoted in it.

   A message names an option in backquotes, as in "set `date_format` to day-first" or "`header=false` reads
   it". It is shown without them, as C and Python name it, or if option_dashes is set as a person types it:
   --date-format, --no-header. */
hashattn_status host_fail(struct host *host, hashattn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes the note, cleaned like a message. */
void host_note(struct host *host, int repaired, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the message: the caller knows the file, the callee the byte. */
void host_prefix(struct host *host, const char *prefix);
/* Appends a remark to the message, as far as there is room. */
void host_suffix(struct host *host, const char *suffix);

#define TRY(expression)                                                                                      \
    do {                                                                                                     \
        hashattn_status try_status_ = (expression);                                                          \
        if (try_status_ != HASHATTN_OK)                                                                      \
            return try_status_;                                                                              \
    } while (0)

/* For a function with a `done:` label and a variable `status`. */
#define TRY_DONE(expression)                                                                                 \
    do {                                                                                                     \
        status = (expression);                                                                               \
        if (status != HASHATTN_OK)                                                                           \
            goto done;                                                                                       \
    } while (0)

#define FAIL_IF(condition, host, status, ...)                                                                \
    do {                                                                                                     \
        if (condition)                                                                                       \
            return host_fail(host, status, __VA_ARGS__);                                                     \
    } while (0)

#endif
