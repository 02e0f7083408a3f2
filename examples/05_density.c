/* How dense rows are around a point: two shards are counted, their sketches merged, and the rows of lowest
   density found. The sum scores bit for bit as one pass over all rows.
     cc 05_density.c $(pkg-config --cflags --libs hashattn) -o density && ./density
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <hashattn/density.h>

enum { ROWS = 10000, DIM = 16, ODD = 777 };

static void check(const hashattn_context *context, hashattn_status status)
{
    if (status == HASHATTN_OK)
        return;
    fprintf(stderr, "density: %s\n", hashattn_context_message(context));
    exit(hashattn_status_exit_code(status));
}

int main(void)
{
    hashattn_context *context;
    hashattn_density *morning, *evening;
    char message[200];
    hashattn_density_options options;
    float *rows = malloc(ROWS * DIM * sizeof *rows);
    float *density = malloc(2 * ROWS * sizeof *density), *error = density + ROWS;
    if (rows == NULL || density == NULL)
        return 4;
    hashattn_status status = hashattn_context_new(NULL, message, sizeof message, &context);
    if (status != HASHATTN_OK) {
        fprintf(stderr, "density: %s\n", message);
        return hashattn_status_exit_code(status);
    }

    /* Points around (2, 2, ..), and one on the other side of the origin. */
    hashattn_fill_normal(1, 0, rows, ROWS * DIM);
    for (size_t i = 0; i < ROWS * DIM; i++)
        rows[i] = i / DIM == ODD ? -2 : rows[i] + 2;

    /* Each half is counted by itself, perhaps on another machine; equal options and seeds can be merged. */
    hashattn_density_options_default(&options);
    options.num_hashes = 64;
    options.seed = 1;
    check(context, hashattn_density_new(context, DIM, &options, &morning));
    check(context, hashattn_density_new_like(morning, &evening));
    check(context, hashattn_density_add(morning, rows, ROWS / 2));
    check(context, hashattn_density_add(evening, rows + ROWS / 2 * DIM, ROWS / 2));
    check(context, hashattn_density_merge(morning, evening));

    check(context, hashattn_density_score(morning, rows, ROWS, density, error));
    size_t lowest = 0;
    for (size_t i = 0; i < ROWS; i++)
        lowest = density[i] < density[lowest] ? i : lowest;
    printf("row 0 has density %.4f, standard error %.4f\n", (double)density[0], (double)error[0]);
    printf("row %zu has the lowest, %.4f\n", lowest, (double)density[lowest]);

    hashattn_density_free(evening);
    hashattn_density_free(morning);
    hashattn_context_free(context);
    free(density);
    free(rows);
    return lowest == ODD ? 0 : 1;
}
