/* A machine without a driver: this program finds no libcuda.so.1, unless the machine has one. The library
   works, and says what is missing where a device is asked for.
   Covers: driver.c devices.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hashattn/hashattn.h"

static void test_missing(void **state)
{
    (void)state;
    if (dlopen("libcuda.so.1", RTLD_NOW) != NULL) {
        printf("SKIPPED: this machine has a driver\n");
        return;
    }
    char message[600];
    size_t count = 9;
    hashattn_device_info info = {.struct_size = sizeof info};
    hashattn_context_options options;
    hashattn_context *context;
    hashattn_context_options_default(&options);
    options.device = "cuda";
    assert_int_equal(hashattn_context_new(&options, message, sizeof message, &context), HASHATTN_FAILED);
    assert_ptr_equal(strstr(message, "no NVIDIA driver: libcuda.so.1"), message);
    assert_null(context);
    assert_int_equal(hashattn_device_count(message, sizeof message, &count), HASHATTN_FAILED);
    assert_ptr_equal(strstr(message, "no NVIDIA driver: libcuda.so.1"), message);
    assert_int_equal(count, 0);
    assert_false(hashattn_device_get(0, &info));
    options.device = "cpu";
    assert_int_equal(hashattn_context_new(&options, message, sizeof message, &context), HASHATTN_OK);
    hashattn_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
