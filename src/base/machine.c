/* Linux: the affinity mask, and the first "model name" of /proc/cpuinfo, which AArch64 lacks. macOS: sysctl.
   Elsewhere: the processors that are online. Linux lists caches in files of one word each. State is requested
   on Linux on x86 only (Linux, Documentation/arch/x86/xstate.rst).
   SPDX-License-Identifier: Apache-2.0 */
#include "base/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

enum { MOST_PROCESSORS = 1024 }; /* as many as a pool has threads */

int machine_processors(void)
{
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) /* fails if there are more than it can name */
        return CPU_COUNT(&set);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > MOST_PROCESSORS ? MOST_PROCESSORS : (int)online;
}

void machine_name(char *text, size_t size)
{
    text[0] = '\0';
#if defined(__linux__)
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file == NULL)
        return;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        const char *value = colon + 1 + strspn(colon + 1, " \t");
        snprintf(text, size, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    fclose(file);
#elif defined(__APPLE__)
    char name[256];
    size_t length = sizeof name;
    if (sysctlbyname("machdep.cpu.brand_string", name, &length, NULL, 0) == 0)
        snprintf(text, size, "%.*s", (int)length, name);
#else
    (void)size;
#endif
}

bool machine_grants_state(unsigned number)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST_PERMISSION = 0x1023 };
    int before = errno; /* a refusal is no error */
    bool granted = syscall(SYS_arch_prctl, REQUEST_PERMISSION, number) == 0;
    errno = before;
    return granted;
#else
    (void)number;
    return false;
#endif
}

/* Reads the first word of folder/indexN/name; "" if there is none. */
static void read_word(const char *folder, int index, const char *name, char word[16])
{
    char path[256], line[16] = "";
    snprintf(path, sizeof path, "%s/index%d/%s", folder, index, name);
    FILE *file = fopen(path, "r");
    if (file != NULL && fgets(line, sizeof line, file) == NULL)
        line[0] = '\0';
    if (file != NULL)
        fclose(file);
    snprintf(word, 16, "%.*s", (int)strcspn(line, "\n"), line);
}

void machine_caches(const char *folder, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int index = 0; used < size; index++) {
        char level[16], type[16], amount[16];
        read_word(folder, index, "level", level);
        read_word(folder, index, "type", type);
        read_word(folder, index, "size", amount); /* always in KiB: "1024K" */
        if (level[0] == '\0')
            return;
        unsigned long kib = strtoul(amount, NULL, 10);
        if (kib == 0 || strcmp(type, "Instruction") == 0)
            continue;
        int wrote = snprintf(text + used, size - used, "%sL%s %lu %s", used == 0 ? "" : ", ", level,
                             kib % 1024 == 0 ? kib / 1024 : kib, kib % 1024 == 0 ? "MiB" : "KiB");
        used += (size_t)wrote;
    }
}
