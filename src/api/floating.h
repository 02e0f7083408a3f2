/* The floating-point environment at the border: the library computes with the default one (to nearest, no
   traps, denormal numbers kept), whatever the caller has set, and leaves the caller's as it was. Every public
   function that computes or reads numbers begins with FLOATING_DEFAULT, which holds until it returns; its
   callbacks run in the default environment too. The pool's threads have it from the start. Cost: less than
   1 us a call.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_FLOATING_H
#define API_FLOATING_H

#include <fenv.h>

static inline fenv_t floating_begin(void)
{
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    return callers;
}

static inline void floating_end(const fenv_t *callers)
{
    fesetenv(callers);
}

#define FLOATING_DEFAULT                                                                                     \
    const fenv_t floating_of_caller __attribute__((cleanup(floating_end))) = floating_begin()

#endif
