/* Signals that end the tool: SIGHUP, SIGINT and SIGTERM remove the temporary files of its contexts first, so
   that nothing is left behind; SIGKILL leaves them. A signal that the tool was started to ignore stays
   ignored. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include "cli/shared/command.h"

/* The signals clean up after this context too, until it is forgotten, which must be before it is freed. At
   most two at a time. */
void signals_watch(const hashattn_context *context);
void signals_forget(const hashattn_context *context);

/* The handler: cleans up and ends the tool as the signal does. */
void signals_end(int number);

#endif
