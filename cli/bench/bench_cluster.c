/* `bench cluster`: training steps on more ranks than this machine has, by a model of a network
   (cluster_model.h). Computing is measured here, as one layer of the model, or given.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/bench/cluster_model.h"

enum { MOST_RANKS = 65536, MEASURED_ROWS = 4096 };

struct cluster_bench {
    const char *ranks, *precision;
    double gbit, latency_ms, step_ms, memory_gbytes;
    size_t dim, ffn, least, most;
    struct cluster cluster;
};

/* "4" or "2..1024". */
static bool read_ranks(const char *text, size_t *least, size_t *most)
{
    char *end;
    unsigned long long from = strtoull(text, &end, 10), to = from;
    if (strncmp(end, "..", 2) == 0)
        to = strtoull(end + 2, &end, 10);
    *least = (size_t)from;
    *most = (size_t)to;
    return *end == '\0' && text[0] >= '1' && text[0] <= '9' && from <= to && to <= MOST_RANKS;
}

static double count_of(hashattn_setup *setup, const char *name)
{
    char text[64] = "";
    return hashattn_setup_get(setup, name, text, sizeof text) == HASHATTN_OK ? strtod(text, NULL) : 0;
}

/* Weights and biases of the layers. */
static size_t params_of(const struct cluster_bench *b)
{
    return b->cluster.layers * (4 * b->dim * b->dim + 2 * b->dim * b->ffn + 9 * b->dim + b->ffn);
}

static double exchange(const struct cluster *cluster, size_t ranks, size_t *exchanges)
{
    double bytes = NAN;
    *exchanges = 0;
    hashattn_measure_exchange(cluster->source, cluster->seq_len, ranks, &bytes, exchanges);
    return bytes;
}

/* Fills what the options leave open. */
static hashattn_status measure(struct cluster_bench *b, hashattn_context *context, hashattn_setup *setup)
{
    struct cluster *c = &b->cluster;
    hashattn_peak peak = {.struct_size = sizeof peak};
    hashattn_layer_cost layer = {.struct_size = sizeof layer};
    size_t rows = c->seq_len < MEASURED_ROWS ? c->seq_len : MEASURED_ROWS;
    hashattn_status status = HASHATTN_OK;
    c->exchange = exchange;
    c->source = setup;
    c->num_hashes = (size_t)count_of(setup, "num_hashes");
    c->hash_bits = (size_t)count_of(setup, "hash_bits");
    if (b->memory_gbytes <= 0) {
        status = hashattn_measure_peak(context, 0.2, &peak);
        b->memory_gbytes = peak.memory_gbytes_per_s;
    }
    if (status == HASHATTN_OK && b->step_ms <= 0) {
        status = hashattn_measure_layer(setup, rows, 1, 0, &layer);
        b->step_ms = (layer.forward_ms + layer.backward_ms) / (double)rows * (double)c->layers *
                     (double)c->batch * (double)c->seq_len;
    }
    c->memory = b->memory_gbytes * 1e9;
    c->token_s = b->step_ms * 1e-3 / ((double)c->batch * (double)c->seq_len);
    return status;
}

/* ---- reports ---- */

static double speedup(const struct cluster_bench *b, const struct cluster_cost *cost)
{
    return cluster_one(&b->cluster).step_s / cost->step_s;
}

static void words_of(const struct cluster_bench *b, const char *name,
                     struct cluster_cost cost_of(const struct cluster *cluster, size_t ranks), bool ring)
{
    printf("%s\n%7s %12s %12s %12s %9s %12s%s\n", name, "ranks", "compute ms", "network ms", "step ms",
           "faster", "MB sent", ring ? "  ring attention MB" : "");
    for (size_t ranks = b->least; ranks <= b->most; ranks *= 2) {
        const struct cluster_cost cost = cost_of(&b->cluster, ranks);
        printf("%7zu %12.2f %12.2f %12.2f %9.2f %12.2f", ranks, (cost.compute_s + cost.update_s) * 1e3,
               (cost.network_s - cost.hidden_s) * 1e3, cost.step_s * 1e3, speedup(b, &cost),
               cost.bytes * 1e-6);
        if (ring)
            printf(" %18.2f", cluster_ring_bytes(&b->cluster, ranks) * 1e-6);
        printf("\n");
    }
}

static int report_text(const struct cluster_bench *b)
{
    const struct cluster *c = &b->cluster;
    printf("model of a step: %zu sequences of %zu tokens, %zu layers, %zu heads of %zu, %zu parameters;\n",
           c->batch, c->seq_len, c->layers, c->heads, c->head_dim, c->params);
    printf("%.3g Gbit/s, %.3g ms, memory %.3g GB/s; %.2f ms of computing on one rank\n", b->gbit,
           b->latency_ms, b->memory_gbytes, b->step_ms);
    words_of(b, "ranks share batches (network: what backward does not hide)", cluster_data, false);
    words_of(b, "ranks share sequences, yoso (ring attention: for attention alone)", cluster_sequence, true);
    return tool_finish();
}

static void json_of(struct json_out *json, const struct cluster_bench *b, const char *key,
                    struct cluster_cost cost_of(const struct cluster *cluster, size_t ranks), bool ring)
{
    json_out_array(json, key);
    for (size_t ranks = b->least; ranks <= b->most; ranks *= 2) {
        const struct cluster_cost cost = cost_of(&b->cluster, ranks);
        json_out_object(json, NULL);
        json_out_count(json, "ranks", ranks);
        json_out_number(json, "compute_ms", cost.compute_s * 1e3);
        json_out_number(json, "update_ms", cost.update_s * 1e3);
        json_out_number(json, "network_ms", cost.network_s * 1e3);
        json_out_number(json, "hidden_ms", cost.hidden_s * 1e3);
        json_out_number(json, "step_ms", cost.step_s * 1e3);
        json_out_number(json, "speedup", speedup(b, &cost));
        json_out_number(json, "bytes_sent", cost.bytes);
        json_out_number(json, "exchanges", cost.exchanges);
        if (ring)
            json_out_number(json, "ring_attention_bytes", cluster_ring_bytes(&b->cluster, ranks));
        json_out_end_object(json);
    }
    json_out_end_array(json);
}

static int report_json(const struct cluster_bench *b)
{
    const struct cluster *c = &b->cluster;
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_number(&json, "bandwidth_gbit", b->gbit);
    json_out_number(&json, "latency_ms", b->latency_ms);
    json_out_number(&json, "memory_gbytes_per_s", b->memory_gbytes);
    json_out_number(&json, "compute_ms", b->step_ms);
    json_out_count(&json, "params", c->params);
    json_out_count(&json, "seq_len", c->seq_len);
    json_out_count(&json, "batch", c->batch);
    json_out_count(&json, "shards", c->shards);
    json_out_count(&json, "num_hashes", c->num_hashes);
    json_out_count(&json, "hash_bits", c->hash_bits);
    json_of(&json, b, "data_parallel", cluster_data, false);
    json_of(&json, b, "sequence_parallel", cluster_sequence, true);
    json_out_end_object(&json);
    return tool_finish();
}

/* ---- the command ---- */

static int measure_and_report(struct cluster_bench *b, const struct options *options,
                              hashattn_context *context)
{
    hashattn_setup *setup = NULL;
    hashattn_status status =
        bench_new_setup(context, "yoso", (size_t[]){b->dim, b->cluster.heads, b->ffn}, options, &setup);
    if (status == HASHATTN_OK)
        status = measure(b, context, setup);
    int code = status != HASHATTN_OK  ? tool_fail_status(context, status)
               : options->common.json ? report_json(b)
                                      : report_text(b);
    hashattn_setup_free(setup);
    return code;
}

static int settle(struct cluster_bench *b, const struct options *options)
{
    struct cluster *c = &b->cluster;
    if (options->num_operands > 0)
        return options_fail(options, "bench cluster takes no operand, got '%.60s'", options->operands[0]);
    if (!read_ranks(b->ranks, &b->least, &b->most))
        return options_fail(options, "--ranks is '%.60s', allowed are N and N..M from 1 to %d", b->ranks,
                            MOST_RANKS);
    bool halves = strcmp(b->precision, "bf16") == 0;
    if (!halves && strcmp(b->precision, "float32") != 0)
        return options_fail(options, "--gradient-precision is '%.60s', allowed are float32, bf16",
                            b->precision);
    if (b->dim % c->heads != 0)
        return options_fail(options, "--dim is %zu and --heads %zu, --dim must be a multiple", b->dim,
                            c->heads);
    c->gradient_bytes = halves ? 2 : 4;
    c->head_dim = b->dim / c->heads;
    c->params = c->params == 0 ? params_of(b) : c->params;
    c->bandwidth = b->gbit * 1e9 / 8;
    c->latency = b->latency_ms * 1e-3;
    return EXIT_GOOD;
}

static int run(const struct command *self, int argc, char **argv)
{
    static const char *const precisions[] = {"float32", "bf16", NULL};
    struct cluster_bench b = {
        .ranks = "2..1024",
        .precision = "float32",
        .gbit = 10,
        .latency_ms = 0.1,
        .dim = 768,
        .ffn = 3072,
        .cluster = {.layers = 12, .heads = 12, .seq_len = 4096, .batch = 32, .shards = 8}};
    struct cluster *c = &b.cluster;
    struct options options;
    options_begin(&options, self);
    options_add_text(&options, "ranks", &b.ranks, "N..M", "ranks N, 2 N, 4 N, ... up to M (default 2..1024)");
    options_add_number(&options, "bandwidth", &b.gbit, "X",
                       "Gbit/s that a rank sends and receives at the same time (default 10)", 1e-3, 1e5);
    options_add_number(&options, "latency", &b.latency_ms, "X", "ms of a message, one way (default 0.1)", 0,
                       1e4);
    options_add_number(
        &options, "step-ms", &b.step_ms, "X",
        "ms of forward and backward of a whole batch on one rank; 0: measure a layer (default 0)", 0, 1e12);
    options_add_number(&options, "memory", &b.memory_gbytes, "X",
                       "GB/s of the memory of a rank; 0: measure (default 0)", 0, 1e5);
    options_add_count(&options, "params", &c->params, "N",
                      "parameters of the model; 0: those of its layers (default 0)", 0, 1e13);
    options_add_count(&options, "seq-len", &c->seq_len, "N", "tokens of a sequence (default 4096)", 1, 1e9);
    options_add_count(&options, "batch", &c->batch, "N", "sequences of a step (default 32)", 1, 65536);
    options_add_count(&options, "shards", &c->shards, "N",
                      "parts of a batch, as for train; with more ranks as many as ranks (default 8)", 1,
                      65536);
    options_add_text(&options, "gradient-precision", &b.precision, "NAME",
                     "float32 or bf16, as for train (default float32)");
    options_offer(&options, precisions);
    options_add_count(&options, "layers", &c->layers, "N", "encoder layers (default 12)", 1, 1000);
    options_add_count(&options, "dim", &b.dim, "N",
                      "width of a token's row, a multiple of heads (default 768)", 1, 16384);
    options_add_count(&options, "heads", &c->heads, "N", "attention heads (default 12)", 1, 256);
    options_add_count(&options, "ffn", &b.ffn, "N", "width of the feed-forward layer (default 3072)", 1,
                      65536);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    code = settle(&b, &options);
    if (code != EXIT_GOOD)
        return code;
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = measure_and_report(&b, &options, context);
    tool_close(context);
    return code;
}

const struct command bench_cluster = {
    .name = "bench cluster",
    .operands = "",
    .summary = "Predicts training steps on many ranks from a network's rate and delay",
    .example = "  hashattn bench cluster --ranks 2..1024 --bandwidth 10 --latency 0.1\n"
               "  hashattn bench cluster --ranks 2..8 --bandwidth 1 --latency 1 --step-ms 100 --params "
               "5000000 --json\n",
    .run = run,
};
