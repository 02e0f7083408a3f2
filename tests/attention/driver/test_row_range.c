/* NaN, infinity and large numbers in one unit of a call of two sequences and two heads, at every place, with
   one thread and three. Bugs planted and caught: values not checked; the mask of the first sequence used for
   all; masked queries left out; the last piece of rows left out; large only if every array is; the check of
   one head finding numbers of another.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/row_range.h"

#include <math.h>

#include "parts/tiles/double_attention.h"
#include "support/check.h"

enum { HEADS = 2, DIM = 3, ROWS = 27, FIRST = 10, SEQUENCES = 2, ARRAYS = 3, SIZE = ROWS * HEADS * DIM };

struct fixture {
    float rows[ARRAYS][SIZE]; /* query, key and value: (rows, heads, width) */
    uint8_t mask[ROWS];
    size_t offsets[SEQUENCES + 1];
    struct attention_plan plan;
    struct attention_call call;
    struct pool *pool;
};

static void set_up(struct fixture *f, struct pool *pool)
{
    static const size_t offsets[SEQUENCES + 1] = {0, FIRST, ROWS};
    struct packed packed[ARRAYS];
    f->pool = pool;
    for (size_t a = 0; a < ARRAYS; a++) {
        for (size_t i = 0; i < SIZE; i++)
            f->rows[a][i] = 1;
        packed[a] = (struct packed){
            .data = f->rows[a], .width = DIM, .row_stride = (size_t)HEADS * DIM, .head_stride = DIM};
    }
    for (size_t r = 0; r < ROWS; r++)
        f->mask[r] = r % 7 != 2;
    f->plan.shape = (struct attention_shape){.kernels = kernels_all()[0],
                                             .mechanism = attention_find("softmax"),
                                             .num_sequences = SEQUENCES,
                                             .num_heads = HEADS,
                                             .head_dim = DIM,
                                             .value_dim = DIM,
                                             .query_offsets = offsets,
                                             .key_offsets = offsets,
                                             .masked = true};
    f->call = (struct attention_call){
        .plan = &f->plan, .query = packed[0], .key = packed[1], .value = packed[2], .key_mask = f->mask};
}

/* A number at one place is found in its own unit and no other, unless it is of a masked key. */
static void check_place(struct fixture *f, size_t array, size_t place, float number, bool finite, bool large)
{
    size_t row = place / (HEADS * DIM), head = place / DIM % HEADS, sequence = row >= FIRST;
    bool seen = array == 0 || f->mask[row] != 0;
    f->rows[array][place] = number;
    for (size_t s = 0; s < SEQUENCES; s++)
        for (size_t h = 0; h < HEADS; h++) {
            struct row_range found = row_range_unit(&f->call, s, h, f->pool);
            bool own = seen && s == sequence && h == head;
            if (found.allowed != (finite || !own) || (found.allowed && found.large != (large && own)))
                fail_msg(
                    "array %zu, place %zu: %g is taken for finite %d, large %d in sequence %zu, head %zu",
                    array, place, (double)number, found.allowed, found.large, s, h);
        }
    f->rows[array][place] = 1;
}

static void numbers_are_found_in_their_unit(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    for (int threads = 1; threads <= 3; threads += 2) {
        struct pool *pool;
        check_status(&host, pool_new(&host, threads, &pool), HASHATTN_OK, NULL);
        static struct fixture f;
        set_up(&f, threads == 1 ? NULL : pool);
        for (size_t a = 0; a < ARRAYS; a++)
            for (size_t place = 0; place < SIZE; place++) {
                check_place(&f, a, place, NAN, false, false);
                check_place(&f, a, place, -INFINITY, false, false);
                check_place(&f, a, place, 0x1p22f, true, true);
                check_place(&f, a, place, 0x1.fffp21f, true, false);
            }
        pool_free(&host, pool);
    }
}

/* A mechanism with a range: the same number is allowed for one that computes in double. The message has the
   first unit, what was found and the limit. */
static void numbers_beyond_the_range_are_refused_by_name(void **state)
{
    (void)state;
    struct host host;
    struct pool *pool;
    static struct fixture f;
    host_init(&host);
    check_status(&host, pool_new(&host, 2, &pool), HASHATTN_OK, NULL);
    set_up(&f, pool);
    f.plan.shape.pool = pool;
    size_t place = (FIRST * HEADS + 1) * DIM; /* sequence 1, head 1, row 0 */
    const struct packed dout = f.call.query;
    const size_t chunk = 40;
    f.rows[0][place] = 0x1p58f;
    f.plan.shape.mechanism = attention_find("linear");
    check_status(&host, row_range_check(&host, &f.call, NULL, NULL), HASHATTN_REFUSED,
                 "linear: numbers are too large for float32: at sequence 1, head 1, the product of length of "
                 "query or key to the power 2, length of value, the number of rows is ");
    check_status(&host, row_range_fail(&host, &f.call), HASHATTN_REFUSED,
                 ", allowed is less than 1.32923e+36");
    check_status(&host, row_range_check(&host, &f.call, NULL, &chunk), HASHATTN_REFUSED,
                 "from row 40 of the sequence on, head 1, the product of");
    assert_true(f.call.large);
    assert_false(row_range_unit(&f.call, 1, 1, pool).allowed);
    assert_true(row_range_unit(&f.call, 0, 1, pool).allowed && row_range_unit(&f.call, 1, 0, pool).allowed);
    f.plan.shape.mechanism = attention_find("yoso"); /* takes queries of any length */
    check_status(&host, row_range_check(&host, &f.call, NULL, NULL), HASHATTN_OK, NULL);
    f.plan.shape.mechanism = attention_find("softmax");
    check_status(&host, row_range_check(&host, &f.call, NULL, NULL), HASHATTN_OK, NULL);
    check_status(&host, row_range_check_loss(&host, &f.call), HASHATTN_OK, NULL);
    /* Backward multiplies by dout, and looks at the other arrays only if the mechanism has a range. */
    f.rows[0][place] = 0x1p40f;
    f.plan.shape.mechanism = attention_find("linear");
    check_status(&host, row_range_check(&host, &f.call, NULL, NULL), HASHATTN_OK, NULL);
    check_status(&host, row_range_check(&host, &f.call, &dout, NULL), HASHATTN_REFUSED,
                 "length of value, length of dout, the number of rows is ");
    f.rows[2][place + DIM * HEADS] = NAN;
    check_status(&host, row_range_check(&host, &f.call, &dout, NULL), HASHATTN_INVALID,
                 "value is nan at sequence 1, head 1, row 1, column 0");
    f.plan.shape.mechanism = attention_find("softmax");
    check_status(&host, row_range_check(&host, &f.call, &dout, NULL), HASHATTN_OK, NULL);
    /* A loss of its own reads queries and keys. */
    check_status(&host, row_range_check_loss(&host, &f.call), HASHATTN_OK, NULL);
    f.rows[1][place] = 0x1p126f;
    check_status(&host, row_range_check_loss(&host, &f.call), HASHATTN_REFUSED,
                 "length of query or key to the power 1, the number of rows is ");
    pool_free(&host, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_found_in_their_unit),
                                       cmocka_unit_test(numbers_beyond_the_range_are_refused_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
