/* The pictures of an `inspect` record: what the buckets of each head capture of full attention, and the sizes
   of the buckets of the first layer.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/shared/output/memberships.h"

enum { BUCKET_POINTS = 4000 };

struct drawing {
    struct plot utility, sizes[MEMBERSHIPS];
    size_t heads;      /* read so far */
    double layer;      /* of the first head */
    size_t membership; /* of the buckets being read */
    double bucket;     /* position of the next one */
};

static int draw_bucket(void *user, const char *key, const hashattn_value *value)
{
    struct drawing *drawing = user;
    struct plot *plot = &drawing->sizes[drawing->membership];
    (void)key;
    double queries = hashattn_value_number(hashattn_value_find(value, "0")),
           keys = hashattn_value_number(hashattn_value_find(value, "1"));
    if (!(queries >= 0 && keys >= 0) || drawing->bucket >= BUCKET_POINTS)
        return 1;
    plot_add(plot, plot_series_named(plot, "queries", 0), drawing->bucket, queries);
    plot_add(plot, plot_series_named(plot, "keys", 1), drawing->bucket, keys);
    drawing->bucket++;
    return 0;
}

static int draw_head(void *user, const char *key, const hashattn_value *head)
{
    struct drawing *drawing = user;
    (void)key;
    double layer = hashattn_value_number(hashattn_value_find(head, "layer"));
    if (drawing->heads == 0)
        drawing->layer = layer;
    double first = drawing->bucket;
    for (size_t p = 0; p < MEMBERSHIPS; p++) {
        const hashattn_value *membership = hashattn_value_find(head, compared_memberships[p]);
        double share = hashattn_value_number(hashattn_value_find(membership, "utility"));
        if (p == 0)
            plot_add(&drawing->utility, plot_series_named(&drawing->utility, "bound: the best keys", 3),
                     (double)drawing->heads,
                     100 * hashattn_value_number(hashattn_value_find(membership, "bound")));
        plot_add(&drawing->utility, plot_series_named(&drawing->utility, compared_memberships[p], p),
                 (double)drawing->heads, 100 * share);
        drawing->membership = p;
        drawing->bucket = first;
        if (layer == drawing->layer)
            hashattn_value_each(hashattn_value_find(membership, "buckets"), draw_bucket, drawing);
    }
    drawing->heads++;
    return 0;
}

void results_draw_buckets(const hashattn_value *record, const char *name, struct results *results)
{
    char number[HASHATTN_NUMBER_TEXT];
    const char *mechanism = hashattn_value_text(hashattn_value_find(record, "attention"), number);
    struct drawing drawing = {.utility = {.kind = PLOT_DOTS,
                                          .x = {"head, layers in order", "number", PLOT_LINEAR},
                                          .y = {"full attention captured", "%", PLOT_LINEAR}}};
    snprintf(drawing.utility.title, PLOT_NAME, "%.40s: share of full attention in the buckets, %.100s",
             mechanism == NULL ? "" : mechanism, name);
    for (size_t p = 0; p < MEMBERSHIPS; p++) {
        drawing.sizes[p] =
            (struct plot){.kind = PLOT_BARS,
                          .x = {"bucket, largest first, heads side by side", "number", PLOT_LINEAR},
                          .y = {"size of the bucket", "tokens", PLOT_LINEAR}};
    }
    hashattn_value_each(hashattn_value_find(record, "heads"), draw_head, &drawing);
    plot_write(results->buckets.to, &drawing.utility, BUCKET_POINTS, ++results->figures);
    plot_free(&drawing.utility);
    for (size_t p = 0; p < MEMBERSHIPS; p++) {
        snprintf(drawing.sizes[p].title, PLOT_NAME, "Tokens by their best bucket, layer %g, %s, %.100s",
                 drawing.layer, compared_memberships[p], name);
        plot_write(results->buckets.to, &drawing.sizes[p], BUCKET_POINTS, ++results->figures);
        plot_free(&drawing.sizes[p]);
    }
}
