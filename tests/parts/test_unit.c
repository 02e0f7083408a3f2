/* The turn, unit rows, and what counts as zero.
   Bugs tried and caught: the permutation drawn from the key of the signs, short rows left in place.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/unit.h"

#include <math.h>
#include <string.h>

#include "support/check.h"

enum { D = 5, LD = 8 };

static void turned_rows_keep_their_products(void **state)
{
    (void)state;
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    static const float x[2][D] = {{1, 2, 3, 4, 5}, {-2, 0.5f, 7, 0, 1}};
    for (uint64_t key = 1; key < 20; key++) {
        uint32_t permutation[D];
        float sign[D], norm[2], plain[2][LD], turned[2][LD];
        struct turn turn = {permutation, sign};
        turn_draw(&turn, key, D);
        unit_take(kernels, turned[0], LD, norm, x[0], D, 2, D, &turn);
        unit_take(kernels, plain[0], LD, norm, x[0], D, 2, D, &(struct turn){NULL, NULL});
        check_near((double)norm[0], sqrt(55), 1e-6, "norm");
        double before = 0, after = 0;
        for (size_t c = 0; c < LD; c++) {
            before += (double)plain[0][c] * (double)plain[1][c];
            after += (double)turned[0][c] * (double)turned[1][c];
            if (c < D)
                check_near((double)turned[0][c], (double)(sign[c] * plain[0][permutation[c]]), 1e-7,
                           "turned");
            else
                assert_true(turned[0][c] == 0);
        }
        check_near(after, before, 1e-6, "product of two rows");
    }
}

/* 5! 2^5 = 3840 turns: 300 heads should hardly agree, and every coordinate goes everywhere with both signs.
 */
static void heads_turn_differently(void **state)
{
    (void)state;
    enum { HEADS = 300 };
    uint32_t permutation[HEADS][D];
    float sign[HEADS][D];
    int same = 0, went[D][D][2] = {{{0}}};
    for (size_t h = 0; h < HEADS; h++) {
        turn_draw(&(struct turn){permutation[h], sign[h]}, h, D);
        for (size_t c = 0; c < D; c++)
            went[c][permutation[h][c]][sign[h][c] > 0]++;
        for (size_t g = 0; g < h; g++)
            same += memcmp(permutation[g], permutation[h], sizeof *permutation) == 0 &&
                    memcmp(sign[g], sign[h], sizeof *sign) == 0;
    }
    assert_true(same < 40); /* 44850 pairs / 3840 = 11.7 expected */
    for (size_t c = 0; c < D; c++)
        for (size_t to = 0; to < D; to++)
            assert_true(went[c][to][0] > 8 && went[c][to][1] > 8); /* 30 expected */
}

static void short_rows_are_zero(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        static const float length[4] = {0, 9e-13f, 1.1e-12f, 1e-30f};
        float x[4][D] = {{0}}, unit[4][LD], norm[4];
        for (size_t i = 0; i < 4; i++)
            x[i][3] = length[i];
        unit_take(*kernels, unit[0], LD, norm, x[0], D, 4, D, &(struct turn){NULL, NULL});
        for (size_t i = 0; i < 4; i++)
            check_near((double)unit[i][3], i == 2, 1e-6, "coordinate of a short row");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turned_rows_keep_their_products),
        cmocka_unit_test(heads_turn_differently),
        cmocka_unit_test(short_rows_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
