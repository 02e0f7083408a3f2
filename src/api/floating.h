/* The floating-point environment at the border: the library computes with the default one (to nearest, no
   traps, denormal numbers kept), whatever the caller has set, and leaves the caller's as it was. The pool's
   threads have the default one from the start. Cost: less than 1 us a call.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_FLOATING_H
#define API_FLOATING_H

#include <fenv.h>

static inline void floating_begin(fenv_t *callers)
{
    fegetenv(callers);
    fesetenv(FE_DFL_ENV);
}

static inline void floating_end(const fenv_t *callers)
{
    fesetenv(callers);
}

#endif
