/* One pass over the ends of the sentences.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/pair_packing.h"

#include <assert.h>

#include "base/memory.h"
#include "base/random.h"

enum { ONE_SHORT_IN = 10, SHORTEST = 2 };

struct packer {
    const struct pair_rules *rules;
    const struct token_document *document;
    struct random random;
    size_t at;       /* first token that is not packed */
    size_t sentence; /* that contains it */
};

static size_t tokens_of(const struct token_document *document)
{
    return document->num_sentences == 0 ? 0 : document->ends[document->num_sentences - 1];
}

static size_t draw(struct packer *p, size_t bound)
{
    return random_below(&p->random, (uint32_t)bound);
}

static struct token_span span_of(const struct token_document *document, size_t first, size_t end)
{
    return (struct token_span){document->ids + first, end - first};
}

/* The end of whole sentences from token `at`, in sentence `sentence`, with at most `most` tokens; if two
   tokens do not fit so, the end of as much of the next sentence as fits. */
static size_t fill(const struct token_document *document, size_t at, size_t sentence, size_t most)
{
    size_t end = at;
    while (sentence < document->num_sentences && document->ends[sentence] - at <= most)
        end = document->ends[sentence++];
    return end > at + 1 || sentence == document->num_sentences ? end : at + most;
}

/* Divides tokens [at, end), two or more, at a random end of a sentence, otherwise at a random token. */
static size_t divide(struct packer *p, size_t end)
{
    const size_t *ends = p->document->ends;
    size_t inner = 0;
    while (ends[p->sentence + inner] < end)
        inner++;
    return inner > 0 ? ends[p->sentence + draw(p, inner)] : p->at + 1 + draw(p, end - p->at - 1);
}

/* At most `most` tokens of another document, from a random sentence on. */
static struct token_span from_another(struct packer *p, size_t most)
{
    const struct pair_rules *rules = p->rules;
    size_t chosen;
    do
        chosen = draw(p, rules->num_others);
    while (&rules->others[chosen] == p->document || rules->others[chosen].num_sentences == 0);
    const struct token_document *other = &rules->others[chosen];
    size_t sentence = draw(p, other->num_sentences), first = sentence == 0 ? 0 : other->ends[sentence - 1];
    while (first == tokens_of(other)) { /* the last sentences can have no tokens */
        sentence--;
        first = sentence == 0 ? 0 : other->ends[sentence - 1];
    }
    return span_of(other, first, fill(other, first, sentence, most));
}

static void move_to(struct packer *p, size_t at)
{
    p->at = at;
    while (p->sentence < p->document->num_sentences && p->document->ends[p->sentence] <= at)
        p->sentence++;
}

static hashattn_status pack_pair(struct packer *p, size_t end, size_t target, pair_visitor *visit,
                                 void *context)
{
    const struct token_document *document = p->document;
    size_t middle = divide(p, end);
    struct token_span a = span_of(document, p->at, middle), b = span_of(document, middle, end);
    bool changed = draw(p, 2) == 1;
    if (changed && p->rules->order == ORDER_NSP) {
        move_to(p, middle); /* what was to be B begins the next example */
        return visit(context, a, from_another(p, target - a.count), 1);
    }
    move_to(p, end);
    return changed ? visit(context, b, a, 1) : visit(context, a, b, 0);
}

hashattn_status pair_pack(const struct pair_rules *rules, const struct token_document *document, uint64_t key,
                          pair_visitor *visit, void *context, size_t *dropped)
{
    struct packer p = {.rules = rules, .document = document, .random = random_open(key)};
    size_t count = tokens_of(document);
    assert(rules->capacity >= SHORTEST && (!rules->whole || rules->order == ORDER_NONE));
    assert(rules->order != ORDER_NSP || rules->num_others >= 2); /* otherwise from_another draws for ever */
    for (move_to(&p, 0); p.at < count;) {
        size_t target = rules->capacity, at = p.at;
        if (!rules->whole && draw(&p, ONE_SHORT_IN) == 0)
            target = SHORTEST + draw(&p, rules->capacity - SHORTEST + 1);
        size_t end = rules->whole ? size_min(at + target, count) : fill(document, at, p.sentence, target);
        if (rules->order != ORDER_NONE && end - at >= 2) {
            TRY(pack_pair(&p, end, target, visit, context));
            continue;
        }
        move_to(&p, end);
        if (end - at >= 2)
            TRY(visit(context, span_of(document, at, end), (struct token_span){NULL, 0}, 0));
        else
            *dropped += 1;
    }
    return HASHATTN_OK;
}
