@ Second stage of the boot: the boot ROM copies these 256 bytes to RAM, checks their CRC-32 and runs them. They let the
@ flash be read as memory with the plain read command (03h), which every chip knows, and start the image. The four bytes
@ of the checksum are filled in by host/uf2.c.
    .syntax unified
    .cpu cortex-m0plus
    .thumb
    .section .boot2, "ax"
    .global kg_boot2
    .thumb_func
kg_boot2:
    ldr r3, ssi
    movs r1, #0
    str r1, [r3, #0x08]     @ SSIENR: off while it is set up
    movs r1, #4
    str r1, [r3, #0x14]     @ BAUDR: 125 MHz / 4, below the limit of the plain read command
    ldr r1, ctrlr0
    str r1, [r3, #0x00]
    movs r1, #0
    str r1, [r3, #0x04]     @ CTRLR1: one word a transfer
    ldr r0, spi_ctrlr0_at
    ldr r1, spi_ctrlr0
    str r1, [r0]
    movs r1, #1
    str r1, [r3, #0x08]
    ldr r0, vectors
    ldr r1, vtor
    str r0, [r1]
    ldmia r0, {r0, r1}
    msr msp, r0
    bx r1
    .align 2
ssi:           .word 0x18000000
ctrlr0:        .word (31 << 16) | (3 << 8)             @ frames of 32 bits, EEPROM-style reads
spi_ctrlr0_at: .word 0x180000f4
spi_ctrlr0:    .word (0x03 << 24) | (2 << 8) | (6 << 2) @ command 03h of 8 bits, address of 24 bits, on one line
vectors:       .word 0x10000100
vtor:          .word 0xe000ed08
