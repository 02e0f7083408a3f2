/* The communicator of one process. It sends nothing, so it needs no functions.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

struct comm comm_self(void)
{
    return (struct comm){.peer = {.struct_size = sizeof(hashattn_communicator), .rank = 0, .size = 1}};
}
