/* Signals that a thread leaves alone for a while, or for ever where it starts others: threads inherit the
   mask. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SIGNAL_MASK_H
#define BASE_SIGNAL_MASK_H

#include <signal.h>

/* No signal comes to the calling thread. *before: the mask that it had. */
void signal_mask_all(sigset_t *before);
/* None of SIGHUP, SIGINT, SIGQUIT and SIGTERM, which ask a program to end. */
void signal_mask_ending(sigset_t *before);
void signal_mask_restore(const sigset_t *before);

#endif
