/* libhashattn-mpi is found beside libhashattn, by the search path of the tool.
   An alarm ends calls that may never return, such as joining other processes.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/tool/ranks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/shared/tool/exit_code.h"
#include "hashattn/mpi.h"

static const char library_name[] = "libhashattn-mpi.so.0";

/* The communicator of this process; open: it has been joined. */
static struct {
    bool open;
    hashattn_communicator peer;
    void (*close)(hashattn_communicator *peer);
} joined;

/* ---- a time limit for calls that may never return -------------------------------------------------------
 */

/* Printed by the handler, which calls only what a handler may. */
static char late[240];
static struct sigaction before_alarm;

static void end_process(int number)
{
    (void)number;
    ssize_t written = write(STDERR_FILENO, late, strlen(late));
    (void)written;
    _exit(EXIT_WORK); /* exit would call what hangs */
}

static void set_alarm(double seconds)
{
    double whole = floor(seconds);
    const struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)whole, .tv_usec = (suseconds_t)((seconds - whole) * 1e6)}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* After `seconds` the sentence is printed to stderr and the process exits with EXIT_WORK, unless
   time_limit_end was called before. 0: no limit. One at a time. */
static void time_limit_begin(double, const char *, ...) __attribute__((format(printf, 2, 3)));

static void time_limit_begin(double seconds, const char *format, ...)
{
    struct sigaction action = {.sa_handler = end_process};
    char words[200];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    snprintf(late, sizeof late, "hashattn: %s\n", words);
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, &before_alarm);
    set_alarm(seconds);
}

static void time_limit_end(void)
{
    set_alarm(0);
    sigaction(SIGALRM, &before_alarm, NULL);
}

/* ---- ranks --------------------------------------------------------------------------------------------- */

void ranks_place(int *rank, int *size)
{
    static const char *const variables[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                               {"PMI_RANK", "PMI_SIZE"},
                                               {"PMIX_RANK", "SLURM_NTASKS"}};
    *rank = 0;
    *size = 1;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *own = getenv(variables[i][0]), *all = getenv(variables[i][1]);
        if (own == NULL || all == NULL)
            continue;
        *rank = atoi(own);
        *size = atoi(all);
        return;
    }
}

static bool is_launched(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMI_SIZE") != NULL ||
           (getenv("PMIX_RANK") != NULL && getenv("SLURM_NTASKS") != NULL);
}

/* ISO C has no conversion from dlsym's void * to a function. */
static bool find_function(void *library, const char *name, void *function, size_t size)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, size);
    return found != NULL;
}

int ranks_open(double timeout, const hashattn_communicator **communicator, char *message, size_t capacity)
{
    hashattn_status (*open_mpi)(const void *, hashattn_communicator *, char *, size_t) = NULL;
    int rank, size;
    *communicator = NULL;
    if (!is_launched())
        return EXIT_GOOD;
    ranks_place(&rank, &size);
    void *library = dlopen(library_name, RTLD_NOW | RTLD_GLOBAL); /* components of MPI look for its names */
    bool found = library != NULL && find_function(library, "hashattn_mpi_open", &open_mpi, sizeof open_mpi) &&
                 find_function(library, "hashattn_mpi_close", &joined.close, sizeof joined.close);
    if (!found && size <= 1)
        return EXIT_GOOD;
    if (!found) {
        snprintf(message, capacity, "cannot work with %d ranks: %s (make MPI=1 builds it)", size, dlerror());
        return EXIT_WORK;
    }
    joined.peer.struct_size = sizeof joined.peer;
    time_limit_begin(timeout,
                     "rank %d of %d has not joined the others for %g s (the limit is --comm-timeout)", rank,
                     size, timeout);
    hashattn_status status = open_mpi(NULL, &joined.peer, message, capacity);
    time_limit_end();
    if (status != HASHATTN_OK)
        return hashattn_status_exit_code(status);
    joined.open = true;
    joined.peer.timeout = timeout;
    *communicator = &joined.peer;
    int nowhere = joined.peer.rank > 0 ? open("/dev/null", O_WRONLY) : -1;
    if (nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
        close(nowhere);
    }
    return EXIT_GOOD;
}

void ranks_close(void)
{
    if (!joined.open)
        return;
    time_limit_begin(joined.peer.timeout,
                     "rank %d has finished and cannot leave the others for %g s (the limit is "
                     "--comm-timeout)",
                     joined.peer.rank, joined.peer.timeout);
    joined.close(&joined.peer);
    time_limit_end();
    joined.open = false;
}

void ranks_end(const char *sentence)
{
    if (joined.open && joined.peer.size > 1)
        joined.peer.end(joined.peer.user, sentence);
}
