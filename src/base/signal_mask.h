/* Blocks signals in a thread, for a while or in the threads it starts, which inherit the mask.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SIGNAL_MASK_H
#define BASE_SIGNAL_MASK_H

#include <signal.h>

/* Blocks all signals in the calling thread. *before: its previous mask. */
void signal_mask_all(sigset_t *before);
/* Blocks SIGHUP, SIGINT, SIGQUIT and SIGTERM, which ask a program to end. */
void signal_mask_ending(sigset_t *before);
void signal_mask_restore(const sigset_t *before);

#endif
