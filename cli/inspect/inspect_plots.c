/* The plots of `inspect`: figures 1, 2 and 6 of Sun, Yang and Yoo (2022), as gnuplot scripts that include
   their data, so that users can redraw them with other colours or sizes. If gnuplot is installed, it draws
   them at once.
   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/inspect/findings.h"
#include "cli/shared/tool/outputs.h"
#include "cli/shared/tool/tool.h"

struct figure {
    const char *name; /* of the script, without .gp */
    void (*write)(FILE *script, const struct inspected *inspected, size_t layer);
};

static void begin(FILE *script, const char *name, int width, int height)
{
    fprintf(script,
            "# gnuplot %s.gp\nset terminal svg size %d,%d dynamic background rgb 'white'\nset output "
            "'%s.svg'\n",
            name, width, height, name);
}

/* A box plot over heads for each membership and for the bound. */
static void write_utility(FILE *script, const struct inspected *inspected, size_t layer)
{
    (void)layer;
    begin(script, "utility", 640, 420);
    fputs("$data << EOD\n# per head, mean over sequences: bound", script);
    for (int p = 0; p < MEMBERSHIPS; p++)
        fprintf(script, ", %s", compared_memberships[p]);
    fputc('\n', script);
    for (size_t i = 0; i < inspected->num_heads; i++) {
        const struct membership_sums *sums = inspected->heads[i].sums;
        fprintf(script, "%.6f", mean_of(sums[0].bound, sums[0].count));
        for (int p = 0; p < MEMBERSHIPS; p++)
            fprintf(script, " %.6f", mean_of(sums[p].utility, sums[p].count));
        fputc('\n', script);
    }
    fprintf(script,
            "EOD\nset style boxplot nooutliers\nset style fill solid 0.3 border -1\nset style data boxplot\n"
            "set boxwidth 0.5\nset xrange [0.4:4.6]\nset yrange [0:1]\nset grid ytics\nunset key\nset ylabel "
            "'attention utility'\n"
            "set title 'Share of full attention captured by equally many pairs, %zu heads'\n"
            "set xtics ('upper bound' 1, '%s' 2, '%s' 3, '%s' 4) scale 0\n"
            "plot for [i=1:4] $data using (i):i linecolor i\n",
            inspected->num_heads, inspected_owner(inspected), compared_memberships[1],
            compared_memberships[2]);
}

/* Queries and keys of each bucket of each head of the layer, largest first. */
static void write_buckets(FILE *script, const struct inspected *inspected, size_t layer)
{
    begin(script, "buckets", 900, 720);
    for (int p = 0; p < MEMBERSHIPS; p++) {
        size_t at = 0;
        fprintf(script, "$%s << EOD\n# position, queries and keys of a bucket\n", compared_memberships[p]);
        for (size_t i = 0; i < inspected->num_heads; i++) {
            const struct inspected_head *head = &inspected->heads[i];
            if (head->layer != layer)
                continue;
            for (size_t b = 0; b < head->num_buckets; b++)
                fprintf(script, "%zu %u %u\n", at++, head->first[p][b].queries, head->first[p][b].keys);
            at++;
        }
        fputs("EOD\n", script);
    }
    fprintf(script,
            "set multiplot layout 3,1 title 'Tokens by best bucket, first sequence, layer %zu: heads side by "
            "side'\nset boxwidth 0.8\nset style fill solid\nset offsets 0, 0, graph 0.25, 0\nset yrange "
            "[0:*]\nunset xtics\nset ylabel 'tokens'\n",
            layer);
    for (int p = 0; p < MEMBERSHIPS; p++)
        fprintf(script,
                "set title '%s'\nplot $%s using 1:($2+$3) with boxes linecolor 2 title 'keys', '' using 1:2 "
                "with boxes linecolor 1 title 'queries'\n",
                p == 0 ? inspected_owner(inspected) : compared_memberships[p], compared_memberships[p]);
    fputs("unset multiplot\n", script);
}

/* One number per line for the buckets of a membership: size relative to an equal share, or log2 of queries
   over keys for buckets with both. */
static void write_data(FILE *script, const struct inspected *inspected, int membership, bool ratios)
{
    fprintf(script, "$%s_%s << EOD\n", compared_memberships[membership], ratios ? "ratios" : "sizes");
    for (size_t i = 0; i < inspected->num_buckets; i++) {
        const struct inspected_bucket *bucket = &inspected->buckets[i];
        if (bucket->membership != membership || (ratios && bucket->ratio == 0))
            continue;
        fprintf(script, "%.4g\n", ratios ? log2((double)bucket->ratio) : (double)bucket->size);
    }
    fputs("EOD\n", script);
}

/* Each panel also plots a line at 0, because gnuplot refuses a panel without data. */
static void write_panels(FILE *script, const struct inspected *inspected, bool ratios)
{
    const char *what = ratios ? "ratios" : "sizes";
    double step = ratios ? 0.5 : 0.125;
    fprintf(script,
            "set arrow 1 from first %d, graph 0 to first %d, graph 1 nohead linecolor rgb 'red' dashtype 2 "
            "front\n"
            "set boxwidth %g\nset xrange [%s]\nset xlabel '%s'\n",
            ratios ? 0 : 1, ratios ? 0 : 1, step, ratios ? "-6:6" : "0:4",
            ratios ? "queries over keys, log2" : "size relative to an equal share");
    for (int p = 0; p < MEMBERSHIPS; p++)
        fprintf(script,
                "set title '%s'\nplot $%s_%s using (%g*(floor($1/%g)+0.5)):(1) smooth frequency with boxes "
                "linecolor %d, 0 with lines linecolor rgb 'black'\n",
                p == 0 ? inspected_owner(inspected) : compared_memberships[p], compared_memberships[p], what,
                step, step, p + 1);
}

/* Histograms of the sizes and ratios of all buckets, with bins of an eighth of a share and of half a power of
   two. The dashed line marks the ideal. */
static void write_histograms(FILE *script, const struct inspected *inspected, size_t layer)
{
    (void)layer;
    begin(script, "histograms", 960, 640);
    for (int p = 0; p < MEMBERSHIPS; p++) {
        write_data(script, inspected, p, false);
        write_data(script, inspected, p, true);
    }
    fputs("set multiplot layout 2,3 title 'Buckets of all heads and sequences, if every token went to its "
          "best bucket'\nset style fill solid\nset key off\nset yrange [0:*]\nset ylabel 'buckets'\n",
          script);
    write_panels(script, inspected, false);
    write_panels(script, inspected, true);
    fputs("unset multiplot\n", script);
}

static const struct figure figures[] = {
    {"utility", write_utility}, {"buckets", write_buckets}, {"histograms", write_histograms}};
enum { NUM_FIGURES = sizeof figures / sizeof figures[0] };

static int write_script(const struct inspected *inspected, const struct figure *figure, const char *directory,
                        size_t layer)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s.gp", directory, figure->name);
    if (length < 0 || (size_t)length >= sizeof path)
        return tool_fail(EXIT_USAGE, "--plots: the name of the directory is too long");
    outputs_own(path);
    FILE *script = fopen(path, "w");
    if (script == NULL)
        return tool_fail(EXIT_RESOURCE, "cannot write %s: %s", path, strerror(errno));
    figure->write(script, inspected, layer);
    bool failed = ferror(script) != 0;
    if (fclose(script) != 0 || failed)
        return tool_fail(EXIT_RESOURCE, "cannot write %s: %s", path, strerror(errno));
    return EXIT_GOOD;
}

/* Exit codes of a child that could not become gnuplot, as in shells. */
enum { NOT_FOUND = 127, NOT_EXECUTED = 126 };

/* Runs gnuplot on a script in its directory. Returns 0, an errno, or -1 if gnuplot itself failed. */
static int draw(const char *directory, const char *script)
{
    char name[64], picture[64];
    int status;
    snprintf(name, sizeof name, "%s.gp", script);
    snprintf(picture, sizeof picture, "%s.svg", script);
    pid_t child = fork();
    if (child < 0)
        return errno;
    if (child == 0) {
        if (chdir(directory) == 0) {
            outputs_own(picture);
            execlp("gnuplot", "gnuplot", name, (char *)NULL);
        }
        _exit(errno == ENOENT ? NOT_FOUND : NOT_EXECUTED);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return errno;
    if (!WIFEXITED(status))
        return -1;
    switch (WEXITSTATUS(status)) {
    case 0:
        return 0;
    case NOT_FOUND:
        return ENOENT;
    case NOT_EXECUTED:
        return EACCES;
    default:
        return -1;
    }
}

int inspected_plot(const struct inspected *inspected, const char *directory, size_t layer, bool quiet)
{
    size_t with = 0;
    layer = layer == SIZE_MAX ? inspected->heads[0].layer : layer;
    for (size_t i = 0; i < inspected->num_heads; i++)
        with += inspected->heads[i].layer == layer;
    if (with == 0)
        return tool_fail(EXIT_USAGE, "layer %zu has no heads with buckets", layer);
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return tool_fail(EXIT_RESOURCE, "%s: cannot make the directory: %s", directory, strerror(errno));
    for (size_t i = 0; i < NUM_FIGURES; i++) {
        int code = write_script(inspected, &figures[i], directory, layer);
        if (code != EXIT_GOOD)
            return code;
    }
    for (size_t i = 0; i < NUM_FIGURES; i++) {
        int error = draw(directory, figures[i].name);
        if (error == ENOENT) {
            if (!quiet)
                tool_line(stderr, "gnuplot is not installed: %s has scripts but no pictures", directory);
            return EXIT_GOOD;
        }
        if (error != 0)
            return tool_fail(EXIT_WORK, "gnuplot %s/%s.gp: %s", directory, figures[i].name,
                             error < 0 ? "it failed" : strerror(error));
    }
    if (!quiet)
        tool_line(stderr, "plots: %s/utility.svg, buckets.svg, histograms.svg", directory);
    return EXIT_GOOD;
}
