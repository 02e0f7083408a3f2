/* JSON records: the log and the settings of a run, and the results that the tool and bench/ write. A file
   holds one object, or one object per line.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_RECORD_H
#define HASHATTN_RECORD_H

#include "hashattn/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A file of records, read into memory. The context must outlive it. */
typedef struct hashattn_records hashattn_records;
/* A value of a record: an object, an array, a string, a number, true, false or null. */
typedef struct hashattn_value hashattn_value;

/* Reads a file of up to 256 MiB ("-": standard input). regular: non-zero refuses pipes and devices, and "-"
   is an ordinary name. BAD_FILE: it cannot be read. */
HASHATTN_API hashattn_status hashattn_records_open(hashattn_context *context, const char *path, int regular,
                                                   hashattn_records **records);
/* The next record, an object; NULL at the end. It is valid until the next call. BAD_FILE, with the file and
   the line or byte: a broken record, such as a line that was cut; the next call continues after it. */
HASHATTN_API hashattn_status hashattn_records_next(hashattn_records *records, const hashattn_value **record);
HASHATTN_API void hashattn_records_close(hashattn_records *records); /* NULL is allowed */

/* The value at a path of names and numbers, "training.steps" or "labels.3"; NULL if there is none. value may
   be NULL. */
HASHATTN_API const hashattn_value *hashattn_value_find(const hashattn_value *value, const char *path);
/* A number; NaN for anything else, and for NULL. */
HASHATTN_API double hashattn_value_number(const hashattn_value *value);
enum { HASHATTN_NUMBER_TEXT = 40 };
/* A string, or a number or flag as text in `number`; NULL for anything else. */
HASHATTN_API const char *hashattn_value_text(const hashattn_value *value, char number[HASHATTN_NUMBER_TEXT]);
/* Members of an object, elements of an array, otherwise 0. */
HASHATTN_API size_t hashattn_value_count(const hashattn_value *value);

/* key: of a member; NULL for an element. Return non-zero to stop. */
typedef int hashattn_value_callback(void *user, const char *key, const hashattn_value *value);
/* Calls back for every member or element, in order. */
HASHATTN_API void hashattn_value_each(const hashattn_value *value, hashattn_value_callback *callback,
                                      void *user);

#ifdef __cplusplus
}
#endif
#endif
