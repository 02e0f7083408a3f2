/* A blocked signal arrives later, and a signal that was blocked before stays blocked. Planted and caught:
   restore unblocks everything; a signal that ends a program not blocked; another signal blocked; a set that
   is not cleared.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/signal_mask.h"

#include "support/check.h"

static volatile sig_atomic_t came;

static void count(int number)
{
    (void)number;
    came++;
}

static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

static bool is_ending(int number)
{
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (ending[i] == number)
            return true;
    return false;
}

/* Fills the stack below the caller, so that a set that is not cleared holds every signal. */
__attribute__((noinline)) static void fill_stack(void)
{
    volatile unsigned char bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = 0xff;
}

static void signals_come_when_the_mask_is_restored(void **state)
{
    (void)state;
    sigset_t before, outer, now;
    sigemptyset(&outer);
    sigaddset(&outer, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &outer, &before), 0);
    signal(SIGUSR1, count);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        signal(ending[i], count);
    for (int all = 0; all < 2; all++) {
        came = 0;
        fill_stack();
        (all ? signal_mask_all : signal_mask_ending)(&outer);
        for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
            raise(ending[i]);
        raise(SIGUSR1);
        assert_int_equal(came, all ? 0 : 1);
        assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
        for (int number = 1; number < 32; number++)
            if (number != SIGKILL && number != SIGSTOP)
                assert_int_equal(sigismember(&now, number), all || number == SIGUSR2 || is_ending(number));
        signal_mask_restore(&outer);
        assert_int_equal(came, 5);
        assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
        assert_true(sigismember(&now, SIGUSR2) && !sigismember(&now, SIGUSR1) && !sigismember(&now, SIGTERM));
    }
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        signal(ending[i], SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_come_when_the_mask_is_restored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
