/* The default allocator and the message of a failure. Large blocks request huge pages: a step passes several
   times over hundreds of MiB, and with pages of 4 KiB page-table walks take part of the time. Measured with
   one thread on a virtual machine, old and new in turn: a training step of LRA size took 0.97 of the time
   (0.95 under load), one layer of BERT-base size 0.93 to 0.97, attention without a model, whose blocks are
   smaller, the same. If the system has no huge pages, nothing changes.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/host.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/c_locale.h"

enum { PREFIX_KEPT = 240 }; /* bytes of a prefix, half a message */

enum { HUGE_PAGE = 1 << 21, LARGE = 2 * HUGE_PAGE }; /* bytes; the size on x86-64 and AArch64 */

/* Only for whole pages inside the block, so that it takes no memory beyond it. A refusal is not an error. */
static void ask_for_huge_pages(void *block, size_t bytes)
{
#if defined(MADV_HUGEPAGE)
    size_t skipped = (HUGE_PAGE - (uintptr_t)block % HUGE_PAGE) % HUGE_PAGE;
    madvise((char *)block + skipped, (bytes - skipped) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#else
    (void)block, (void)bytes;
#endif
}

static void *allocate_aligned(void *user, size_t alignment, size_t bytes)
{
    (void)user;
    if (bytes > (size_t)-1 - alignment)
        return NULL;
    void *block = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (block != NULL && bytes >= LARGE)
        ask_for_huge_pages(block, bytes);
    return block;
}

static void release_aligned(void *user, void *block)
{
    (void)user;
    free(block);
}

void host_init(struct host *host)
{
    host->allocate = allocate_aligned;
    host->release = release_aligned;
    host->user = NULL;
    host->unfinished = NULL;
    host->message[0] = host->note[0] = '\0';
    host->repaired = host->option_dashes = 0;
}

/* ---- messages ------------------------------------------------------------------------------------------ */

/* Continuation bytes that the first byte of a character announces; -1: no character begins with it. */
static int bytes_after(unsigned char first)
{
    return first < 0x80 ? 0 : first < 0xc2 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : -1;
}

static bool continues(const unsigned char *at, int index)
{
    /* The second byte excludes longer forms than needed, surrogates and what lies past U+10FFFF. */
    unsigned char least = 0x80, most = 0xbf;
    if (index == 1)
        least = at[0] == 0xe0   ? 0xa0
                : at[0] == 0xf0 ? 0x90
                                : 0x80,
        most = at[0] == 0xed   ? 0x9f
               : at[0] == 0xf4 ? 0x8f
                               : 0xbf;
    return at[index] >= least && at[index] <= most;
}

/* True for controls, U+2028 and U+2029, and U+202A to U+202E and U+2066 to U+2069. */
static bool disturbs(const unsigned char *at)
{
    bool line = at[0] == 0xe2 && at[1] == 0x80 && at[2] >= 0xa8 && at[2] <= 0xae,
         isolate = at[0] == 0xe2 && at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9;
    return at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0) || line || isolate;
}

void hashattn_message_clean(char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    char *to = text;
    while (*at != '\0') {
        int wanted = bytes_after(*at), found = 0;
        while (found < wanted && continues(at, found + 1))
            found++;
        if (wanted < 0 || (found == wanted && disturbs(at)))
            *to++ = '?';
        else if (found == wanted)
            for (int i = 0; i <= found; i++)
                *to++ = (char)at[i];
        at += 1 + found;
    }
    *to = '\0';
}

/* Writes "name" or "name=value" of `size` bytes as a person types it, and returns the end. */
static char *write_typed(char *to, const char *name, size_t size)
{
    const char *equals = memchr(name, '=', size);
    size_t length = equals == NULL ? size : (size_t)(equals - name);
    size_t rest = size - length; /* of "=value" */
    bool off = rest == 6 && memcmp(equals, "=false", 6) == 0,
         on = rest == 5 && memcmp(equals, "=true", 5) == 0;
    const char *dashes = off ? "--no-" : "--";
    memcpy(to, dashes, strlen(dashes));
    to += strlen(dashes);
    for (size_t i = 0; i < length; i++)
        *to++ = name[i] == '_' ? '-' : name[i];
    if (rest == 0 || on || off)
        return to;
    *to++ = ' ';
    memcpy(to, equals + 1, rest - 1);
    return to + rest - 1;
}

/* Shows the options that a message names in backquotes (host.h). No form is longer than the one before. */
static void show_options(const struct host *host, char *text)
{
    static const char names[] = "abcdefghijklmnopqrstuvwxyz0123456789_.=-";
    char shown[sizeof host->note], *to = shown;
    for (const char *at = text; *at != '\0';) {
        size_t size = *at == '`' ? strspn(at + 1, names) : 0;
        if (size == 0 || at[1 + size] != '`') {
            *to++ = *at++;
            continue;
        }
        if (host->option_dashes)
            to = write_typed(to, at + 1, size);
        else
            memcpy(to, at + 1, size), to += size;
        at += size + 2;
    }
    *to = '\0';
    memcpy(text, shown, (size_t)(to - shown) + 1);
}

hashattn_status host_fail(struct host *host, hashattn_status status, const char *format, ...)
{
    /* The arguments may point into the old message, so build the new one in a copy. */
    char text[sizeof host->message];
    va_list arguments;
    va_start(arguments, format);
    struct c_locale locale = c_locale_begin();
    vsnprintf(text, sizeof text, format, arguments);
    c_locale_end(locale);
    va_end(arguments);
    hashattn_message_clean(text);
    show_options(host, text);
    memcpy(host->message, text, sizeof text);
    return status;
}

void host_note(struct host *host, int repaired, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct c_locale locale = c_locale_begin();
    vsnprintf(host->note, sizeof host->note, format, arguments);
    c_locale_end(locale);
    va_end(arguments);
    hashattn_message_clean(host->note);
    show_options(host, host->note);
    host->repaired = repaired;
}

void host_suffix(struct host *host, const char *suffix)
{
    size_t used = strlen(host->message);
    snprintf(host->message + used, sizeof host->message - used, "%s", suffix);
    show_options(host, host->message + used);
}

void host_prefix(struct host *host, const char *prefix)
{
    char text[sizeof host->message];
    memcpy(text, host->message, sizeof text);
    /* Keep the end of a long path, which identifies the file, and leave room for the reason. */
    size_t length = strlen(prefix), kept = length > PREFIX_KEPT ? PREFIX_KEPT : length;
    while (kept < length && kept > 0 && ((unsigned char)prefix[length - kept] & 0xc0) == 0x80)
        kept--; /* begin with a whole character */
    int written = snprintf(host->message, sizeof host->message, "%s%s: ", kept < length ? "..." : "",
                           prefix + (length - kept));
    size_t used = written < 0 ? 0 : (size_t)written;
    if (used < sizeof host->message)
        snprintf(host->message + used, sizeof host->message - used, "%s", text);
    hashattn_message_clean(host->message);
}

#define ROW_NAME(name, value, code, text) [value] = #name,
#define ROW_TEXT(name, value, code, text) [value] = text,
#define ROW_CODE(name, value, code, text) [value] = code,
static const char *const names[] = {HASHATTN_STATUS_LIST(ROW_NAME)};
static const char *const texts[] = {HASHATTN_STATUS_LIST(ROW_TEXT)};
static const int codes[] = {HASHATTN_STATUS_LIST(ROW_CODE)};

static size_t row_of(hashattn_status status)
{
    return (size_t)status < sizeof codes / sizeof codes[0] ? (size_t)status : HASHATTN_FAILED;
}

const char *hashattn_status_name(hashattn_status status)
{
    return names[row_of(status)];
}

const char *hashattn_status_text(hashattn_status status)
{
    return texts[row_of(status)];
}

int hashattn_status_exit_code(hashattn_status status)
{
    return codes[row_of(status)];
}
