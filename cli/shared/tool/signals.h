/* Signals that end the tool: SIGHUP, SIGINT, SIGPIPE and SIGTERM first remove the temporary files of its
   contexts, as does SIGBUS, whose cause is also told; SIGKILL leaves them behind. A signal that was ignored
   at the start stays ignored, but `train` and `generate` stop at SIGINT and SIGTERM all the same. SIGXFSZ is
   ignored, so a write beyond a limit of sizes fails as on a full disk.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>

#include "hashattn/hashattn.h"

/* Adds a context to those that the signals clean up after; at most two. It must be forgotten before it is
   freed. */
void signals_watch(const hashattn_context *context);
void signals_forget(const hashattn_context *context);

/* sigaction, unless the signal was ignored at the start. */
void signals_set(int number, const struct sigaction *action);
/* Removes the temporary files of the contexts. Async-signal-safe. */
void signals_remove_unfinished(void);
/* The handler: cleans up, then ends the tool by the signal. */
void signals_end(int number);

#endif
