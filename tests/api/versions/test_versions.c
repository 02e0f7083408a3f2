/* Structs that grow: older and newer callers, forgotten defaults.
   Planted and caught: least compared with > instead of <; trailing bytes not checked; the caller's
   struct_size overwritten by version_give; one byte too many written; zeros in place of our defaults; a
   filled struct without the zeros behind ours, or with our size; a message that asks for a _default function
   of structs that have none. program.c has the functions of first_version.c.
   Covers: first_version.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/versions/versions.h"

#include <string.h>

#include "support/check.h"

struct first {
    size_t struct_size;
    int a;
    int b;
};
struct second {
    struct first first;
    long c, d;
};

static void older_caller_is_filled_up_with_our_defaults(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct first given = {sizeof given, 3, 4};
    struct second own = {{0, 1, 2}, 5, 6};
    check_status(&host, version_take(&host, &own, sizeof own, &given, sizeof given, "thing"), HASHATTN_OK,
                 NULL);
    assert_int_equal(own.first.a, 3);
    assert_int_equal(own.first.b, 4);
    assert_int_equal(own.c, 5);
    assert_int_equal(own.d, 6);
}

static void a_forgotten_default_is_reported(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct first own, given = {0, 1, 2};
    check_status(&host, version_take(&host, &own, sizeof own, &given, sizeof given, "thing"),
                 HASHATTN_INVALID,
                 "thing: struct_size is 0, at least 16 is needed (its sizeof, which its _default ");
    given.struct_size = sizeof given - 1;
    check_status(&host, version_take(&host, &own, sizeof own, &given, sizeof given, "thing"),
                 HASHATTN_INVALID, "struct_size is 15");
    check_status(&host, version_take(&host, &own, sizeof own, NULL, sizeof given, "thing"), HASHATTN_INVALID,
                 "thing is NULL");
}

static void newer_caller_may_only_leave_zeros(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct first own;
    struct second given = {{sizeof given, 5, 6}, 0, 0};
    check_status(&host, version_take(&host, &own, sizeof own, &given, sizeof own, "thing"), HASHATTN_OK,
                 NULL);
    assert_int_equal(own.b, 6);
    given.d = 1;
    check_status(&host, version_take(&host, &own, sizeof own, &given, sizeof own, "thing"), HASHATTN_INVALID,
                 "byte 24 is set; this library knows 16");
}

static void output_gets_what_it_has_room_for(void **state)
{
    (void)state;
    struct second own = {{0, 7, 8}, 9, 10}, given;
    for (size_t size = 0; size <= sizeof given + 8; size++) {
        struct {
            struct second given;
            unsigned char after[16];
        } room;
        memset(&room, 0xee, sizeof room);
        room.given.first.struct_size = size;
        version_give(&room, &own, sizeof own);
        assert_int_equal(room.given.first.struct_size, size);
        unsigned char *bytes = (unsigned char *)&room, *want = (unsigned char *)&own;
        for (size_t i = sizeof size; i < sizeof room; i++) {
            bool written = i < size && i < sizeof own;
            assert_int_equal(bytes[i], written ? want[i] : 0xee);
        }
    }
}

static void a_filled_struct_has_the_size_of_its_caller(void **state)
{
    (void)state;
    struct second own = {{0, 7, 8}, 9, 10};
    for (size_t size = 0; size <= sizeof own + 8; size++) {
        unsigned char room[sizeof own + 24], options[sizeof own + 24];
        memset(room, 0xee, sizeof room);
        memset(options, 0xee, sizeof options);
        version_fill(room, size, &own, sizeof own);
        version_fill_options(options, size, &own, sizeof own);
        for (size_t i = 0; i < sizeof room; i++) {
            unsigned char ours = i < sizeof own ? ((unsigned char *)&own)[i] : 0;
            assert_int_equal(room[i], i < size ? ours : 0xee);
            if (size < sizeof size || i >= sizeof size)
                assert_int_equal(options[i], size >= sizeof size && i < size ? ours : 0xee);
        }
        if (size >= sizeof size)
            assert_memory_equal(options, &size, sizeof size);
    }
    version_fill(NULL, 16, &own, sizeof own);
    version_fill_options(NULL, 16, &own, sizeof own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_caller_is_filled_up_with_our_defaults),
        cmocka_unit_test(a_forgotten_default_is_reported),
        cmocka_unit_test(newer_caller_may_only_leave_zeros),
        cmocka_unit_test(output_gets_what_it_has_room_for),
        cmocka_unit_test(a_filled_struct_has_the_size_of_its_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
