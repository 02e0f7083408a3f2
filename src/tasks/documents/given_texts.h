/* Texts in memory as documents, for callers that have no file of them. Cost: a pass over their bytes before
   the first visit.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_GIVEN_TEXTS_H
#define TASKS_GIVEN_TEXTS_H

#include "tasks/documents/document.h"

struct given_texts {
    const char *const *texts, *const *seconds; /* (count); seconds: of pairs, otherwise NULL */
    size_t count;
};

/* What a caller gives: files and folders, or texts if paths is NULL. */
struct given_documents {
    const char *const *paths; /* (num_paths) */
    size_t num_paths;
    struct given_texts texts;
};

/* Calls visit for every text, or pair, until a call fails. They have neither label nor id nor file. Checks
   all before the first call. INVALID, with the place: a text is NULL or not UTF-8, or fails in its visit as a
   bad file does; pairs are read and there are no second texts, or the other way round. */
hashattn_status given_texts_visit(struct host *host, const struct given_texts *given, bool pairs,
                                  document_visitor *visit, void *context);

#endif
