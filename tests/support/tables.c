/* One request by name each. Reading the features of the processor takes many microseconds in a virtual
   machine, so the list is kept until the cap changes. Ranks that are threads ask at once.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/tables.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

enum { MOST = 16 };

static const struct kernels *const *list_all(void)
{
    static const struct kernels *all[MOST];
    static char cap_of_all[64];
    const char *cap = getenv("HASHATTN_ISA"), *why;
    cap = cap == NULL ? "" : cap;
    assert_true(strlen(cap) < sizeof cap_of_all);
    if (all[0] != NULL && strcmp(cap, cap_of_all) == 0)
        return all;
    strcpy(cap_of_all, cap);
    size_t count = 0;
    for (const char *const *name = kernels_names(); *name != NULL; name++) {
        const struct kernels *kernels = kernels_named(*name, &why);
        assert_true(count < MOST - 1);
        if (kernels != NULL)
            all[count++] = kernels;
    }
    all[count] = NULL;
    assert_true(count > 0); /* a test over no table would pass */
    return all;
}

const struct kernels *const *kernels_all(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    const struct kernels *const *all = list_all();
    pthread_mutex_unlock(&lock);
    return all;
}
