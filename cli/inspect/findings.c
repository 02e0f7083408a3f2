/* Collects the reports of memberships: sums and growing arrays.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect/findings.h"

#include <stdlib.h>
#include <string.h>

#include "cli/shared/tool/grow.h"

/* The row of this head, added if new; NULL if memory runs out. */
static struct inspected_head *head_of(struct inspected *inspected, const hashattn_membership *m)
{
    for (size_t i = 0; i < inspected->num_heads; i++)
        if (inspected->heads[i].layer == m->layer && inspected->heads[i].head == m->head)
            return &inspected->heads[i];
    void *heads = inspected->heads;
    if (!grow(&heads, &inspected->head_capacity, inspected->num_heads, sizeof *inspected->heads))
        return NULL;
    inspected->heads = heads;
    struct inspected_head *head = &inspected->heads[inspected->num_heads++];
    *head = (struct inspected_head){.layer = m->layer,
                                    .head = m->head,
                                    .num_buckets = m->num_buckets,
                                    .mechanism = m->mechanism,
                                    .probe = m->probe,
                                    .stack = m->stack};
    return head;
}

static int larger(const void *a, const void *b)
{
    const struct bucket_count *x = a, *y = b;
    uint32_t left = x->queries + x->keys, right = y->queries + y->keys;
    return (left < right) - (left > right);
}

static bool keep_first(struct inspected_head *head, int membership, const hashattn_membership *m)
{
    struct bucket_count *first = malloc(m->num_buckets * sizeof *first);
    head->first[membership] = first;
    for (size_t b = 0; b < m->num_buckets && first != NULL; b++)
        first[b] = (struct bucket_count){m->best_queries[b], m->best_keys[b]};
    if (first != NULL)
        qsort(first, m->num_buckets, sizeof *first, larger);
    return first != NULL;
}

static bool keep_buckets(struct inspected *inspected, int membership, const hashattn_membership *m,
                         struct membership_sums *sums)
{
    double share = 0; /* an equal one of queries and keys; with rounds, a token counts in each */
    for (size_t b = 0; b < m->num_buckets; b++)
        share += ((double)m->best_queries[b] + (double)m->best_keys[b]) / (double)m->num_buckets;
    for (size_t b = 0; b < m->num_buckets; b++) {
        double queries = m->best_queries[b], keys = m->best_keys[b], size = (queries + keys) / share,
               ratio = queries > 0 && keys > 0 ? queries / keys : 0;
        sums->sizes_off += size > 2 || size < 0.5;
        sums->buckets += 1;
        sums->ratios_off += ratio > 2 || (ratio > 0 && ratio < 0.5);
        sums->ratios += ratio > 0;
        void *buckets = inspected->buckets;
        if (!grow(&buckets, &inspected->bucket_capacity, inspected->num_buckets, sizeof *inspected->buckets))
            return false;
        inspected->buckets = buckets;
        inspected->buckets[inspected->num_buckets++] =
            (struct inspected_bucket){membership, (float)size, (float)ratio};
    }
    return true;
}

static bool hear(struct inspected *inspected, int membership, const hashattn_membership *m)
{
    struct inspected_head *head = head_of(inspected, m);
    if (head == NULL || (m->sequence == 0 && !keep_first(head, membership, m)))
        return false;
    struct membership_sums *sums = &head->sums[membership];
    sums->utility += m->utility;
    sums->bound += m->bound;
    sums->pairs += m->pairs;
    for (size_t i = 0; i < IN_BUCKETS; i++) {
        sums->queries_in[i] += (double)m->queries_in[i] / (double)m->num_tokens;
        sums->keys_in[i] += (double)m->keys_in[i] / (double)m->num_keys;
    }
    sums->count += 1;
    if (m->sequence + 1 > inspected->sequences) {
        inspected->sequences = m->sequence + 1;
        inspected->tokens += m->num_tokens;
    }
    return keep_buckets(inspected, membership, m, sums);
}

int inspected_hear(void *user, const hashattn_membership *m)
{
    struct inspected *inspected = user;
    for (int p = 0; p < MEMBERSHIPS; p++)
        if (strcmp(m->membership, compared_memberships[p]) == 0 && !hear(inspected, p, m))
            inspected->no_memory = true;
    return inspected->no_memory;
}

void inspected_free(struct inspected *inspected)
{
    for (size_t i = 0; i < inspected->num_heads; i++)
        for (int p = 0; p < MEMBERSHIPS; p++)
            free(inspected->heads[i].first[p]);
    free(inspected->heads);
    free(inspected->buckets);
    *inspected = (struct inspected){0};
}

void membership_add(struct membership_sums *into, const struct membership_sums *sums)
{
    into->utility += sums->utility;
    into->bound += sums->bound;
    into->pairs += sums->pairs;
    for (size_t i = 0; i < IN_BUCKETS; i++) {
        into->queries_in[i] += sums->queries_in[i];
        into->keys_in[i] += sums->keys_in[i];
    }
    into->sizes_off += sums->sizes_off;
    into->buckets += sums->buckets;
    into->ratios_off += sums->ratios_off;
    into->ratios += sums->ratios;
    into->count += sums->count;
}
