/* Standard input, output and error, which whoever starts the tool may have closed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_STANDARD_H
#define CLI_STANDARD_H

/* To be called before any file is opened: a file that took the number of a closed descriptor would get the
   tool's messages. Reading or writing a descriptor that was closed still fails. */
void standard_hold(void);

#endif
