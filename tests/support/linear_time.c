/* Times are processor times of this thread: readers have no other.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/linear_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BEST_OF = 5, TRIES = 6 };

void put(struct work *work, const char *bytes, size_t size)
{
    if (size == 0)
        return;
    if (work->size + size > work->capacity) {
        work->capacity = 2 * (work->size + size);
        work->text = realloc(work->text, work->capacity);
        assert_non_null(work->text);
    }
    memcpy(work->text + work->size, bytes, size);
    work->size += size;
}

void put_text(struct work *work, const char *text)
{
    put(work, text, strlen(text));
}

void put_number(struct work *work, const char *before, size_t number, const char *after)
{
    char text[200];
    put(work, text, (size_t)snprintf(text, sizeof text, "%s%zu%s", before, number, after));
}

void put_repeated(struct work *work, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_text(work, text);
}

void put_file(struct work *work, const char *name)
{
    folder_put(work->folder, name, work->text, work->size);
    work->size = 0;
}

void path_of(const struct work *work, const char *name, char path[LINEAR_PATH])
{
    snprintf(path, LINEAR_PATH, "%s/%s", work->folder->path, name);
}

void good(const struct work *work, hashattn_status status)
{
    check_status(work->host, status, HASHATTN_OK, NULL);
}

/* ---- the check ---------------------------------------------------------------------------------------- */

static void begin(struct work *work, const struct linear *reader, size_t n)
{
    void *folder;
    assert_int_equal(folder_enter(&folder), 0);
    *work = (struct work){.folder = folder};
    work->host = &work->folder->host;
    reader->make(work, n);
}

static void end(struct work *work)
{
    void *folder = work->folder;
    if (work->drop != NULL)
        work->drop(work);
    tokenizer_free(work->host, work->tokenizer);
    params_free(work->host, &work->params);
    free(work->text);
    free(work->ids);
    free(work->pairs);
    assert_int_equal(folder_leave(&folder), 0);
}

static double seconds_of(struct work *work, const struct linear *reader)
{
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    reader->read(work);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

static void check(const struct linear *reader)
{
    struct work works[2];
    double least[2] = {1e9, 1e9};
    begin(&works[0], reader, reader->n / LINEAR_SPAN);
    begin(&works[1], reader, reader->n);
    for (int try = 0; try < TRIES && (try == 0 || least[1] > LINEAR_LIMIT * least[0]); try++)
        for (size_t i = 0; i < 2 * BEST_OF; i++) {
            double seconds = seconds_of(&works[i % 2], reader);
            least[i % 2] = seconds < least[i % 2] ? seconds : least[i % 2];
        }
    print_message("%-32s %8.3f ms, %d times the input %8.2f ms, ratio %.0f\n", reader->name, least[0] * 1e3,
                  LINEAR_SPAN, least[1] * 1e3, least[1] / least[0]);
    for (size_t k = 0; k < 2; k++)
        end(&works[k]);
    if (least[1] > LINEAR_LIMIT * least[0])
        fail_msg("%s: %.3f ms, and %.2f ms for %d times the input: more than %d times as long", reader->name,
                 least[0] * 1e3, least[1] * 1e3, LINEAR_SPAN, LINEAR_LIMIT);
}

void linear_check_all(const struct linear *readers, size_t count)
{
    for (size_t r = 0; r < count; r++)
        check(&readers[r]);
}
