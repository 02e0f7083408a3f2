/* `bench stream`: a sequence of any length through a state of constant size. A callback generates rows while
   the previous chunk is computed, so memory does not depend on the length. The share of busy threads is
   computed from the processor time of the whole process, including the generation of rows.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/bench/bench.h"

struct bench {
    const char *mechanism;
    size_t seq_len, heads, head_dim, chunk_rows;
    int causal;
    uint64_t seed;
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_stream *stream;
    float *rows[2][4]; /* two chunks used in turn: query, key, value, out */
    unsigned chunks;   /* so far */
    bool absorbing;
    double absorb_seconds, read_seconds, cpu_seconds;
    size_t stream_bytes;
};

/* Uniform numbers determined by (seed, array, position): a counter through the last steps of SplitMix64
   (Steele, Lea, Flood 2014). Normal numbers would take longer than attention. */
static void make_rows(float *to, uint64_t start, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t x = start + i * 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        to[i] = (float)(int32_t)(x >> 32) * 0x1p-31f;
    }
}

static hashattn_status fetch(void *user, size_t position, hashattn_chunk *chunk)
{
    struct bench *b = user;
    float *const *rows = b->rows[b->chunks++ % 2];
    hashattn_array *const arrays[] = {&chunk->query, &chunk->key, &chunk->value, &chunk->out};
    size_t left = b->seq_len - position, width = b->heads * b->head_dim;
    chunk->rows = left < b->chunk_rows ? left : b->chunk_rows;
    for (size_t a = 0; a < 4; a++) {
        *arrays[a] = hashattn_array_of_rows(rows[a], b->heads, chunk->rows, b->head_dim);
        bool wanted = a == 0 ? !b->absorbing : a < 3 && (b->absorbing || b->causal);
        if (wanted)
            make_rows(rows[a],
                      (b->seed * 4 + a) * 0xd1342543de82ef95u + position * width * 0x9e3779b97f4a7c15u,
                      chunk->rows * width);
    }
    return HASHATTN_OK;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static hashattn_status measure(struct bench *b)
{
    hashattn_stream_source source = {.struct_size = sizeof source, .user = b, .fetch = fetch};
    hashattn_status status = HASHATTN_OK;
    double cpu = cpu_seconds(), start = bench_seconds();
    if (!b->causal) {
        b->absorbing = true;
        status = hashattn_stream_absorb_all(b->stream, &source, NULL);
        b->absorb_seconds = bench_seconds() - start;
        b->absorbing = false;
    }
    start = bench_seconds();
    if (status == HASHATTN_OK)
        status = hashattn_stream_read_all(b->stream, &source, NULL);
    b->read_seconds = bench_seconds() - start;
    b->cpu_seconds = cpu_seconds() - cpu;
    return status;
}

static int open_all(struct bench *b, const struct options *options)
{
    hashattn_stream_options stream;
    hashattn_stream_options_default(&stream);
    stream.num_heads = b->heads;
    stream.head_dim = stream.value_dim = b->head_dim;
    stream.chunk_rows = b->chunk_rows;
    stream.causal = b->causal;
    stream.seed = b->seed;
    hashattn_status status = bench_new_mechanism(b->context, b->mechanism, options, &b->attention);
    if (status == HASHATTN_OK)
        status = hashattn_stream_new(b->attention, &stream, &b->stream);
    if (status != HASHATTN_OK)
        return tool_fail_status(b->context, status);
    b->stream_bytes = hashattn_stream_bytes(b->stream);
    for (size_t i = 0; i < 8; i++)
        if ((b->rows[i / 4][i % 4] = bench_block(b->heads * b->head_dim * b->chunk_rows * sizeof(float))) ==
            NULL)
            return tool_fail(EXIT_RESOURCE, "no memory for chunks of %zu heads x %zu x %zu", b->heads,
                             b->chunk_rows, b->head_dim);
    return EXIT_GOOD;
}

static int report(const struct bench *b, bool as_json)
{
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(b->context, &is);
    double seconds = b->absorb_seconds + b->read_seconds, rate = (double)b->seq_len / seconds,
           busy = b->cpu_seconds / seconds / is.threads;
    if (!as_json) {
        printf("%s%s: %zu heads x %zu x %zu in chunks of %zu, %s, %d thread%s\n", b->mechanism,
               b->causal ? ", causal" : "", b->heads, b->seq_len, b->head_dim, b->chunk_rows, is.isa,
               is.threads, is.threads == 1 ? "" : "s");
        printf("  tokens per second  %.0f\n  threads busy       %.1f %%\n", rate, 100 * busy);
        printf("  state and chunks   %zu bytes\n  peak resident      %zu bytes\n", b->stream_bytes,
               hashattn_peak_resident_bytes());
        return tool_finish();
    }
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "attention", b->mechanism);
    json_out_count(&json, "seq_len", b->seq_len);
    json_out_count(&json, "heads", b->heads);
    json_out_count(&json, "head_dim", b->head_dim);
    json_out_count(&json, "chunk", b->chunk_rows);
    json_out_count(&json, "causal", (uint64_t)b->causal);
    json_out_number(&json, "absorb_ms", b->absorb_seconds * 1e3);
    json_out_number(&json, "read_ms", b->read_seconds * 1e3);
    json_out_number(&json, "tokens_per_second", rate);
    json_out_number(&json, "threads_busy", busy);
    json_out_count(&json, "stream_bytes", b->stream_bytes);
    json_out_count(&json, "peak_rss_bytes", hashattn_peak_resident_bytes());
    json_out_text(&json, "isa", is.isa);
    json_out_count(&json, "threads", (uint64_t)is.threads);
    json_out_end_object(&json);
    return tool_finish();
}

static int run(const struct command *self, int argc, char **argv)
{
    struct bench b = {
        .mechanism = "yoso", .seq_len = 1000000, .heads = 1, .head_dim = 64, .chunk_rows = 16384};
    struct options options;
    options_begin(&options, self);
    options_add_text(&options, "attention", &b.mechanism, "NAME",
                     "mechanism with a state of constant size (default yoso)");
    options_add_count(&options, "seq-len", &b.seq_len, "N", "queries and keys of each head (default 1000000)",
                      1, 1e12);
    options_add_count(&options, "heads", &b.heads, "H", "heads (default 1)", 1, 1e6);
    options_add_count(&options, "head-dim", &b.head_dim, "D", "width of a head (default 64)", 1, 1e6);
    options_add_count(&options, "chunk", &b.chunk_rows, "N",
                      "rows generated and computed at a time (default 16384)", 1, 1e9);
    options_add_switch(&options, "causal", &b.causal, "query i sees keys 0 to i: one pass instead of two");
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 0)
        return options_fail(&options, "bench stream takes no operand, got '%.60s'", options.operands[0]);
    b.seed = options.common.seed;
    if (b.chunk_rows > b.seq_len) /* chunks are no longer than the sequence */
        b.chunk_rows = b.seq_len;
    code = tool_open(&options.common, &b.context);
    if (code == EXIT_GOOD)
        code = open_all(&b, &options);
    if (code == EXIT_GOOD) {
        hashattn_status status = measure(&b);
        code = status == HASHATTN_OK ? report(&b, options.common.json) : tool_fail_status(b.context, status);
    }
    for (size_t i = 0; i < 8; i++)
        free(b.rows[i / 4][i % 4]);
    hashattn_stream_free(b.stream);
    hashattn_attention_free(b.attention);
    tool_close(b.context);
    return code;
}

const struct command bench_stream = {
    .name = "bench stream",
    .operands = "",
    .summary = "Measures a long sequence in chunks: rate, memory, share of busy threads",
    .example = "  hashattn bench stream --seq-len 100000 --json\n",
    .run = run,
};
