/* The robot's program: ask where it is, decide, move, and again. The host starts and stops it. */
#include <stddef.h>
#include <string.h>

#include "board.h"
#include "link.h"
#include "skills.h"

enum { ANSWER_US = 250000, ASKS = 4, SETTLE_US = 120000, IDLE_US = 1000000, HELLO_US = 1000000 };

static kg_agent agent;
static kg_parser parser;
static bool running;
static bool store_now;
static uint8_t worn;
static uint8_t sequence;

static void send(uint8_t type, const void *payload, uint8_t length) {
    kg_send(kg_board_put, type, sequence, payload, length);
}

static bool is_sane(const kg_settings *settings) {
    return settings->strategy < KG_STRATEGIES && settings->learner < KG_LEARNERS;
}

/* Do what a command says; a pose is left to who waits for it. */
static void obey(const kg_frame *frame) {
    kg_settings settings;
    if (frame->type == KG_FRAME_HALT) {
        running = false;
        kg_board_motors(0, 0);
    } else if (frame->type == KG_FRAME_STORE) {
        store_now = true;
    } else if ((frame->type == KG_FRAME_START || frame->type == KG_FRAME_FORGET) && frame->length == sizeof settings) {
        memcpy(&settings, frame->payload, sizeof settings);
        if (!is_sane(&settings)) {
            return;
        }
        if (frame->type == KG_FRAME_FORGET) {
            kg_agent_start(&agent, &settings);
        } else {
            kg_agent_resume(&agent, &settings);
        }
        running = true;
    }
}

/* Take in what has come; true when a frame of this type has. */
static bool served(uint8_t wanted) {
    for (int byte = kg_board_get(); byte >= 0; byte = kg_board_get()) {
        if (!kg_parse(&parser, (uint8_t)byte)) {
            continue;
        }
        if (parser.frame.type == wanted) {
            return true;
        }
        obey(&parser.frame);
    }
    return false;
}

/* Let a time pass, but still obey: a halt ends it. */
static void pass(uint32_t microseconds) {
    const uint32_t begin = kg_board_microseconds();
    uint32_t gone = 0;
    while (gone < microseconds && running) {
        kg_board_rest(microseconds - gone);
        (void)served(0);
        gone = kg_board_microseconds() - begin;
    }
}

/* Ask for the pose until an answer to this very question comes; false where none does, or the camera sees nothing. */
static bool ask(kg_pose *pose) {
    sequence++;
    for (int turn = 0; turn < ASKS && running; turn++) {
        send(KG_FRAME_ASK, NULL, 0);
        const uint32_t begin = kg_board_microseconds();
        while (kg_board_microseconds() - begin < ANSWER_US && running) {
            if (served(KG_FRAME_POSE) && parser.frame.sequence == sequence) {
                if (parser.frame.length != sizeof *pose) {
                    return false;
                }
                memcpy(pose, parser.frame.payload, sizeof *pose);
                return true;
            }
            kg_board_rest(ANSWER_US);
        }
    }
    return false;
}

static void store(void) {
    const uint8_t slot = (uint8_t)kg_store(&agent, &KG_BOARD_FLASH, &worn);
    uint8_t told[5] = {slot};
    memcpy(told + 1, &agent.memory.sequence, sizeof agent.memory.sequence);
    send(KG_FRAME_STORED, told, sizeof told);
    store_now = false;
}

static void live(void) {
    kg_pose pose;
    kg_decision decision;
    const bool known = ask(&pose);
    if (!running) {
        return;
    }
    kg_agent_step(&agent, known ? &pose : NULL, &decision);
    send(KG_FRAME_DECISION, &decision, sizeof decision);
    if (decision.milliseconds != 0) {
        kg_board_motors(decision.left, decision.right);
        pass(1000u * decision.milliseconds);
        kg_board_motors(0, 0);
    } else if (known) {
        pass(IDLE_US);
    }
    if (store_now || decision.events & KG_NEWLY_LEARNED) {
        store();
    }
    pass(SETTLE_US);
}

static void greet(int slot) {
    uint8_t told[6] = {kg_board_was_hung(), (uint8_t)slot};
    memcpy(told + 2, &agent.memory.sequence, sizeof agent.memory.sequence);
    send(KG_FRAME_HELLO, told, sizeof told);
}

int main(void) {
    kg_board_start();
    const kg_settings settings = {.seed = 1, .only = KG_NO_SKILL};
    kg_agent_start(&agent, &settings);
    const int slot = kg_load(&agent, &KG_BOARD_FLASH);
    for (;;) {
        greet(slot);
        const uint32_t begin = kg_board_microseconds();
        while (!running && kg_board_microseconds() - begin < HELLO_US) {
            (void)served(0);
            kg_board_rest(HELLO_US);
        }
        while (running) {
            live();
        }
    }
}
