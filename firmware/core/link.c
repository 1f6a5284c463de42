#include "link.h"

enum { AT_START, AT_VERSION, AT_TYPE, AT_SEQUENCE, AT_LENGTH, AT_PAYLOAD, AT_CHECK_LOW, AT_CHECK_HIGH };

uint16_t kg_crc16(uint16_t check, uint8_t byte) {
    check = (uint16_t)(check ^ (byte << 8));
    for (int bit = 0; bit < 8; bit++) {
        check = (uint16_t)(check & 0x8000 ? check << 1 ^ 0x1021 : check << 1);
    }
    return check;
}

static void drop(kg_parser *parser) {
    parser->state = AT_START;
    parser->dropped++;
}

/* A byte of the header or payload: the next state. */
static void take(kg_parser *parser, uint8_t byte) {
    kg_frame *frame = &parser->frame;
    parser->check = kg_crc16(parser->check, byte);
    switch (parser->state++) {
    case AT_VERSION:
        if (byte != KG_LINK_VERSION) {
            drop(parser);
        }
        break;
    case AT_TYPE:
        frame->type = byte;
        break;
    case AT_SEQUENCE:
        frame->sequence = byte;
        break;
    case AT_LENGTH:
        frame->length = byte;
        parser->received = 0;
        if (byte > KG_MOST_PAYLOAD) {
            drop(parser);
        } else if (byte == 0) {
            parser->state = AT_CHECK_LOW;
        }
        break;
    default:
        frame->payload[parser->received++] = byte;
        parser->state = parser->received == frame->length ? AT_CHECK_LOW : AT_PAYLOAD;
    }
}

bool kg_parse(kg_parser *parser, uint8_t byte) {
    switch (parser->state) {
    case AT_START:
        parser->check = 0xFFFF;
        parser->state = byte == KG_FRAME_FIRST ? AT_VERSION : AT_START;
        return false;
    case AT_CHECK_LOW:
        parser->check = (uint16_t)(parser->check ^ byte);
        parser->state = AT_CHECK_HIGH;
        return false;
    case AT_CHECK_HIGH:
        if (parser->check != (uint16_t)(byte << 8)) {
            drop(parser);
            return false;
        }
        parser->state = AT_START;
        return true;
    default:
        take(parser, byte);
        return false;
    }
}

void kg_send(void (*put)(uint8_t byte), uint8_t type, uint8_t sequence, const void *payload, uint8_t length) {
    const uint8_t header[] = {KG_LINK_VERSION, type, sequence, length};
    const uint8_t *bytes = payload;
    uint16_t check = 0xFFFF;
    put(KG_FRAME_FIRST);
    for (unsigned i = 0; i < sizeof header + length; i++) {
        const uint8_t byte = i < sizeof header ? header[i] : bytes[i - sizeof header];
        check = kg_crc16(check, byte);
        put(byte);
    }
    put((uint8_t)check);
    put((uint8_t)(check >> 8));
}
