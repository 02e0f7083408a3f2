/* What a signal that ends the tool removes, and which signals are handled. Planted and caught: the second
   context in the first one's place; a context forgotten that was not named; an ignored signal handled; a
   signal that interrupts the handler of another; SIGPIPE, SIGBUS or SIGXFSZ left to the system. Covers:
   signals.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define hashattn_context_remove_unfinished note_removal
#include "cli/shared/tool/signals.c"
#include "support/check.h"

static char removed[8]; /* names of contexts, in the order of their calls */
static const char contexts[3] = {'a', 'b', 'c'};

static const hashattn_context *context_of(int i)
{
    return (const hashattn_context *)(const void *)&contexts[i];
}

void note_removal(const hashattn_context *context)
{
    if (context != NULL)
        removed[strlen(removed)] = *(const char *)(const void *)context;
}

static const char *removed_now(void)
{
    static char copy[sizeof removed];
    memset(removed, 0, sizeof removed);
    for (int i = 0; i < MOST; i++)
        note_removal(watched[i]);
    memcpy(copy, removed, sizeof copy);
    return copy;
}

static void contexts_are_watched_until_forgotten(void **state)
{
    (void)state;
    signals_watch(context_of(0));
    assert_string_equal(removed_now(), "a");
    signals_watch(context_of(1));
    assert_string_equal(removed_now(), "ab");
    signals_watch(context_of(2)); /* one too many: it replaces the last */
    assert_string_equal(removed_now(), "ac");
    signals_forget(context_of(1));
    assert_string_equal(removed_now(), "ac");
    signals_forget(context_of(0));
    assert_string_equal(removed_now(), "c");
    signals_watch(context_of(1));
    assert_string_equal(removed_now(), "bc");
    signals_forget(context_of(2));
    signals_forget(context_of(1));
    assert_string_equal(removed_now(), "");
}

static void the_signals_exclude_each_other(void **state)
{
    (void)state;
    const int handled[] = {SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGBUS};
    enum { HANDLED = sizeof handled / sizeof *handled, ENDING = HANDLED - 1 };
    struct sigaction now;
    for (int i = 0; i < HANDLED; i++)
        signal(handled[i], SIG_DFL);
    signals_watch(context_of(0));
    signals_forget(context_of(0));
    for (int i = 0; i < HANDLED; i++) {
        assert_int_equal(sigaction(handled[i], NULL, &now), 0);
        assert_true(now.sa_handler == (i < ENDING ? signals_end : end_of_mapped));
        for (int k = 0; k < ENDING; k++)
            assert_int_equal(sigismember(&now.sa_mask, handled[k]), 1);
        assert_int_equal(sigismember(&now.sa_mask, SIGUSR1), 0);
        signal(handled[i], SIG_DFL);
    }
    assert_int_equal(sigaction(SIGQUIT, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL);
    signal(SIGHUP, SIG_IGN); /* as nohup starts a program */
    signals_watch(context_of(0));
    signals_forget(context_of(0));
    assert_int_equal(sigaction(SIGHUP, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_IGN);
    assert_int_equal(sigaction(SIGXFSZ, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_IGN);
    for (int i = 0; i < HANDLED; i++)
        signal(handled[i], SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
}

/* A child that receives the signal ends by it, after the files of every watched context were removed. */
static void a_signal_removes_and_ends(void **state)
{
    (void)state;
    int ends[2], status;
    char told[8] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        memset(removed, 0, sizeof removed);
        signals_watch(context_of(1));
        signals_watch(context_of(0));
        sigset_t term, before;
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        sigprocmask(SIG_BLOCK, &term, &before);
        signals_end(SIGTERM); /* the raised signal waits */
        if (write(ends[1], removed, strlen(removed)) < 0)
            _exit(1);
        sigprocmask(SIG_UNBLOCK, &term, NULL);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], told, sizeof told - 1), 2);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_string_equal(told, "ba");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_are_watched_until_forgotten),
        cmocka_unit_test(the_signals_exclude_each_other),
        cmocka_unit_test(a_signal_removes_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
