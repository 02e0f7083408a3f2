/* Taking laps, and dividing the time of a run among its parts.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/profile.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

const char *const profile_names[PROFILE_PARTS + 1] = {
    "data",        "embedding", "layer norm", "weights laid", "products", "attention", "attention backward",
    "convolution", "gelu",      "dropout",    "head",         "sums",     "ranks",     "optimiser",
    "evaluation",  "saving",    NULL,
};

hashattn_status profile_new(struct host *host, struct pool *pool, struct profile **out)
{
    void *block;
    *out = NULL;
    TRY(memory_new_zeroed(host, 1, sizeof **out, "profile", &block));
    struct profile *profile = block;
    profile->pool = pool;
    hashattn_status status = memory_new_zeroed(host, (size_t)pool_threads(pool), sizeof *profile->watches,
                                               "watches of the profile", &block);
    profile->watches = block;
    if (status != HASHATTN_OK)
        memory_free(host, profile);
    else
        *out = profile;
    return status;
}

void profile_free(struct host *host, struct profile *profile)
{
    if (profile == NULL)
        return;
    memory_free(host, profile->watches);
    memory_free(host, profile);
}

void profile_clear(struct profile *profile)
{
    memset(profile->wall, 0, sizeof profile->wall);
    memset(profile->thread, 0, sizeof profile->thread);
}

void profile_begin(struct profile *profile)
{
    if (profile == NULL)
        return;
    for (int i = 0; i < pool_threads(profile->pool); i++)
        memset(profile->watches[i].seconds, 0, sizeof profile->watches[i].seconds);
    profile->times = pool_times(profile->pool);
    profile->last = clock_seconds();
}

void profile_lap(struct profile *profile, enum profile_part part)
{
    if (profile == NULL)
        return;
    double now = clock_seconds(), wall = now - profile->last;
    struct pool_times times = pool_times(profile->pool);
    double thread =
        wall - (times.waiting - profile->times.waiting) + (times.helping - profile->times.helping);
    double lapped[PROFILE_PARTS] = {0}, total = 0;
    for (int i = 0; i < pool_threads(profile->pool); i++)
        for (int p = 0; p < PROFILE_PARTS; p++) {
            lapped[p] += profile->watches[i].seconds[p];
            total += profile->watches[i].seconds[p];
            profile->watches[i].seconds[p] = 0;
        }
    if (!(total > 0))
        lapped[part] = total = 1;
    for (int p = 0; p < PROFILE_PARTS; p++) {
        profile->wall[p] += wall * (lapped[p] / total);
        profile->thread[p] += thread * (lapped[p] / total);
    }
    profile->times = times;
    profile->last = now;
}

struct watch *profile_watch(struct profile *profile, int worker)
{
    if (profile == NULL)
        return NULL;
    struct watch *watch = &profile->watches[worker];
    watch->last = clock_seconds();
    return watch;
}

void watch_lap(struct watch *watch, enum profile_part part)
{
    if (watch == NULL)
        return;
    double now = clock_seconds();
    watch->seconds[part] += now - watch->last;
    watch->last = now;
}
