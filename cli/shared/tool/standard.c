/* A closed descriptor becomes /dev/null, opened for the wrong direction, so that its use fails with EBADF.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/tool/standard.h"

#include <fcntl.h>
#include <unistd.h>

void standard_hold(void)
{
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0 && /* the lowest free number: this one */
            open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
}
