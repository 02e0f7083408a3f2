/* Calls the oracle with the rows of a case, and compares output and gradients.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/group_case.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts/groups/grouping_options.h"
#include "support/check.h"

void *group_case_options(const char *mechanism, const char *settings)
{
    const struct mechanism *found = attention_find(mechanism);
    void *options = calloc(1, found->options_size);
    struct host host;
    host_init(&host);
    options_preset(found->options, options);
    char copy[256], *place;
    snprintf(copy, sizeof copy, "%s", settings);
    for (char *word = strtok_r(copy, " ", &place); word != NULL; word = strtok_r(NULL, " ", &place)) {
        char *text = strchr(word, '=');
        *text++ = '\0';
        check_status(&host, option_set(&host, found->options, mechanism, options, word, text), HASHATTN_OK,
                     NULL);
    }
    return options;
}

struct attention_case group_case_new(const char *mechanism, const void *options, size_t n_q, size_t n_k,
                                     size_t head_dim, size_t value_dim, bool causal)
{
    struct attention_case data = {.mechanism = attention_find(mechanism),
                                  .options = options,
                                  .num_sequences = 1,
                                  .num_heads = 1,
                                  .head_dim = head_dim,
                                  .value_dim = value_dim,
                                  .queries = {n_q},
                                  .keys = {n_k},
                                  .call_key = 123,
                                  .causal = causal};
    attention_case_fill(&data, 5, false);
    return data;
}

static void to_double(double *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

struct oracle_groups group_case_oracle(const struct attention_case *data, size_t buckets, bool paper,
                                       bool joint, bool strict)
{
    size_t n_q = data->queries[0], n_k = data->keys[0], d = data->head_dim, d_v = data->value_dim;
    const struct grouping_options *grouping = data->options;
    struct oracle_groups o = oracle_groups_new(n_q, n_k, d, d_v, buckets, (size_t)grouping->rounds);
    to_double(o.query, data->query, n_q * d);
    to_double(o.key, data->key, n_k * d);
    to_double(o.softmax.value, data->value, n_k * d_v);
    to_double(o.softmax.dout, data->dout, n_q * d_v);
    o.joint = joint || data->causal;
    o.causal = data->causal;
    o.by_token = data->causal && strict;
    o.norm = o.whole = !paper;
    o.balance = (size_t)grouping->balance;
    o.partition = grouping->partition != 0;
    return o;
}

static void check_array(const float *got, const double *want, const double *bound, size_t count,
                        const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], want[i], bound[i] + 8 * FLT_EPSILON * fabs(want[i]), what);
}

void group_case_check(const struct attention_case *data, struct oracle_groups *oracle, const char *what)
{
    oracle_groups_run(oracle);
    struct attention_result result = attention_case_run(data);
    const struct oracle_softmax *s = &oracle->softmax;
    check_array(result.out, s->out, s->out_bound, s->n_q * s->d_v, what);
    check_array(result.dquery, s->dquery, s->dquery_bound, s->n_q * s->d, what);
    check_array(result.dkey, s->dkey, s->dkey_bound, s->n_k * s->d, what);
    check_array(result.dvalue, s->dvalue, s->dvalue_bound, s->n_k * s->d_v, what);
    attention_result_free(&result);
    oracle_groups_free(oracle);
}
