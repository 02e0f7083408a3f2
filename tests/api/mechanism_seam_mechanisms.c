/* The table of mechanisms for test_mechanism_seam.c, which replaces the library's: some of the library's,
   those of tests/support, and more names than fit in a message.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "support/linear_mechanism.h"
#include "support/placed_mechanism.h"

extern const struct mechanism mechanism_softmax, mechanism_none, mechanism_yoso;

static size_t no_bytes(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return 0;
}

static void write_zeros(const struct problem *problem, struct view out)
{
    for (size_t i = 0; i < problem->shape.num_queries; i++)
        memset(view_row(out, i), 0, out.cols * sizeof(float));
}

static const struct option_row no_options[] = {{.name = NULL}};

static const struct mechanism outputs_mechanism = {
    .name = "outputs",
    .summary = "zeros, without a backward pass",
    .options = no_options,
    .mixes = true,
    .host = {NULL, no_bytes, no_bytes, write_zeros, NULL},
};

#define FILLER(letter)                                                                                       \
    &(const struct mechanism)                                                                                \
    {                                                                                                        \
        .name = "filler-with-a-long-name-" letter, .summary = "a row", .options = no_options                 \
    }

const struct mechanism *const mechanism_table[] = {
    &mechanism_softmax, &mechanism_none,      &mechanism_yoso,    &linear_mechanism,
    &blind_mechanism,   &competing_mechanism, &narrow_mechanism,  &placed_mechanism,
    &full_mechanism,    &crowded_mechanism,   &outputs_mechanism, FILLER("a"),
    FILLER("b"),        FILLER("c"),          FILLER("d"),        FILLER("e"),
    FILLER("f"),        FILLER("g"),          FILLER("h"),        FILLER("i"),
    FILLER("j"),        FILLER("k"),          FILLER("l"),        FILLER("m"),
    FILLER("n"),        FILLER("o"),          FILLER("p"),        NULL,
};
