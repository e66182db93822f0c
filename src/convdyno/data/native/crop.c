/* From a JPEG in memory to a resized crop of it, decoding only the rows and columns of the crop.
 *
 * libjpeg-turbo's cropping and skipping do the decoding; rows pass through a small ring to a separable
 * filter (vertical, then horizontal), so that no whole image is ever held. Built by build.py.
 *
 * Calls return 0, or another number with a sentence in convdyno_message. Any warning that means
 * damage ends the image at once: libjpeg would go on and fill the rest with grey.
 */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#ifdef __SSE2__
#include <tmmintrin.h>
#endif

enum { DAMAGED = 1, OTHER_COLOURS = 2, NO_MEMORY = 3 };
enum { MAX_SCANS = 500, ROWS_AT_ONCE = 4 };

/* For each output position: the first input position and `count` weights, in parts of 65535. */
struct taps {
    int count;
    int *first;
    uint16_t *weight;
};

enum { RING, BLEND, ROWS, ROW_TAPS, COLUMN_TAPS, PAIRS, MEMORIES };

struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    const uint8_t *end;
    /* Memory that is kept from image to image and only grows. */
    void *memory[MEMORIES];
    size_t room[MEMORIES];
};

static void *memory_for(struct decoder *d, int which, size_t bytes) {
    if (d->room[which] < bytes) {
        void *grown = realloc(d->memory[which], bytes);
        if (!grown) return NULL;
        d->memory[which] = grown;
        d->room[which] = bytes;
    }
    return d->memory[which];
}

static void give_up(j_common_ptr jpeg) {
    struct decoder *d = jpeg->client_data;
    jpeg->err->format_message(jpeg, d->message);
    longjmp(d->escape, DAMAGED);
}

static void hear_warning(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    switch (jpeg->err->msg_code) {
        case JWRN_EXTRANEOUS_DATA:
        case JWRN_ADOBE_XFORM:
        case JWRN_JFIF_MAJOR:
        case JWRN_TOO_MUCH_DATA:
            return;
        default:
            give_up(jpeg);
    }
}

static void limit_scans(j_common_ptr jpeg) {
    struct decoder *d = jpeg->client_data;
    if (d->jpeg.input_scan_number > MAX_SCANS) {
        snprintf(d->message, sizeof d->message, "more than %d scans", MAX_SCANS);
        longjmp(d->escape, DAMAGED);
    }
}

struct decoder *convdyno_open(void) {
    struct decoder *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->jpeg.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = give_up;
    d->errors.emit_message = hear_warning;
    d->jpeg.client_data = d;
    if (setjmp(d->escape)) {
        free(d);
        return NULL;
    }
    jpeg_create_decompress(&d->jpeg);
    d->jpeg.client_data = d;
    d->progress.progress_monitor = limit_scans;
    d->jpeg.progress = &d->progress;
    return d;
}

void convdyno_close(struct decoder *d) {
    jpeg_destroy_decompress(&d->jpeg);
    for (int i = 0; i < MEMORIES; i++) free(d->memory[i]);
    free(d);
}

const char *convdyno_message(const struct decoder *d) { return d->message; }

/* Read the header; `size` gets height and width. The bytes must stay until the crop is decoded. */
int convdyno_header(struct decoder *d, const uint8_t *data, size_t bytes, int32_t size[2]) {
    int problem = setjmp(d->escape);
    if (problem) {
        jpeg_abort_decompress(&d->jpeg);
        return problem;
    }
    jpeg_abort_decompress(&d->jpeg);
    jpeg_mem_src(&d->jpeg, data, bytes);
    d->end = data + bytes;
    jpeg_read_header(&d->jpeg, TRUE);
    J_COLOR_SPACE colours = d->jpeg.jpeg_color_space;
    if (colours != JCS_YCbCr && colours != JCS_GRAYSCALE && colours != JCS_RGB)
        return OTHER_COLOURS;
    size[0] = (int32_t)d->jpeg.image_height;
    size[1] = (int32_t)d->jpeg.image_width;
    return 0;
}

/* Plain: the two nearest, as OpenCV's INTER_LINEAR. Antialiased: a triangle as wide as the step
 * from one output pixel to the next, as Pillow's BILINEAR. */
static int make_taps(struct decoder *d, int which, struct taps *t, int in, int out, int wide,
                     int mirror) {
    double step = (double)in / out;
    double reach = wide && step > 1 ? step : 1;
    int count = wide ? 2 * (int)ceil(reach) + 1 : 2;
    if (count > in) count = in;
    char *room = memory_for(d, which, (size_t)out * (sizeof(int) + count * sizeof(uint16_t)));
    if (!room) return NO_MEMORY;
    t->count = count;
    t->first = (int *)room;
    t->weight = (uint16_t *)(room + (size_t)out * sizeof(int));
    for (int o = 0; o < out; o++) {
        double middle = (o + 0.5) * step;
        if (!wide) middle = fmin(fmax(middle, 0.5), in - 0.5);
        int first = (int)floor(middle - reach + 0.5);
        if (first > in - count) first = in - count;
        if (first < 0) first = 0;
        int place = mirror ? out - 1 - o : o;
        uint16_t *weight = t->weight + (size_t)place * count;
        double sum = 0;
        for (int k = 0; k < count; k++) sum += fmax(0, 1 - fabs(first + k + 0.5 - middle) / reach);
        int left = 65535, most = 0;
        for (int k = 0; k < count; k++) {
            double share = fmax(0, 1 - fabs(first + k + 0.5 - middle) / reach) / sum;
            weight[k] = (uint16_t)(65535 * share);
            left -= weight[k];
            if (weight[k] > weight[most]) most = k;
        }
        weight[most] += left;
        t->first[place] = first;
    }
    return 0;
}

/* Compiled once for two weights, which is the usual case, and once for any number. */
#define FOR_TWO_AND_MANY static inline __attribute__((always_inline))

/* Values on the way are in parts of 256 and sixteen bits; each product loses half a part. */
static inline uint16_t part(uint16_t value, uint16_t weight) {
    return (uint16_t)((uint32_t)value * weight >> 16);
}

/* A weighted sum of rows, for each byte of a row. */
FOR_TWO_AND_MANY void blend_rows(uint16_t *blend, const uint8_t *const *rows,
                                 const uint16_t *weight, int count, int width) {
    int i = 0;
#ifdef __SSE2__
    const __m128i zero = _mm_setzero_si128();
    for (; i + 16 <= width; i += 16) {
        __m128i low = zero, high = zero;
        for (int k = 0; k < count; k++) {
            __m128i row = _mm_loadu_si128((const __m128i *)(rows[k] + i));
            __m128i by = _mm_set1_epi16((short)weight[k]);
            low = _mm_add_epi16(low, _mm_mulhi_epu16(_mm_unpacklo_epi8(zero, row), by));
            high = _mm_add_epi16(high, _mm_mulhi_epu16(_mm_unpackhi_epi8(zero, row), by));
        }
        _mm_storeu_si128((__m128i *)(blend + i), low);
        _mm_storeu_si128((__m128i *)(blend + i + 8), high);
    }
#endif
    for (; i < width; i++) {
        blend[i] = 0;
        for (int k = 0; k < count; k++) blend[i] += part(rows[k][i] << 8, weight[k]);
    }
}

#ifdef __SSE2__
/* The weights of two neighbouring pixels side by side, four times each. */
static uint16_t *make_pairs(struct decoder *d, const struct taps *t, int out) {
    uint16_t *pairs = memory_for(d, PAIRS, (size_t)(out + 1) / 2 * t->count * 16);
    for (int o = 0; pairs && o < out; o++)
        for (int k = 0; k < t->count; k++)
            for (int i = 0; i < 4; i++)
                pairs[((size_t)(o / 2) * t->count + k) * 8 + o % 2 * 4 + i] =
                    t->weight[(size_t)o * t->count + k];
    return pairs;
}
#endif

/* `half` rounds, and gives back what the products lost. */
FOR_TWO_AND_MANY void squeeze_colour(uint8_t *to, const uint16_t *blend, const struct taps *t,
                                     const uint16_t *pairs, int count, int out, int half) {
    int o = 0;
#ifdef __SSE2__
    const __m128i round = _mm_set1_epi16((short)half);
    /* The last pixels are left out: each pair writes one byte too many. */
    for (; o + 2 < out; o += 2) {
        const uint16_t *a = blend + 3 * t->first[o], *b = blend + 3 * t->first[o + 1];
        const __m128i *weight = (const __m128i *)(pairs + (size_t)(o / 2) * count * 8);
        __m128i sum = round;
        for (int k = 0; k < count; k++) {
            __m128i both = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(a + 3 * k)),
                                              _mm_loadl_epi64((const __m128i *)(b + 3 * k)));
            sum = _mm_add_epi16(sum, _mm_mulhi_epu16(both, _mm_loadu_si128(weight + k)));
        }
        sum = _mm_srli_epi16(sum, 8);
        int64_t pixels = _mm_cvtsi128_si64(_mm_packus_epi16(sum, sum));
        int32_t second = (int32_t)(pixels >> 32);
        memcpy(to + 3 * o, &pixels, 4);
        memcpy(to + 3 * o + 3, &second, 4);
    }
#else
    (void)pairs;
#endif
    for (; o < out; o++) {
        const uint16_t *from = blend + 3 * t->first[o], *weight = t->weight + (size_t)o * count;
        for (int c = 0; c < 3; c++) {
            unsigned sum = half;
            for (int k = 0; k < count; k++) sum += part(from[3 * k + c], weight[k]);
            to[3 * o + c] = (uint8_t)(sum >> 8);
        }
    }
}

static void squeeze_grey(uint8_t *to, const uint16_t *blend, const struct taps *t, int out,
                         int half) {
    for (int o = 0; o < out; o++) {
        const uint16_t *from = blend + t->first[o], *weight = t->weight + (size_t)o * t->count;
        unsigned sum = half;
        for (int k = 0; k < t->count; k++) sum += part(from[k], weight[k]);
        to[o] = (uint8_t)(sum >> 8);
    }
}

/* A matrix by rows and what is added, in parts of 4096. */
struct mixture {
    int16_t m[9];
    int32_t add[3];
};

static inline uint8_t byte_of(int32_t parts) {
    int32_t value = parts >> 12;
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

static void mix(uint8_t *image, size_t pixels, const struct mixture *by) {
    for (size_t i = 0; i < pixels; i++) {
        uint8_t *p = image + 3 * i, r = p[0], g = p[1], b = p[2];
        for (int c = 0; c < 3; c++)
            p[c] = byte_of(by->m[3 * c] * r + by->m[3 * c + 1] * g + by->m[3 * c + 2] * b + by->add[c]);
    }
}

#ifdef __SSE2__
/* The same, four pixels at a time; returns how many were done. */
__attribute__((target("ssse3"))) static size_t mix_fours(uint8_t *image, size_t pixels,
                                                         const struct mixture *by) {
    const __m128i red_green = _mm_setr_epi8(0, -1, 1, -1, 3, -1, 4, -1, 6, -1, 7, -1, 9, -1, 10, -1);
    const __m128i blue = _mm_setr_epi8(2, -1, -1, -1, 5, -1, -1, -1, 8, -1, -1, -1, 11, -1, -1, -1);
    const __m128i weave = _mm_setr_epi8(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, -1, -1, -1, -1);
    __m128i first[3], third[3], add[3];
    for (int c = 0; c < 3; c++) {
        uint32_t two = (uint16_t)by->m[3 * c] | (uint32_t)(uint16_t)by->m[3 * c + 1] << 16;
        first[c] = _mm_set1_epi32((int)two);
        third[c] = _mm_set1_epi32((uint16_t)by->m[3 * c + 2]);
        add[c] = _mm_set1_epi32(by->add[c]);
    }
    size_t i = 0;
    /* Sixteen bytes are read and twelve written: the last ones are left out. */
    for (; i + 6 <= pixels; i += 4) {
        __m128i four = _mm_loadu_si128((const __m128i *)(image + 3 * i)), out[3];
        __m128i rg = _mm_shuffle_epi8(four, red_green), b = _mm_shuffle_epi8(four, blue);
        for (int c = 0; c < 3; c++) {
            __m128i sum = _mm_add_epi32(_mm_madd_epi16(rg, first[c]), _mm_madd_epi16(b, third[c]));
            out[c] = _mm_srai_epi32(_mm_add_epi32(sum, add[c]), 12);
        }
        __m128i bytes = _mm_packus_epi16(_mm_packs_epi32(out[0], out[1]), _mm_packs_epi32(out[2], out[2]));
        bytes = _mm_shuffle_epi8(bytes, weave);
        int32_t last = _mm_cvtsi128_si32(_mm_srli_si128(bytes, 8));
        _mm_storel_epi64((__m128i *)(image + 3 * i), bytes);
        memcpy(image + 3 * i + 8, &last, 4);
    }
    return i;
}
#endif

static int16_t parts_of(float value) {
    return (int16_t)lrintf(fminf(fmaxf(4096 * value, -32768), 32767));
}

/* colour: a 3x3 matrix by rows, a contrast and a brightness: matrix (contrast x + (1 - contrast)
 * mean) + brightness. A grey image has no colours to turn: the matrix is left out. */
static void distort(uint8_t *image, size_t pixels, int channels, const float *colour) {
    float contrast = colour[9], bright = colour[10], mean[3] = {0, 0, 0};
    uint64_t sums[48] = {0};
    size_t bytes = pixels * channels, whole = bytes / 48 * 48;
    for (size_t i = 0; i < whole; i += 48)
        for (int k = 0; k < 48; k++) sums[k] += image[i + k];
    for (size_t i = whole; i < bytes; i++) sums[i % 48] += image[i];
    for (int k = 0; k < 48; k++) mean[k % channels] += (float)sums[k] / pixels;
    struct mixture by;
    for (int c = 0; c < 3; c++) {
        const float *row = colour + 3 * c;
        float turned = row[0] * mean[0] + row[1] * mean[1] + row[2] * mean[2];
        if (channels == 1) turned = mean[0];
        by.add[c] = (int32_t)lrintf(4096 * (bright + (1 - contrast) * turned)) + 2048;
        for (int k = 0; k < 3; k++) by.m[3 * c + k] = parts_of(contrast * row[k]);
    }
    if (channels == 1) {
        int32_t by_grey = parts_of(contrast);
        for (size_t i = 0; i < pixels; i++) image[i] = byte_of(by_grey * image[i] + by.add[0]);
        return;
    }
    size_t done = 0;
#ifdef __SSE2__
    if (__builtin_cpu_supports("ssse3")) done = mix_fours(image, pixels, &by);
#endif
    mix(image + 3 * done, pixels - done, &by);
}

struct work {
    int channels, height, width; /* of the crop */
    int left;                    /* bytes before the crop in each row */
    uint8_t *rows;               /* row r is at rows + r % held * stride */
    int held;
    ptrdiff_t stride;
    int have; /* rows that are there; fewer than height while decoding */
};

static void decode_until(struct decoder *d, struct work *w, int row) {
    while (w->have < row) {
        JSAMPROW rows[ROWS_AT_ONCE];
        int some = w->height - w->have < ROWS_AT_ONCE ? w->height - w->have : ROWS_AT_ONCE;
        for (int i = 0; i < some; i++) rows[i] = w->rows + (w->have + i) % w->held * w->stride;
        int read = (int)jpeg_read_scanlines(&d->jpeg, rows, some);
        if (!read) give_up((j_common_ptr)&d->jpeg);
        w->have += read;
    }
}

static int resample(struct decoder *d, struct work *w, const struct taps *down,
                    const struct taps *along, int out_height, int out_width, uint8_t *out,
                    const float *colour) {
    int bytes = w->width * w->channels, lost = (down->count + along->count) / 2;
    int half = lost < 127 ? 128 + lost : 255;
    /* Room for reading four values at the last pixel. */
    uint16_t *blend = memory_for(d, BLEND, (bytes + 4) * sizeof(uint16_t)), *pairs = NULL;
    const uint8_t **rows = memory_for(d, ROWS, down->count * sizeof(uint8_t *));
    if (!blend || !rows) return NO_MEMORY;
    memset(blend + bytes, 0, 4 * sizeof(uint16_t));
#ifdef __SSE2__
    if (w->channels == 3 && !(pairs = make_pairs(d, along, out_width))) return NO_MEMORY;
#endif
    for (int o = 0; o < out_height; o++) {
        int first = down->first[o];
        decode_until(d, w, first + down->count);
        for (int k = 0; k < down->count; k++)
            rows[k] = w->rows + (first + k) % w->held * w->stride + w->left;
        const uint16_t *weight = down->weight + (size_t)o * down->count;
        if (down->count == 2) {
            blend_rows(blend, rows, weight, 2, bytes);
        } else {
            blend_rows(blend, rows, weight, down->count, bytes);
        }
        uint8_t *to = out + (size_t)o * out_width * w->channels;
        if (w->channels == 1) {
            squeeze_grey(to, blend, along, out_width, half);
        } else if (along->count == 2) {
            squeeze_colour(to, blend, along, pairs, 2, out_width, half);
        } else {
            squeeze_colour(to, blend, along, pairs, along->count, out_width, half);
        }
    }
    if (colour) distort(out, (size_t)out_height * out_width, w->channels, colour);
    return 0;
}

static int out_of_memory(struct decoder *d) {
    snprintf(d->message, sizeof d->message, "not enough memory");
    return NO_MEMORY;
}

/* After convdyno_header: decode a box (top, left, height, width), resize, mirror, distort. */
int convdyno_crop(struct decoder *d, int channels, int accurate, const int32_t box[4], int wide,
                  int mirror, int out_height, int out_width, const float *colour, uint8_t *out) {
    int top = box[0], left = box[1];
    struct work w = {.channels = channels, .height = box[2], .width = box[3]};
    struct taps down, along;
    if (make_taps(d, ROW_TAPS, &down, w.height, out_height, wide, 0) ||
        make_taps(d, COLUMN_TAPS, &along, w.width, out_width, wide, mirror))
        return out_of_memory(d);
    int problem = setjmp(d->escape);
    if (problem) {
        jpeg_abort_decompress(&d->jpeg);
        return problem;
    }
    d->jpeg.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    d->jpeg.dct_method = accurate ? JDCT_ISLOW : JDCT_IFAST;
    d->jpeg.do_fancy_upsampling = accurate;
    jpeg_start_decompress(&d->jpeg);
    /* Smooth chroma looks one pixel further: decode a little more, so that the crop's own pixels
     * are those of the whole image. */
    JDIMENSION margin = accurate ? 2 : 0, full = d->jpeg.output_width;
    JDIMENSION from = (JDIMENSION)left > margin ? left - margin : 0;
    JDIMENSION until = left + w.width + margin < full ? left + w.width + margin : full;
    JDIMENSION columns = until - from;
    if (columns < full) {
        jpeg_crop_scanline(&d->jpeg, &from, &columns);
    }
    w.left = (left - (int)from) * channels;
    w.stride = (ptrdiff_t)d->jpeg.output_width * channels;
    w.held = down.count + ROWS_AT_ONCE + 1;
    w.rows = memory_for(d, RING, w.held * w.stride);
    if (!w.rows) {
        jpeg_abort_decompress(&d->jpeg);
        return out_of_memory(d);
    }
    if (top) jpeg_skip_scanlines(&d->jpeg, top);
    problem = resample(d, &w, &down, &along, out_height, out_width, out, colour);
    /* A whole file ends with an end marker, wherever the crop ended. */
    const uint8_t *stop = d->jpeg.src->next_input_byte, *at = d->end - 2;
    int ends = jpeg_input_complete(&d->jpeg) || d->jpeg.unread_marker == JPEG_EOI;
    for (; !ends && at >= stop; at--) ends = at[0] == 0xFF && at[1] == JPEG_EOI;
    jpeg_abort_decompress(&d->jpeg);
    if (problem) return out_of_memory(d);
    if (!ends) {
        snprintf(d->message, sizeof d->message, "Premature end of JPEG file");
        return DAMAGED;
    }
    return 0;
}

/* The same from pixels: rows of `stride` bytes, the box already applied to `pixels`. */
int convdyno_resize(struct decoder *d, const uint8_t *pixels, ptrdiff_t stride, int channels,
                    int height, int width, int wide, int mirror, int out_height, int out_width,
                    const float *colour, uint8_t *out) {
    struct work w = {channels, height, width, 0, (uint8_t *)pixels, INT_MAX, stride, height};
    struct taps down, along;
    if (make_taps(d, ROW_TAPS, &down, height, out_height, wide, 0) ||
        make_taps(d, COLUMN_TAPS, &along, width, out_width, wide, mirror) ||
        resample(d, &w, &down, &along, out_height, out_width, out, colour))
        return out_of_memory(d);
    return 0;
}

int convdyno_version(void) { return LIBJPEG_TURBO_VERSION_NUMBER; }
