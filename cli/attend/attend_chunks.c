/* One stream per head and sequence. Rows are read from the files while the previous chunk is computed, and
   written in the order of the output file.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/attend/attend_chunks.h"

#include <stdlib.h>
#include <string.h>

/* The current head of the current sequence, with two chunks used in turn. */
struct head {
    struct attend_chunks *all;
    size_t sequence, head; /* head counts over all sequences */
    bool absorbing;
    unsigned chunks;   /* so far */
    float *rows[2][4]; /* query, key, value, out */
    uint8_t *mask[2];
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Reads the chunk's rows of one array into `to`. */
static hashattn_status take(hashattn_npy_reader *reader, size_t first_row, size_t rows, size_t width,
                            float *to, hashattn_array *array)
{
    *array = hashattn_array_of_rows(to, 1, rows, width);
    return hashattn_npy_read_part(reader, first_row * width, rows * width, to);
}

static hashattn_status fetch(void *user, size_t position, hashattn_chunk *chunk)
{
    struct head *head = user;
    const struct attend_chunks *all = head->all;
    const hashattn_problem *p = all->problem;
    size_t of_keys = head->absorbing ? p->num_keys : p->num_queries, side = head->chunks++ % 2;
    float *const *rows = head->rows[side];
    size_t n = chunk->rows = smaller(all->chunk_rows, of_keys - position);
    size_t query = head->head * p->num_queries + position, key = head->head * p->num_keys + position;
    hashattn_status status = HASHATTN_OK;
    if (!head->absorbing) {
        status = take(all->query, query, n, p->head_dim, rows[0], &chunk->query);
        chunk->out = hashattn_array_of_rows(rows[3], 1, n, p->value_dim);
    }
    if (status == HASHATTN_OK && (head->absorbing || p->causal))
        status = take(all->key, key, n, p->head_dim, rows[1], &chunk->key);
    if (status == HASHATTN_OK && (head->absorbing || p->causal))
        status = take(all->value, key, n, p->value_dim, rows[2], &chunk->value);
    if (status == HASHATTN_OK && all->mask != NULL && (head->absorbing || p->causal)) {
        chunk->key_mask = head->mask[side];
        status = hashattn_npy_read_part(all->mask,
                                        (all->mask_of_each ? head->sequence * p->num_keys : 0) + position, n,
                                        head->mask[side]);
    }
    return status;
}

static hashattn_status done(void *user, size_t position, const hashattn_chunk *chunk)
{
    (void)position;
    const struct head *head = user;
    hashattn_npy_write_part(head->all->out, chunk->out.data, chunk->rows * head->all->problem->value_dim);
    return HASHATTN_OK;
}

static hashattn_status run_head(struct head *head)
{
    struct attend_chunks *all = head->all;
    hashattn_stream_options options;
    hashattn_stream_options_default(&options);
    options.head_dim = all->problem->head_dim;
    options.value_dim = all->problem->value_dim;
    options.chunk_rows = all->chunk_rows;
    options.causal = all->problem->causal;
    options.first_head = head->head % all->problem->num_heads;
    options.seed = all->problem->seed;
    hashattn_stream *stream;
    hashattn_status status = hashattn_stream_new(all->attention, &options, &stream);
    if (status != HASHATTN_OK)
        return status;
    all->stream_bytes = hashattn_stream_bytes(stream);
    hashattn_stream_source source = {.struct_size = sizeof source, .user = head, .fetch = fetch};
    if (!options.causal) {
        head->absorbing = true;
        status = hashattn_stream_absorb_all(stream, &source, NULL);
        head->absorbing = false;
    }
    source.done = done;
    if (status == HASHATTN_OK)
        status = hashattn_stream_read_all(stream, &source, NULL);
    hashattn_stream_free(stream);
    return status;
}

int attend_in_chunks(struct attend_chunks *all)
{
    const hashattn_problem *p = all->problem;
    struct head head = {.all = all};
    if (p->num_queries == 0 && p->num_keys == 0) /* whatever the number of heads and columns */
        return EXIT_GOOD;
    const size_t widths[] = {p->head_dim, p->head_dim, p->value_dim, p->value_dim};
    int code = EXIT_GOOD;
    for (size_t i = 0; i < 8; i++) {
        size_t bytes;
        head.rows[i / 4][i % 4] =
            __builtin_mul_overflow(widths[i % 4] * sizeof(float), all->chunk_rows, &bytes) ? NULL
                                                                                           : malloc(bytes);
        if (head.rows[i / 4][i % 4] == NULL)
            code = EXIT_RESOURCE;
    }
    for (size_t i = 0; i < 2; i++)
        if ((head.mask[i] = malloc(all->chunk_rows)) == NULL)
            code = EXIT_RESOURCE;
    if (code == EXIT_RESOURCE)
        tool_fail(code, "no memory for chunks of %zu rows, %zu and %zu wide", all->chunk_rows, p->head_dim,
                  p->value_dim);
    for (; code == EXIT_GOOD && head.head < p->num_sequences * p->num_heads; head.head++) {
        head.sequence = head.head / p->num_heads;
        hashattn_status status = run_head(&head);
        /* An error of the files is the cause, if there is one. */
        const char *why = hashattn_context_message(all->files);
        if (status != HASHATTN_OK)
            code = attend_fail_data(&all->paths, why[0] != '\0' ? all->files : all->context, status);
    }
    for (size_t i = 0; i < 8; i++)
        free(head.rows[i / 4][i % 4]);
    for (size_t i = 0; i < 2; i++)
        free(head.mask[i]);
    return code;
}
