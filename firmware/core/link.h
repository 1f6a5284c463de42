/* Frames on the serial line, in both directions:
 *
 *   0xA5  version  type  sequence  length  payload …  CRC-16 (low, high)
 *
 * CRC-16/CCITT-FALSE over everything from the version on. Numbers are little-endian; positions and angles are Q16.16.
 * The robot leads: it asks for a pose, and asks again with the same sequence number where no answer with that number
 * comes in time. A frame that is damaged, too long or of another version is dropped, and the next 0xA5 looked for. */
#ifndef KG_LINK_H
#define KG_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "skills.h"

enum { KG_LINK_VERSION = 1, KG_MOST_PAYLOAD = 32, KG_FRAME_OVERHEAD = 7, KG_FRAME_FIRST = 0xA5 };

enum {
    /* from the robot */
    KG_FRAME_HELLO = 1,    /* after a reset: u8 cause (1 watchdog), u8 slot that was loaded (255 none), u32 its sequence */
    KG_FRAME_ASK = 2,      /* where am I? */
    KG_FRAME_DECISION = 3, /* a kg_decision, 32 bytes: the motion begins now */
    KG_FRAME_STORED = 4,   /* u8 slot that was written (255 none: both are worn), u32 sequence */
    /* to the robot */
    KG_FRAME_POSE = 16,  /* x, y, heading: 12 bytes; or nothing where the camera doesn't see the robot */
    KG_FRAME_START = 17,  /* a kg_settings, 8 bytes: begin with what is in flash */
    KG_FRAME_FORGET = 18, /* a kg_settings, 8 bytes: begin with nothing learned */
    KG_FRAME_HALT = 19,   /* stop the motors and wait for a start */
    KG_FRAME_STORE = 20,  /* write what was learned to flash, now */
};

typedef struct {
    uint8_t type;
    uint8_t sequence;
    uint8_t length;
    uint8_t payload[KG_MOST_PAYLOAD];
} kg_frame;

typedef struct {
    kg_frame frame;
    uint16_t check; /* of what has come */
    uint16_t received;
    uint8_t state;
    uint8_t unused;
    uint16_t dropped; /* frames, so far */
} kg_parser;

uint16_t kg_crc16(uint16_t check, uint8_t byte);
/* Take one byte; true when `parser->frame` is complete, until the next byte. */
bool kg_parse(kg_parser *parser, uint8_t byte);
/* Send a frame byte by byte. */
void kg_send(void (*put)(uint8_t byte), uint8_t type, uint8_t sequence, const void *payload, uint8_t length);

#endif
