/* All results a hashattn call can return. Values never change. A failed call also leaves a message with the
   numbers in its context (hashattn_context_message).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_STATUS_H
#define HASHATTN_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* HASHATTN_INLINE: a function that passes the caller's size of a struct on (attention.h). */
#if defined(__GNUC__)
#define HASHATTN_API    __attribute__((visibility("default")))
#define HASHATTN_INLINE static __inline__
#else
#define HASHATTN_API
#define HASHATTN_INLINE static inline
#endif

/* X(name, value, exit code of the tool, text) */
#define HASHATTN_STATUS_LIST(X)                                                                              \
    X(OK, 0, 0, "success")                                                                                   \
    X(FAILED, 1, 1, "the work failed")                                                                       \
    X(INVALID, 2, 2, "invalid argument")                                                                     \
    X(REFUSED, 3, 2, "not supported in this form")                                                           \
    X(BAD_FILE, 4, 3, "bad input file")                                                                      \
    X(NO_MEMORY, 5, 4, "out of memory")                                                                      \
    X(NO_DISK, 6, 4, "cannot write")                                                                         \
    X(INTERRUPTED, 7, 130, "interrupted after saving")

typedef enum hashattn_status {
#define HASHATTN_STATUS_ENUM(name, value, code, text) HASHATTN_##name = (value),
    HASHATTN_STATUS_LIST(HASHATTN_STATUS_ENUM)
#undef HASHATTN_STATUS_ENUM
} hashattn_status;

/* The name and text of a status, for example "INVALID" and "invalid argument"; never NULL. */
HASHATTN_API const char *hashattn_status_name(hashattn_status status);
HASHATTN_API const char *hashattn_status_text(hashattn_status status);
/* Makes a text safe to print as one line, in place: control characters, line separators, marks that turn the
   direction of text and bytes that are not UTF-8 become '?'; a character of which a limit cut the end is
   dropped. The library does this to its messages. */
HASHATTN_API void hashattn_message_clean(char *text);
/* The tool's exit code for this status: 0, 1, 2, 3, 4 or 130. */
HASHATTN_API int hashattn_status_exit_code(hashattn_status status);

#ifdef __cplusplus
}
#endif
#endif
