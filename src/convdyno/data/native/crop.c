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
#include <emmintrin.h>
#endif

#if !defined(LIBJPEG_TURBO_VERSION_NUMBER) || LIBJPEG_TURBO_VERSION_NUMBER < 2001000
#error "cropping needs libjpeg-turbo 2.1 or later"
#endif

/* Both sets of instructions in one file, chosen when it is loaded: the file may be on a shared disk. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define EVERY_PROCESSOR __attribute__((target_clones("arch=haswell", "default")))
#else
#define EVERY_PROCESSOR
#endif

enum { DAMAGED = 1, OTHER_COLOURS = 2, NO_MEMORY = 3 };
enum { MAX_SCANS = 500, ROWS_AT_ONCE = 4 };

typedef float four __attribute__((vector_size(16)));

/* For each output position: the first input position and `count` weights. */
struct taps {
    int count;
    int *first;
    float *weight;
};

struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    const uint8_t *end;
    /* Memory that is kept from image to image and only grows. */
    void *memory[4];
    size_t room[4];
};

enum { RING, BLEND, ROW_TAPS, COLUMN_TAPS };

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
    for (int i = 0; i < 4; i++) free(d->memory[i]);
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
    char *room = memory_for(d, which, (size_t)out * (sizeof(int) + count * sizeof(float)));
    if (!room) return NO_MEMORY;
    t->count = count;
    t->first = (int *)room;
    t->weight = (float *)(room + (size_t)out * sizeof(int));
    for (int o = 0; o < out; o++) {
        double middle = (o + 0.5) * step;
        double low = wide ? middle - reach + 0.5 : middle - 0.5;
        int first = (int)floor(low);
        if (first > in - count) first = in - count;
        if (first < 0) first = 0;
        int place = mirror ? out - 1 - o : o;
        float *weight = t->weight + (size_t)place * count;
        double sum = 0, clamped = fmin(fmax(middle, 0.5), in - 0.5);
        for (int k = 0; k < count; k++) {
            double far = fabs(first + k + 0.5 - (wide ? middle : clamped)) / reach;
            weight[k] = far < 1 ? 1 - far : 0;
            sum += weight[k];
        }
        for (int k = 0; k < count; k++) weight[k] /= sum;
        t->first[place] = first;
    }
    return 0;
}

static inline four load(const float *from) {
    four value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline uint8_t byte_of(float value) {
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)(value + 0.5f);
}

/* Rounded, and kept to 0..255; the fourth is not used. */
static inline uint32_t bytes_of(four value) {
#ifdef __SSE2__
    __m128i whole = _mm_cvtps_epi32((__m128)value);
    whole = _mm_packs_epi32(whole, whole);
    return (uint32_t)_mm_cvtsi128_si32(_mm_packus_epi16(whole, whole));
#else
    return byte_of(value[0]) | (uint32_t)byte_of(value[1]) << 8 | (uint32_t)byte_of(value[2]) << 16;
#endif
}

/* One weighted sum of rows: `blend` has one float for each byte of a row. */
EVERY_PROCESSOR
static void blend_rows(float *restrict blend, const uint8_t *const *rows, const float *weight,
                       int count, int width) {
    if (count == 2) {
        const uint8_t *restrict a = rows[0], *restrict b = rows[1];
        float u = weight[0], v = weight[1];
        for (int i = 0; i < width; i++) blend[i] = u * a[i] + v * b[i];
        return;
    }
    const uint8_t *restrict a = rows[0];
    for (int i = 0; i < width; i++) blend[i] = weight[0] * a[i];
    for (int k = 1; k < count; k++) {
        const uint8_t *restrict b = rows[k];
        float v = weight[k];
        if (v == 0) continue;
        for (int i = 0; i < width; i++) blend[i] += v * b[i];
    }
}

EVERY_PROCESSOR
static void squeeze_colour(uint8_t *to, const float *blend, const struct taps *t, int out,
                           float sums[4]) {
    four sum = load(sums);
    for (int o = 0; o < out; o++) {
        const float *from = blend + 3 * t->first[o], *weight = t->weight + (size_t)o * t->count;
        four value = load(from) * weight[0];
        for (int k = 1; k < t->count; k++) value += load(from + 3 * k) * weight[k];
        sum += value;
        uint32_t pixel = bytes_of(value);
        if (o + 1 < out) {
            memcpy(to + 3 * o, &pixel, 4);
        } else {
            memcpy(to + 3 * o, &pixel, 3);
        }
    }
    memcpy(sums, &sum, sizeof sum);
}

EVERY_PROCESSOR
static void squeeze_grey(uint8_t *to, const float *blend, const struct taps *t, int out,
                         float sums[4]) {
    for (int o = 0; o < out; o++) {
        const float *from = blend + t->first[o], *weight = t->weight + (size_t)o * t->count;
        float value = 0;
        for (int k = 0; k < t->count; k++) value += from[k] * weight[k];
        sums[0] += value;
        to[o] = byte_of(value);
    }
}

/* colour: a 3x3 matrix by rows, a contrast and a brightness: matrix (contrast x + (1 - contrast)
 * mean) + brightness. A grey image has no colours to turn: the matrix is left out. */
EVERY_PROCESSOR
static void distort(uint8_t *image, size_t pixels, int channels, const float *colour,
                    const float mean[3]) {
    float contrast = colour[9], bright = colour[10], m[9], add[3];
    for (int i = 0; i < 9; i++) m[i] = contrast * colour[i];
    for (int i = 0; i < 3; i++) {
        const float *row = colour + 3 * i;
        add[i] = bright + (1 - contrast) * (row[0] * mean[0] + row[1] * mean[1] + row[2] * mean[2]);
    }
    if (channels == 1) {
        float grey = bright + (1 - contrast) * mean[0];
        for (size_t i = 0; i < pixels; i++) image[i] = byte_of(contrast * image[i] + grey);
        return;
    }
    four red = {m[0], m[3], m[6], 0}, green = {m[1], m[4], m[7], 0}, blue = {m[2], m[5], m[8], 0};
    four fixed = {add[0], add[1], add[2], 0};
    for (size_t i = 0; i < pixels; i++) {
        uint8_t *p = image + 3 * i;
        uint32_t pixel = bytes_of(red * (float)p[0] + green * (float)p[1] + blue * (float)p[2] + fixed);
        memcpy(p, &pixel, 3);
    }
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
    float sums[4] = {0, 0, 0, 0}, total[3] = {0, 0, 0};
    int bytes = w->width * w->channels;
    /* Room for reading four floats at the last pixel. */
    char *room = memory_for(d, BLEND, (bytes + 4) * sizeof(float) + down->count * sizeof(void *));
    if (!room) return NO_MEMORY;
    const uint8_t **rows = (const uint8_t **)room;
    float *blend = (float *)(room + down->count * sizeof(void *));
    memset(blend + bytes, 0, 4 * sizeof(float));
    for (int o = 0; o < out_height; o++) {
        int first = down->first[o];
        decode_until(d, w, first + down->count);
        for (int k = 0; k < down->count; k++)
            rows[k] = w->rows + (first + k) % w->held * w->stride + w->left;
        blend_rows(blend, rows, down->weight + (size_t)o * down->count, down->count, bytes);
        uint8_t *to = out + (size_t)o * out_width * w->channels;
        memset(sums, 0, sizeof sums);
        (w->channels == 3 ? squeeze_colour : squeeze_grey)(to, blend, along, out_width, sums);
        for (int c = 0; c < w->channels; c++) total[c] += sums[c];
    }
    if (colour) {
        size_t pixels = (size_t)out_height * out_width;
        for (int c = 0; c < 3; c++) total[c] /= pixels;
        distort(out, pixels, w->channels, colour, total);
    }
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
