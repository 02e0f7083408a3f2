/* The processors, also of a process that is confined to one, and the name of the processor.
   Bugs planted and caught: the processors that are online in place of those allowed; the name with its
   newline, or without its first letter; a buffer overrun by one; errno left as the refusal set it.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/machine.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

static void there_is_a_processor(void **state)
{
    (void)state;
    assert_in_range(machine_processors(), 1, 1024);
    assert_true(machine_processors() <= sysconf(_SC_NPROCESSORS_CONF));
}

/* A child confines itself, so that the other tests keep their processors. */
static void only_allowed_processors_count(void **state)
{
    (void)state;
    cpu_set_t allowed, one;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    assert_int_equal(machine_processors(), CPU_COUNT(&allowed));
    pid_t child = fork();
    if (child == 0) {
        size_t first = 0;
        while (!CPU_ISSET(first, &allowed))
            first++;
        CPU_ZERO(&one);
        CPU_SET(first, &one);
        _exit(sched_setaffinity(0, sizeof one, &one) != 0 ? 2 : machine_processors() != 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The first line of /proc/cpuinfo that starts with "model name", from behind ": " to its end. */
static void the_name_is_that_of_the_system(void **state)
{
    (void)state;
    char name[256], want[256] = "", line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && want[0] == '\0' && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "model name : %255[^\n]", want) == 1)
            break;
    if (file != NULL)
        fclose(file);
    machine_name(name, sizeof name);
    assert_string_equal(name, want);
}

static void the_name_is_cut(void **state)
{
    (void)state;
    char whole[256], name[256];
    machine_name(whole, sizeof whole);
    for (size_t size = 1; size < 12; size++) {
        memset(name, '?', sizeof name);
        machine_name(name, size);
        assert_int_equal(strlen(name), strlen(whole) < size ? strlen(whole) : size - 1);
        assert_memory_equal(name, whole, strlen(name));
        for (size_t i = size; i < sizeof name; i++)
            assert_int_equal(name[i], '?');
    }
}

/* No processor has component 63 (Intel, Software Developer's Manual, volume 1, chapter 13.1). A refusal
   changes nothing; asking twice gives one answer. */
static void state_that_does_not_exist_is_refused(void **state)
{
    (void)state;
    errno = ENOENT;
    assert_false(machine_grants_state(63));
    assert_int_equal(errno, ENOENT);
    for (unsigned number = 0; number < 64; number++)
        assert_int_equal(machine_grants_state(number), machine_grants_state(number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_a_processor),
        cmocka_unit_test(only_allowed_processors_count),
        cmocka_unit_test(the_name_is_that_of_the_system),
        cmocka_unit_test(the_name_is_cut),
        cmocka_unit_test(state_that_does_not_exist_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
