/* One pass over the characters. NFD sorts the combining marks that follow each other by their class, so they
   wait until the next character that stays in its place. The position of a character follows the reference:
   the n-th character that was not inserted has the position of the n-th character of the text, even if NFD
   has exchanged them.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/bert_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/characters.h"

struct bert_mark {
    int32_t point;
    int order;
    size_t place;        /* among the marks that wait */
    bool inserted;       /* not the first part of a decomposed character */
    uint32_t begin, end; /* of the text */
};

void normal_text_free(struct host *host, struct normal_text *normal)
{
    memory_free(host, normal->bytes);
    memory_free(host, normal->begins);
    memory_free(host, normal->ends);
    memory_free(host, normal->marks);
    *normal = (struct normal_text){.bytes = NULL};
}

/* What one pass needs. */
struct pass {
    struct host *host;
    const struct bert_normalizer *normalizer;
    struct normal_text *normal;
    uint32_t begin, end; /* of the text: of the last character that was written */
};

static hashattn_status grow(struct pass *pass, size_t more)
{
    struct normal_text *normal = pass->normal;
    const char *what = "normalized text";
    TRY(memory_grow(pass->host, &normal->bytes, &normal->bytes_capacity, normal->size, more, 1, what));
    TRY(memory_grow(pass->host, &normal->begins, &normal->begins_capacity, normal->size, more,
                    sizeof *normal->begins, what));
    return memory_grow(pass->host, &normal->ends, &normal->ends_capacity, normal->size, more,
                       sizeof *normal->ends, what);
}

/* Writes a character after the last steps, stripping and lower case. */
static hashattn_status write(struct pass *pass, int32_t point)
{
    struct normal_text *normal = pass->normal;
    int32_t lower[CHARACTER_MOST_LOWER] = {point};
    if (pass->normalizer->strip && (character_flags(point) & CHARACTER_MARK) != 0)
        return HASHATTN_OK;
    size_t count = pass->normalizer->lower ? character_lower(point, lower) : 1;
    TRY(grow(pass, 4 * count));
    for (size_t i = 0; i < count; i++) {
        size_t size = character_write(lower[i], normal->bytes + normal->size);
        for (; size > 0; size--, normal->size++) {
            normal->begins[normal->size] = pass->begin;
            normal->ends[normal->size] = pass->end;
        }
    }
    return HASHATTN_OK;
}

static int compare(const void *a, const void *b)
{
    const struct bert_mark *x = a, *y = b;
    return x->order != y->order ? x->order - y->order : (x->place > y->place) - (x->place < y->place);
}

/* Sorts and writes the marks that wait. */
static hashattn_status write_marks(struct pass *pass)
{
    struct normal_text *normal = pass->normal;
    size_t count = normal->num_marks, source = 0;
    normal->num_marks = 0;
    if (count == 0)
        return HASHATTN_OK;
    /* The positions stay in order: keep them apart while the marks are sorted. */
    struct bert_mark *marks = normal->marks, *places = marks + count;
    memcpy(places, marks, count * sizeof *marks);
    qsort(marks, count, sizeof *marks, compare);
    for (size_t i = 0; i < count; i++) {
        if (!marks[i].inserted) {
            while (places[source].inserted)
                source++;
            pass->begin = places[source].begin;
            pass->end = places[source].end;
            source++;
        }
        TRY(write(pass, marks[i].point));
    }
    return HASHATTN_OK;
}

/* A character after cleaning, from bytes begin .. end of the text. */
static hashattn_status add(struct pass *pass, int32_t point, uint32_t begin, uint32_t end)
{
    struct normal_text *normal = pass->normal;
    int32_t parts[CHARACTER_MOST_PARTS] = {point};
    size_t count = pass->normalizer->strip ? character_decompose(point, parts) : 1;
    for (size_t i = 0; i < count; i++) {
        int order = pass->normalizer->strip ? character_order(parts[i]) : 0;
        if (order > 0) {
            /* Twice: write_marks needs a copy. */
            TRY(memory_grow(pass->host, &normal->marks, &normal->marks_capacity, normal->num_marks,
                            normal->num_marks + 2, sizeof *normal->marks, "combining marks"));
            normal->marks[normal->num_marks] =
                (struct bert_mark){parts[i], order, normal->num_marks, i > 0, begin, end};
            normal->num_marks++;
            continue;
        }
        TRY(write_marks(pass));
        if (i == 0) {
            pass->begin = begin;
            pass->end = end;
        }
        TRY(write(pass, parts[i]));
    }
    return HASHATTN_OK;
}

hashattn_status bert_normalize(struct host *host, const struct bert_normalizer *normalizer, struct piece text,
                               struct normal_text *normal)
{
    struct pass pass = {.host = host, .normalizer = normalizer, .normal = normal};
    FAIL_IF(text.size > UINT32_MAX, host, HASHATTN_INVALID, "a text of %zu bytes, at most %u are allowed",
            text.size, UINT32_MAX);
    normal->size = normal->num_marks = 0;
    TRY(grow(&pass, text.size));
    const char *at = text.bytes, *last = at + text.size;
    for (size_t size; at < last; at += size) {
        int32_t point;
        size = character_read(at, last, &point);
        if (point == CHARACTER_NONE)
            point = CHARACTER_REPLACEMENT;
        uint32_t begin = (uint32_t)(at - text.bytes), end = begin + (uint32_t)size;
        unsigned flags = character_flags(point);
        if (normalizer->clean && (flags & CHARACTER_CONTROL) != 0)
            continue;
        if (normalizer->clean && (flags & CHARACTER_SPACE) != 0)
            point = ' ';
        bool apart = normalizer->ideographs && character_is_ideograph(point);
        if (apart)
            TRY(add(&pass, ' ', begin, end));
        TRY(add(&pass, point, begin, end));
        if (apart)
            TRY(add(&pass, ' ', begin, end));
    }
    return write_marks(&pass);
}

struct piece bert_word(const char **at, const char *end)
{
    const char *begin = *at;
    size_t size;
    int32_t point;
    for (; *at < end; *at += size) {
        size = character_read(*at, end, &point);
        unsigned flags = character_flags(point);
        if ((flags & (CHARACTER_SPACE | CHARACTER_PUNCTUATION)) == 0)
            continue;
        if (*at > begin)
            return (struct piece){begin, (size_t)(*at - begin)};
        if ((flags & CHARACTER_PUNCTUATION) != 0) {
            *at += size;
            return (struct piece){begin, size};
        }
        begin = *at + size;
    }
    return (struct piece){begin, (size_t)(end - begin)};
}

/* Before a space of ASCII, or an ideograph that gets spaces: neither takes part in NFD. */
bool bert_splits(const struct bert_normalizer *normalizer, const char *begin, const char *at, const char *end)
{
    int32_t right;
    (void)begin;
    character_read(at, end, &right);
    return right == ' ' || right == '\n' || right == '\t' ||
           (normalizer->ideographs && right >= 0x4e00 && right <= 0x9fff);
}
