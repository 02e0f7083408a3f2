/* Makes and removes the directory; data and setup have the fewest numbers that train.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/tiny_run.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void tiny_enter(void)
{
    char directory[] = "/tmp/hashattn-test-XXXXXX";
    if (mkdtemp(directory) == NULL || chdir(directory) != 0)
        fail_msg("cannot make a working directory");
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *place)
{
    (void)status;
    (void)flag;
    (void)place;
    return remove(path);
}

void tiny_leave(void)
{
    char directory[4096];
    if (getcwd(directory, sizeof directory) == NULL || chdir("/") != 0 ||
        nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0)
        fail_msg("cannot remove the working directory");
}

hashattn_setup *tiny_setup(hashattn_context *context, const char *mechanism, int steps)
{
    static const char *const options[][2] = {
        {"seq_len", "8"}, {"marks", "2"}, {"batch", "4"}, {"eval_every", "2"}, {"save_every", "2"},
        {"layers", "1"},  {"dim", "8"},   {"heads", "2"}, {"ffn", "8"},
    };
    hashattn_setup *setup;
    char text[20];
    check_ok(context, hashattn_setup_new(context, "needle", &setup));
    check_ok(context, hashattn_setup_mechanism(setup, mechanism));
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        check_ok(context, hashattn_setup_set(setup, options[i][0], options[i][1]));
    snprintf(text, sizeof text, "%d", steps);
    check_ok(context, hashattn_setup_set(setup, "steps", text));
    return setup;
}

void tiny_data(hashattn_context *context, const char *directory)
{
    hashattn_setup *setup = tiny_setup(context, "none", 1);
    const size_t counts[] = {40, 10, 10};
    check_ok(context, hashattn_setup_generate(setup, directory, counts, 1));
    hashattn_setup_free(setup);
}
