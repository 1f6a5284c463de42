/* uf2 IMAGE.bin IMAGE.uf2: fills in the checksum of the first 256 bytes, which the boot ROM looks for, and writes the
 * file that a Pico takes as a USB drive (format: github.com/microsoft/uf2). */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PAGE = 256, MOST = 2048 * 1024, FAMILY_RP2040 = 0xe48bff56, FLAG_FAMILY = 0x2000 };

typedef struct {
    uint32_t magic[2], flags, address, count, number, total, family;
    uint8_t data[476];
    uint32_t end;
} block;

static uint8_t image[MOST];

static uint32_t crc32_msb_first(const uint8_t *bytes, int count) {
    uint32_t check = 0xffffffff;
    for (int i = 0; i < count; i++) {
        check ^= (uint32_t)bytes[i] << 24;
        for (int bit = 0; bit < 8; bit++) {
            check = check & 0x80000000 ? check << 1 ^ 0x04c11db7 : check << 1;
        }
    }
    return check;
}

int main(int count, char **argument) {
    FILE *in = count == 3 ? fopen(argument[1], "rb") : NULL;
    const size_t size = in ? fread(image, 1, MOST, in) : 0;
    FILE *out = size > PAGE ? fopen(argument[2], "wb") : NULL;
    if (!out) {
        fprintf(stderr, "usage: uf2 IMAGE.bin IMAGE.uf2\n");
        return 1;
    }
    const uint32_t check = crc32_msb_first(image, PAGE - 4);
    memcpy(image + PAGE - 4, &check, 4);
    const uint32_t pages = (uint32_t)((size + PAGE - 1) / PAGE);
    for (uint32_t page = 0; page < pages; page++) {
        block one = {{0x0a324655, 0x9e5d5157}, FLAG_FAMILY, 0x10000000 + page * PAGE, PAGE, page, pages,
                     (uint32_t)FAMILY_RP2040, {0}, 0x0ab16f30};
        memcpy(one.data, image + page * PAGE, PAGE);
        fwrite(&one, sizeof one, 1, out);
    }
    return fclose(out) ? 1 : 0;
}
