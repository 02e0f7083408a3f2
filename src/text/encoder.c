/* A text is encoded from left to right: added tokens, normalization, words, tokens of words. A long text is
   cut into chunks where its parts have the tokens of the whole, so memory does not grow with the text, and a
   limit on the tokens stops the reading.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "text/byte_level.h"
#include "text/characters.h"
#include "text/tokenizer_parts.h"
#include "text/word_cache.h"

enum { CHUNK = 1 << 13 }; /* bytes; a chunk is longer until the first place where it may end */

struct tokens {
    uint32_t *ids;
    size_t *begins, *ends; /* capacity 0 unless offsets are wanted */
    size_t count, ids_capacity, begins_capacity, ends_capacity;
};

struct encoder {
    struct host *host;
    const struct tokenizer *tokenizer;
    struct word_cache cache;
    struct bpe_scratch bpe;
    struct max_match_run wordpiece;
    struct added_matches raw, normalized; /* of a chunk; of a piece of it */
    struct added_probe raw_probe, normalized_probe;
    struct word_tokens word;   /* of one word that is not in the cache */
    struct normal_text normal; /* of one piece between added tokens */
    char *prefixed;            /* a piece with a space in front */
    size_t prefixed_capacity;
    struct tokens texts[2], out; /* of the texts; with special tokens */
    uint8_t *segments;
    size_t segments_capacity;
};

/* The text that is being encoded, and where its tokens go. */
struct job {
    struct encoder *encoder;
    struct piece text;
    struct tokens *tokens;
    size_t limit; /* stop after more tokens than this */
    bool offsets;
};

/* A part of the text after normalization: byte i comes from bytes origin + begins[i] .. origin + ends[i] of
   the text, or, if begins is NULL, from the character at origin + i. */
struct view {
    struct piece bytes;
    size_t origin;
    const uint32_t *begins, *ends;
    bool has_prefix; /* byte 0 is a space that was added; byte i comes from origin + i - 1 */
};

hashattn_status encoder_new(struct host *host, const struct tokenizer *tokenizer, struct encoder **encoder)
{
    void *block;
    *encoder = NULL;
    TRY(memory_new_zeroed(host, 1, sizeof **encoder, "an encoder", &block));
    struct encoder *made = block;
    made->host = host;
    made->tokenizer = tokenizer;
    hashattn_status status = word_cache_init(host, &made->cache);
    if (status != HASHATTN_OK)
        encoder_free(made);
    else
        *encoder = made;
    return status;
}

static void tokens_free(struct host *host, struct tokens *tokens)
{
    memory_free(host, tokens->ids);
    memory_free(host, tokens->begins);
    memory_free(host, tokens->ends);
}

void encoder_free(struct encoder *encoder)
{
    if (encoder == NULL)
        return;
    struct host *host = encoder->host;
    word_cache_free(host, &encoder->cache);
    bpe_scratch_free(host, &encoder->bpe);
    max_match_run_free(host, &encoder->wordpiece);
    added_matches_free(host, &encoder->raw);
    added_matches_free(host, &encoder->normalized);
    added_probe_free(host, &encoder->raw_probe);
    added_probe_free(host, &encoder->normalized_probe);
    memory_free(host, encoder->word.list);
    normal_text_free(host, &encoder->normal);
    memory_free(host, encoder->prefixed);
    tokens_free(host, &encoder->texts[0]);
    tokens_free(host, &encoder->texts[1]);
    tokens_free(host, &encoder->out);
    memory_free(host, encoder->segments);
    memory_free(host, encoder);
}

static hashattn_status tokens_grow(struct host *host, struct tokens *tokens, size_t more, bool offsets)
{
    TRY(memory_grow(host, &tokens->ids, &tokens->ids_capacity, tokens->count, more, sizeof *tokens->ids,
                    "tokens"));
    if (!offsets)
        return HASHATTN_OK;
    TRY(memory_grow(host, &tokens->begins, &tokens->begins_capacity, tokens->count, more,
                    sizeof *tokens->begins, "offsets"));
    return memory_grow(host, &tokens->ends, &tokens->ends_capacity, tokens->count, more, sizeof *tokens->ends,
                       "offsets");
}

/* ---- offsets ------------------------------------------------------------------------------------------ */

/* The bytes begin .. end of the character that holds byte `at` of a text. */
static void character_around(struct piece text, size_t at, size_t *begin, size_t *end)
{
    int32_t point;
    for (size_t back = 0; back < 4 && back <= at; back++) {
        size_t size = character_read(text.bytes + at - back, text.bytes + text.size, &point);
        if (size > back && (point != CHARACTER_NONE || back == 0)) {
            *begin = at - back;
            *end = *begin + size;
            if (point != CHARACTER_NONE)
                return;
        }
    }
}

static size_t view_begin(const struct job *job, const struct view *view, size_t at)
{
    size_t begin, end;
    if (view->begins != NULL)
        return view->origin + view->begins[at];
    character_around(job->text, view->origin + at - (view->has_prefix && at > 0), &begin, &end);
    return begin;
}

static size_t view_end(const struct job *job, const struct view *view, size_t at)
{
    size_t begin, end;
    if (view->begins != NULL)
        return view->origin + view->ends[at];
    character_around(job->text, view->origin + at - (view->has_prefix && at > 0), &begin, &end);
    return end;
}

/* ---- words -------------------------------------------------------------------------------------------- */

/* Appends the tokens of the word at `at` of a view. */
static hashattn_status encode_word(const struct job *job, const struct view *view, struct piece word)
{
    struct encoder *encoder = job->encoder;
    const struct tokenizer *tokenizer = encoder->tokenizer;
    struct tokens *tokens = job->tokens;
    uint64_t hash = word_cache_hash(&encoder->cache, word);
    size_t count, at = (size_t)(word.bytes - view->bytes.bytes);
    const struct word_token *list = word_cache_find(&encoder->cache, word, hash, &count);
    if (list == NULL) {
        if (tokenizer->kind == TOKENIZER_BYTE_BPE)
            TRY(bpe_word(encoder->host, &tokenizer->bpe, &encoder->bpe, word, &encoder->word));
        else
            TRY(wordpiece_word(encoder->host, &tokenizer->wordpiece, &encoder->wordpiece, word,
                               &encoder->word));
        word_cache_keep(&encoder->cache, word, hash, &encoder->word);
        list = encoder->word.list;
        count = encoder->word.count;
    }
    TRY(tokens_grow(encoder->host, tokens, count, job->offsets));
    for (size_t i = 0; i < count; i++) {
        tokens->ids[tokens->count] = list[i].id;
        if (job->offsets) {
            tokens->begins[tokens->count] = view_begin(job, view, at + list[i].begin);
            tokens->ends[tokens->count] = view_end(job, view, at + list[i].end - 1);
        }
        tokens->count++;
    }
    return HASHATTN_OK;
}

/* Encodes text between added tokens. `begins`: it begins the text or follows an added token, and is not the
   rest after a chunk. */
static hashattn_status encode_words(const struct job *job, struct view view, bool begins)
{
    struct encoder *encoder = job->encoder;
    if (view.bytes.size == 0)
        return HASHATTN_OK;
    if (encoder->tokenizer->prefix_space && begins && view.bytes.bytes[0] != ' ') {
        TRY(memory_grow(encoder->host, &encoder->prefixed, &encoder->prefixed_capacity, 0,
                        view.bytes.size + 1, 1, "text"));
        encoder->prefixed[0] = ' ';
        memcpy(encoder->prefixed + 1, view.bytes.bytes, view.bytes.size);
        view.bytes = (struct piece){encoder->prefixed, view.bytes.size + 1};
        view.has_prefix = true;
    }
    const char *at = view.bytes.bytes, *end = at + view.bytes.size;
    while (at < end && job->tokens->count <= job->limit) {
        struct piece word;
        if (encoder->tokenizer->kind == TOKENIZER_BYTE_BPE) {
            word.bytes = at;
            at = byte_level_word(at, end);
            word.size = (size_t)(at - word.bytes);
        } else {
            word = bert_word(&at, end);
        }
        if (word.size > 0)
            TRY(encode_word(job, &view, word));
    }
    return HASHATTN_OK;
}

/* ---- added tokens ------------------------------------------------------------------------------------- */

static hashattn_status add_match(const struct job *job, const struct added_token *token, size_t begin,
                                 size_t end)
{
    struct tokens *tokens = job->tokens;
    TRY(tokens_grow(job->encoder->host, tokens, 1, job->offsets));
    tokens->ids[tokens->count] = token->id;
    if (job->offsets) {
        tokens->begins[tokens->count] = begin;
        tokens->ends[tokens->count] = end;
    }
    tokens->count++;
    return HASHATTN_OK;
}

/* Encodes text without tokens of the set `raw`: bytes begin .. end of the text. */
static hashattn_status encode_piece(const struct job *job, size_t begin, size_t end, bool begins)
{
    struct encoder *encoder = job->encoder;
    const struct tokenizer *tokenizer = encoder->tokenizer;
    struct view view = {.bytes = {job->text.bytes + begin, end - begin}, .origin = begin};
    if (begin == end)
        return HASHATTN_OK;
    if (tokenizer->has_normalizer) {
        TRY(bert_normalize(encoder->host, &tokenizer->normalizer, view.bytes, &encoder->normal));
        view.bytes = (struct piece){encoder->normal.bytes, encoder->normal.size};
        view.begins = encoder->normal.begins;
        view.ends = encoder->normal.ends;
    }
    const struct view whole = view;
    const struct added_matches *matches = &encoder->normalized;
    TRY(added_tokens_find(encoder->host, &tokenizer->normalized, whole.bytes, &encoder->normalized));
    for (size_t i = 0, done = 0; i <= matches->count && job->tokens->count <= job->limit; i++) {
        const struct added_match *match = i < matches->count ? &matches->list[i] : NULL;
        size_t stop = size_max(done, match != NULL ? match->begin : whole.bytes.size);
        view = whole;
        view.bytes = (struct piece){whole.bytes.bytes + done, stop - done};
        if (view.begins == NULL) {
            view.origin += done;
        } else {
            view.begins += done;
            view.ends += done;
        }
        TRY(encode_words(job, view, begins || done > 0));
        if (match == NULL)
            break;
        TRY(add_match(job, match->token, view_begin(job, &whole, match->begin),
                      view_end(job, &whole, match->end - 1)));
        done = match->end;
    }
    return HASHATTN_OK;
}

/* ---- texts -------------------------------------------------------------------------------------------- */

/* True if no added token touches the place where a text would be cut. Tokens of normalized text are found
   between the others. */
static hashattn_status may_cut(struct encoder *encoder, struct piece text, size_t cut, bool *may)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    bool touches;
    size_t end = SIZE_MAX, unused;
    *may = false;
    TRY(added_probe_move(encoder->host, &tokenizer->raw, text, cut, &encoder->raw_probe, &touches, &end));
    if (end != SIZE_MAX)
        added_probe_restart(&encoder->normalized_probe, end);
    if (touches)
        return HASHATTN_OK;
    TRY(added_probe_move(encoder->host, &tokenizer->normalized, text, cut, &encoder->normalized_probe,
                         &touches, &unused));
    *may = !touches;
    return HASHATTN_OK;
}

/* Sets *end to the end of the chunk that begins at `at`. */
static hashattn_status find_chunk(struct encoder *encoder, struct piece text, size_t at, size_t *end)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    *end = text.size;
    if (text.size - at <= 2 * CHUNK || (tokenizer->has_normalizer && tokenizer->normalized.count > 0))
        return HASHATTN_OK;
    const char *begin = text.bytes + at, *last = text.bytes + text.size;
    for (size_t cut = at + CHUNK; cut < text.size; cut++) {
        const char *here = text.bytes + cut;
        bool splits = tokenizer->kind == TOKENIZER_BYTE_BPE
                          ? byte_level_splits(begin, here, last)
                          : bert_splits(&tokenizer->normalizer, begin, here, last);
        if (splits)
            TRY(may_cut(encoder, text, cut, &splits));
        if (splits) {
            *end = cut;
            return HASHATTN_OK;
        }
    }
    return HASHATTN_OK;
}

static hashattn_status encode_text(const struct job *job)
{
    struct encoder *encoder = job->encoder;
    const struct added_matches *matches = &encoder->raw;
    job->tokens->count = 0;
    added_probe_restart(&encoder->raw_probe, 0);
    added_probe_restart(&encoder->normalized_probe, 0);
    for (size_t begin = 0, end; begin < job->text.size && job->tokens->count <= job->limit; begin = end) {
        TRY(find_chunk(encoder, job->text, begin, &end));
        const struct piece chunk = {job->text.bytes + begin, end - begin};
        TRY(added_tokens_find(encoder->host, &encoder->tokenizer->raw, chunk, &encoder->raw));
        for (size_t i = 0, done = 0; i <= matches->count && job->tokens->count <= job->limit; i++) {
            const struct added_match *match = i < matches->count ? &matches->list[i] : NULL;
            size_t stop = size_max(done, match != NULL ? match->begin : chunk.size);
            TRY(encode_piece(job, begin + done, begin + stop, begin == 0 || done > 0));
            if (match == NULL)
                break;
            TRY(add_match(job, match->token, begin + match->begin, begin + match->end));
            done = match->end;
        }
    }
    return HASHATTN_OK;
}

/* ---- post-processing ---------------------------------------------------------------------------------- */

static bool is_blank(const char *at, const char *end, size_t *size)
{
    int32_t point;
    *size = character_read(at, end, &point);
    return point == 0x120 || (character_flags(point) & CHARACTER_SPACE) != 0; /* U+0120: byte level's space */
}

/* The number of blank characters that a token begins and ends with, at most `most` of each: more are never
   cut off, and a long token may occur often. */
static void count_blanks(struct piece token, size_t most, size_t *leading, size_t *trailing)
{
    const char *end = token.bytes + token.size, *at = token.bytes;
    size_t size;
    for (*leading = 0; *leading < most && at < end && is_blank(at, end, &size); at += size)
        ++*leading;
    for (*trailing = 0; *trailing < most && end > token.bytes; end = at) {
        at = end - 1;
        while (at > token.bytes && end - at < 4 && ((unsigned char)*at & 0xc0) == 0x80)
            at--;
        if (!is_blank(at, end, &size) || size != (size_t)(end - at))
            break;
        ++*trailing;
    }
}

/* Leaves out the white space that tokens begin and end with; for an added token, that of its text. */
static void trim(const struct tokenizer *tokenizer, struct piece text, struct tokens *tokens)
{
    for (size_t i = 0; i < tokens->count; i++) {
        size_t leading, trailing, first, last, *begin = &tokens->begins[i], *end = &tokens->ends[i];
        struct piece token = tokenizer_token(tokenizer, tokens->ids[i]);
        if (tokenizer->vocabulary.entries[tokens->ids[i]].added)
            token = (struct piece){text.bytes + *begin, *end - *begin};
        count_blanks(token, *end - *begin, &leading, &trailing);
        if (leading == 1 && (i == 0 || *begin == 0) && tokenizer->trim_prefix_space)
            leading = 0;
        for (; leading > 0 && *begin < *end; leading--) {
            character_around(text, *begin, &first, &last);
            *begin = last;
        }
        for (; trailing > 0 && *end > *begin; trailing--) {
            character_around(text, *end - 1, &first, &last);
            *end = first;
        }
    }
}

/* Appends the tokens of a text, or one special token, to the result. */
static hashattn_status put(struct encoder *encoder, const struct template_piece *piece, size_t count,
                           bool offsets)
{
    struct tokens *out = &encoder->out;
    const struct tokens *from = piece->text >= 0 ? &encoder->texts[piece->text] : NULL;
    TRY(tokens_grow(encoder->host, out, count, offsets));
    TRY(memory_grow(encoder->host, &encoder->segments, &encoder->segments_capacity, out->count, count, 1,
                    "segments"));
    if (count > 0)
        memset(encoder->segments + out->count, piece->segment, count);
    if (from == NULL) {
        out->ids[out->count] = piece->id;
        if (offsets)
            out->begins[out->count] = out->ends[out->count] = 0;
    } else if (count > 0) {
        memcpy(out->ids + out->count, from->ids, count * sizeof *out->ids);
        if (offsets) {
            memcpy(out->begins + out->count, from->begins, count * sizeof *out->begins);
            memcpy(out->ends + out->count, from->ends, count * sizeof *out->ends);
        }
    }
    out->count += count;
    return HASHATTN_OK;
}

/* How many tokens of two texts fit into `limit`: the longer text is cut first. */
static void truncate_pair(size_t limit, size_t counts[2])
{
    if (limit >= counts[0] && limit - counts[0] >= counts[1])
        return;
    int lesser = counts[0] > counts[1];
    size_t less = counts[lesser], more = less > limit ? less : size_max(less, limit - less);
    if (less > limit || less + more > limit) {
        less = limit / 2;
        more = limit - less;
    }
    counts[lesser] = less;
    counts[!lesser] = more;
}

/* If both texts are too long for an odd limit, the longer one gets the odd token: counts the tokens of the
   shorter text, and at most as many of the other. */
static hashattn_status compare_lengths(struct encoder *encoder, const struct piece texts[2], size_t counts[2])
{
    int lesser = texts[0].size > texts[1].size;
    struct job job = {encoder, texts[lesser], &encoder->out, SIZE_MAX, false};
    TRY(encode_text(&job));
    counts[lesser] = job.limit = encoder->out.count;
    job.text = texts[!lesser];
    TRY(encode_text(&job));
    counts[!lesser] = encoder->out.count;
    return HASHATTN_OK;
}

/* Encodes one text or two. */
static hashattn_status encode(struct encoder *encoder, const struct piece *texts, size_t num_texts,
                              const struct encode_options *options, struct encoding *encoding)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    const struct token_template *template = &tokenizer->templates[num_texts - 1];
    size_t num_special = 0, counts[2] = {0, 0};
    for (size_t i = 0; i < template->count; i++)
        num_special += options->special_tokens && template->pieces[i].text < 0;
    FAIL_IF(options->max_tokens > 0 && options->max_tokens < num_special, encoder->host, HASHATTN_INVALID,
            "at most %zu tokens are allowed, but the special tokens alone are %zu", options->max_tokens,
            num_special);
    size_t limit = options->max_tokens > 0 ? options->max_tokens - num_special : SIZE_MAX;
    for (size_t i = 0; i < num_texts; i++) {
        const struct job job = {encoder, texts[i], &encoder->texts[i], limit, options->offsets};
        TRY(encode_text(&job));
        counts[i] = encoder->texts[i].count;
    }
    if (limit % 2 == 1 && counts[0] > limit && counts[1] > limit)
        TRY(compare_lengths(encoder, texts, counts));
    truncate_pair(limit, counts);
    encoding->truncated = false;
    for (size_t i = 0; i < num_texts; i++) {
        encoding->truncated |= counts[i] < encoder->texts[i].count;
        encoder->texts[i].count = counts[i];
        if (options->offsets && tokenizer->trim_offsets)
            trim(tokenizer, texts[i], &encoder->texts[i]);
    }
    encoder->out.count = 0;
    for (size_t i = 0; i < template->count; i++) {
        const struct template_piece *piece = &template->pieces[i];
        if (piece->text >= 0 || options->special_tokens)
            TRY(put(encoder, piece, piece->text >= 0 ? counts[piece->text] : 1, options->offsets));
    }
    encoding->ids = encoder->out.ids;
    encoding->segments = encoder->segments;
    encoding->begins = options->offsets ? encoder->out.begins : NULL;
    encoding->ends = options->offsets ? encoder->out.ends : NULL;
    encoding->count = encoder->out.count;
    return HASHATTN_OK;
}

hashattn_status encoder_encode(struct encoder *encoder, struct piece text,
                               const struct encode_options *options, struct encoding *encoding)
{
    return encode(encoder, &text, 1, options, encoding);
}

hashattn_status encoder_encode_pair(struct encoder *encoder, struct piece first, struct piece second,
                                    const struct encode_options *options, struct encoding *encoding)
{
    return encode(encoder, (const struct piece[2]){first, second}, 2, options, encoding);
}
