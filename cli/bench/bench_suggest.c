/* `bench suggest`: the m and tau that keep the error below a number of radians, and their cost on this
   machine. The model of docs/MATH.md gives the smallest m for each tau on given or generated arrays. The
   answer is the largest tau, that is the sharpest kernel, that needs at most --max-hashes. Its time is
   measured, for long sequences at fewer tokens and scaled in proportion; its memory is computed exactly.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/bench/noise.h"

/* For generated inputs the error at a given tau does not depend on the length, so the model uses MODEL_KEYS
   keys and MODEL_HEADS heads. Timed arrays have at most TIMED_NUMBERS elements. */
enum { MODEL_KEYS = 2048, MODEL_HEADS = 4, MOST_HASHES = 4096, TIMED_NUMBERS = 1 << 22 };

struct choice {
    long bits;
    size_t hashes; /* 0: not even all that are possible suffice */
    double predicted;
};

struct suggestion {
    const char *q, *k, *v;
    size_t seq_len, heads, head_dim, max_hashes, fixed_bits, plane_pool;
    double error, cosine, mean_cosine; /* as requested; of the arrays */
    uint64_t seed;
    hashattn_context *context;
    struct bench_arrays arrays;
    struct choice choices[NOISE_MOST_BITS];
    size_t num_choices;
    struct choice best; /* the answer; if there is none, the smallest error with max_hashes */
    bool reached;
    struct bench_timed timed;
    size_t timed_len;
};

/* ---- choosing ------------------------------------------------------------------------------------------ */

/* `limit`, or the number of hashes that a pool of r planes per bit makes, if that is less. */
static size_t most_hashes(const struct suggestion *s, size_t limit)
{
    size_t r = s->plane_pool;
    return r > 0 && r * r < limit ? r * r : limit;
}

/* The smallest m that will do, for one tau. Tries all in turn if planes are shared, because the angle may
   then rise with m; otherwise it falls. */
static struct choice choose(const struct suggestion *s, const struct noise *noise, size_t count, long bits)
{
    size_t most = most_hashes(s, MOST_HASHES), r = s->plane_pool;
    double least = noise_angle(noise, count, most, bits, r);
    if (r == 0 && least > s->error)
        return (struct choice){bits, 0, least};
    for (size_t m = 1; m <= most; m++) {
        double angle = noise_angle(noise, count, m, bits, r);
        if (angle <= s->error)
            return (struct choice){bits, m, angle};
    }
    return (struct choice){bits, 0, least};
}

/* Tries the given tau, or all tau up to log2 of the length: beyond it buckets average under one key. */
static int choose_all(struct suggestion *s)
{
    long most = lround(log2((double)s->seq_len)), least = 1;
    most = most < 1 ? 1 : most > NOISE_MOST_BITS ? NOISE_MOST_BITS : most;
    if (s->plane_pool > 0 && (size_t)most > s->plane_pool)
        most = (long)s->plane_pool;
    if (s->fixed_bits > 0)
        least = most = (long)s->fixed_bits;
    size_t count = s->arrays.heads * noise_queries(&s->arrays);
    s->num_choices = (size_t)(most - least) + 1;
    struct noise *noise = malloc(s->num_choices * count * sizeof *noise);
    if (noise == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for %zu predictions", s->num_choices * count);
    int code = noise_of_one_hash(&s->arrays, least, most, noise);
    s->best.predicted = INFINITY;
    for (size_t i = 0; i < s->num_choices && code == EXIT_GOOD; i++) {
        struct choice *choice = &s->choices[i];
        *choice = choose(s, noise + i * count, count, least + (long)i);
        size_t allowed = most_hashes(s, s->max_hashes);
        double nearest = noise_angle(noise + i * count, count, allowed, choice->bits, s->plane_pool);
        if (choice->hashes > 0 && choice->hashes <= s->max_hashes) {
            s->best = *choice;
            s->reached = true;
        } else if (!s->reached && nearest < s->best.predicted) {
            s->best = (struct choice){choice->bits, allowed, nearest};
        }
    }
    free(noise);
    return code;
}

/* ---- cost ---------------------------------------------------------------------------------------------- */

static hashattn_status set_number(hashattn_attention *attention, const char *name, size_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", number);
    return hashattn_attention_set(attention, name, text);
}

static int measure_cost(struct suggestion *s, const struct options *options)
{
    hashattn_status status = bench_new_mechanism(s->context, "yoso", options, &s->timed.attention);
    if (status == HASHATTN_OK)
        status = set_number(s->timed.attention, "num_hashes", s->best.hashes);
    if (status == HASHATTN_OK)
        status = set_number(s->timed.attention, "hash_bits", (size_t)s->best.bits);
    size_t saved = 0, scratch = 0, most = TIMED_NUMBERS / (s->heads * s->head_dim);
    if (status == HASHATTN_OK) { /* for the whole length: needs shapes only, no arrays */
        const struct bench_arrays whole = {.heads = s->heads,
                                           .queries = s->seq_len,
                                           .keys = s->seq_len,
                                           .head_dim = s->head_dim,
                                           .value_dim = s->head_dim};
        struct bench_problem p = bench_problem_of(&whole, s->seq_len, s->seed);
        status = hashattn_attention_sizes(s->timed.attention, &p.problem, &saved, &scratch);
    }
    if (status != HASHATTN_OK)
        return tool_fail_status(s->context, status);
    s->timed_len = s->seq_len < most ? s->seq_len : most < 1 ? 1 : most;
    s->timed.backward = 1;
    struct bench_arrays arrays = {0};
    const struct bench_input input = {"cosine", s->cosine, 0};
    int code = bench_make_arrays(&arrays, &input, s->heads, s->timed_len, s->head_dim, s->seed);
    if (code == EXIT_GOOD)
        code = bench_time(&s->timed, s->context, &arrays, s->seed, 0);
    double longer = (double)s->seq_len / (double)s->timed_len;
    s->timed.forward_ms *= longer;
    s->timed.backward_ms *= longer;
    s->timed.saved_bytes = saved;
    s->timed.scratch_bytes = scratch;
    bench_free_arrays(&arrays);
    return code;
}

/* ---- reporting ----------------------------------------------------------------------------------------- */

static void report_json(const struct suggestion *s)
{
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(s->context, &is);
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_count(&json, "seq_len", s->seq_len);
    json_out_number(&json, "error_radians", s->error);
    json_out_count(&json, "num_hashes", s->best.hashes);
    json_out_count(&json, "hash_bits", (uint64_t)s->best.bits);
    json_out_count(&json, "plane_pool", s->plane_pool);
    json_out_number(&json, "predicted_radians", s->best.predicted);
    json_out_number(&json, "mean_cosine", s->mean_cosine);
    json_out_count(&json, "heads", s->heads);
    json_out_count(&json, "head_dim", s->head_dim);
    json_out_number(&json, "forward_ms", s->timed.forward_ms);
    json_out_number(&json, "backward_ms", s->timed.backward_ms);
    json_out_count(&json, "timed_seq_len", s->timed_len);
    json_out_count(&json, "saved_bytes", s->timed.saved_bytes);
    json_out_count(&json, "scratch_bytes", s->timed.scratch_bytes);
    json_out_text(&json, "isa", is.isa);
    json_out_count(&json, "threads", (uint64_t)is.threads);
    json_out_array(&json, "choices");
    for (size_t i = 0; i < s->num_choices; i++) {
        json_out_object(&json, NULL);
        json_out_count(&json, "hash_bits", (uint64_t)s->choices[i].bits);
        if (s->choices[i].hashes > 0)
            json_out_count(&json, "num_hashes", s->choices[i].hashes);
        else
            json_out_text(&json, "num_hashes", NULL);
        json_out_end_object(&json);
    }
    json_out_end_array(&json);
    json_out_end_object(&json);
}

static void report_text(const struct suggestion *s)
{
    printf("--num-hashes %zu --hash-bits %ld", s->best.hashes, s->best.bits);
    if (s->plane_pool > 0)
        printf(" --plane-pool %zu", s->plane_pool);
    printf("\n");
    printf("  predicted error     %.3f radians, at most %.3f requested (bench error measures it)\n",
           s->best.predicted, s->error);
    printf("  forward             %.2f ms\n  backward            %.2f ms", s->timed.forward_ms,
           s->timed.backward_ms);
    printf(", %zu head%s x %zu x %zu%s", s->heads, s->heads == 1 ? "" : "s", s->seq_len, s->head_dim,
           s->timed_len < s->seq_len ? ", " : "\n");
    if (s->timed_len < s->seq_len)
        printf("extrapolated from %zu tokens\n", s->timed_len);
    printf("  saved for backward  %zu bytes\n  smallest m for each tau:", s->timed.saved_bytes);
    for (size_t i = 0; i < s->num_choices; i++) {
        printf("%s %ld: ", i == 0 ? "" : ",", s->choices[i].bits);
        if (s->choices[i].hashes > 0)
            printf("%zu", s->choices[i].hashes);
        else
            printf("over %zu", most_hashes(s, MOST_HASHES));
    }
    printf("\n");
}

static int suggest_with(struct suggestion *s, const struct options *options)
{
    const struct bench_input input = {"cosine", s->cosine, 0};
    size_t keys = s->seq_len < MODEL_KEYS ? s->seq_len : MODEL_KEYS;
    int code = s->q != NULL ? bench_read_arrays(s->context, s->q, s->k, s->v, &s->arrays)
                            : bench_make_arrays(&s->arrays, &input, MODEL_HEADS, keys, s->head_dim, s->seed);
    if (s->heads == 0)
        s->heads = s->q != NULL ? s->arrays.heads : 12;
    code = code != EXIT_GOOD ? code : bench_mean_cosine(&s->arrays, &s->mean_cosine);
    if (code == EXIT_GOOD && s->q != NULL) {
        s->seq_len = s->seq_len == 0 ? s->arrays.keys : s->seq_len;
        s->head_dim = s->arrays.head_dim;
        s->cosine = fmin(0.99, fmax(0, s->mean_cosine));
    }
    code = code != EXIT_GOOD ? code : bench_plane_pool(s->context, options, &s->plane_pool);
    code = code != EXIT_GOOD ? code : choose_all(s);
    if (code == EXIT_GOOD && !s->reached)
        return tool_fail(EXIT_WORK,
                         "no m up to %zu is predicted to reduce the error at n %zu to %g radians; the "
                         "smallest is %.3f, with m %zu and tau %ld%s",
                         most_hashes(s, s->max_hashes), s->seq_len, s->error, s->best.predicted,
                         s->best.hashes, s->best.bits,
                         s->max_hashes < most_hashes(s, MOST_HASHES) ? " (--max-hashes allows more)" : "");
    code = code != EXIT_GOOD ? code : measure_cost(s, options);
    if (code != EXIT_GOOD)
        return code;
    if (options->common.json)
        report_json(s);
    else
        report_text(s);
    return tool_finish();
}

/* ---- the command --------------------------------------------------------------------------------------- */

static int run(const struct command *self, int argc, char **argv)
{
    struct suggestion s = {.head_dim = 64, .max_hashes = 128, .cosine = NAN};
    struct options options;
    options_begin(&options, self);
    options_add_count(&options, "seq-len", &s.seq_len, "N",
                      "number of queries and keys; required unless arrays are given", 1, 1e12);
    options_add_number(&options, "error", &s.error, "R",
                       "largest angle between yoso and yoso-e in radians; required", 1e-3, 1.5);
    options_add_number(&options, "cosine", &s.cosine, "C",
                       "mean cosine of queries and keys (default 0: independent, the hardest case)", 0, 0.99);
    options_add_count(&options, "max-hashes", &s.max_hashes, "M",
                      "maximum number of hash functions (default 128)", 1, MOST_HASHES);
    options_add_count(&options, "hash-bits", &s.fixed_bits, "T",
                      "use this number of bits (default: the largest up to log2 of the length that suffices)",
                      1, NOISE_MOST_BITS);
    options_add_count(&options, "heads", &s.heads, "H",
                      "heads for the reported cost (default 12, or those of the given arrays)", 1, 1e4);
    options_add_count(&options, "head-dim", &s.head_dim, "D", "width of a head (default 64)", 1, 1e4);
    bench_add_given(&options, &s.q, &s.k, &s.v);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 0)
        return options_fail(&options, "bench suggest takes no operand, got '%.60s'", options.operands[0]);
    code = bench_check_given(&options, s.q, s.k, s.v);
    if (code != EXIT_GOOD)
        return code;
    if (s.error == 0)
        return options_fail(&options, "bench suggest needs --error R");
    if (s.seq_len == 0 && s.q == NULL)
        return options_fail(&options, "bench suggest needs --seq-len N, or arrays with --q, --k and --v");
    if (!isnan(s.cosine) && s.q != NULL)
        return options_fail(&options, "--cosine is for generated inputs; given arrays have their own");
    s.cosine = isnan(s.cosine) ? 0 : s.cosine;
    s.seed = options.common.seed;
    code = tool_open(&options.common, &s.context);
    if (code == EXIT_GOOD)
        code = suggest_with(&s, &options);
    bench_free_timed(&s.timed);
    bench_free_arrays(&s.arrays);
    tool_close(s.context);
    return code;
}

const struct command bench_suggest = {
    .name = "bench suggest",
    .operands = "",
    .summary = "Finds num_hashes and hash_bits that keep the error of yoso below a bound, and their cost",
    .example = "  hashattn bench suggest --seq-len 4096 --error 0.6 --cosine 0.5\n",
    .run = run,
};
