/* Share of each part in the wall time, and how busy the threads were.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/profile_out.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 32 };

struct parts {
    hashattn_profile_part parts[MOST_PARTS];
    size_t count;
    double wall, thread; /* totals */
    int threads, ranks;
    uint64_t bytes_sent; /* by this rank so far */
};

static struct parts read_parts(const hashattn_context *context)
{
    struct parts parts = {.count = 0};
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_profile_part part = {.struct_size = sizeof part};
    hashattn_context_describe(context, &is);
    parts.threads = is.threads;
    parts.ranks = is.ranks;
    parts.bytes_sent = is.bytes_sent;
    while (parts.count < MOST_PARTS && hashattn_profile_get(context, parts.count, &part)) {
        parts.wall += part.wall_seconds;
        parts.thread += part.thread_seconds;
        parts.parts[parts.count++] = part;
    }
    return parts;
}

static int longer(const void *a, const void *b)
{
    double x = ((const hashattn_profile_part *)a)->wall_seconds,
           y = ((const hashattn_profile_part *)b)->wall_seconds;
    return (x < y) - (x > y);
}

/* Share of the threads' time spent computing; 0 if no time passed. */
static double busy(const struct parts *parts, double wall, double thread)
{
    return wall > 0 ? thread / (wall * parts->threads) : 0;
}

static void print_line(const struct parts *parts, const char *name, double wall, double thread, double times)
{
    fprintf(stderr, "  %-20s %10.3f %7.1f %% %7.1f %%\n", name, wall * 1e3 / times,
            parts->wall > 0 ? wall / parts->wall * 100 : 0, busy(parts, wall, thread) * 100);
}

void profile_words(const hashattn_context *context, const char *what, size_t times)
{
    struct parts parts = read_parts(context);
    double count = times > 0 ? (double)times : 1;
    qsort(parts.parts, parts.count, sizeof parts.parts[0], longer);
    fprintf(stderr, "  %-20s %10s %9s %9s\n", what, "ms", "share", "busy");
    for (size_t i = 0; i < parts.count; i++)
        if (parts.parts[i].wall_seconds > 0)
            print_line(&parts, parts.parts[i].name, parts.parts[i].wall_seconds,
                       parts.parts[i].thread_seconds, count);
    print_line(&parts, "all", parts.wall, parts.thread, count);
    if (parts.ranks > 1)
        fprintf(stderr, "  %llu bytes sent by rank 0 to %d others, evaluations included\n",
                (unsigned long long)parts.bytes_sent, parts.ranks - 1);
}

void profile_json(struct json_out *json, const hashattn_context *context, size_t times)
{
    struct parts parts = read_parts(context);
    double count = times > 0 ? (double)times : 1;
    json_out_array(json, "profile");
    for (size_t i = 0; i < parts.count; i++) {
        const hashattn_profile_part *part = &parts.parts[i];
        json_out_object(json, NULL);
        json_out_text(json, "part", part->name);
        json_out_number(json, "ms", part->wall_seconds * 1e3 / count);
        json_out_number(json, "share", parts.wall > 0 ? part->wall_seconds / parts.wall : 0);
        json_out_number(json, "busy", busy(&parts, part->wall_seconds, part->thread_seconds));
        json_out_end_object(json);
    }
    json_out_end_array(json);
    json_out_number(json, "busy", busy(&parts, parts.wall, parts.thread));
}

double profile_seconds(const hashattn_context *context, const char *part)
{
    struct parts parts = read_parts(context);
    for (size_t i = 0; i < parts.count; i++)
        if (strcmp(parts.parts[i].name, part) == 0)
            return parts.parts[i].wall_seconds;
    return 0;
}
