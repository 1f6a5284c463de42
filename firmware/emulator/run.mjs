// node run.mjs IMAGE.bin SYMBOLS.json: runs the image and talks to its caller in lines of JSON on stdin and stdout.
//
// Whenever the robot has sent something and rests, a line {us, sent, motors} goes out: emulated microseconds, the bytes as
// hexadecimal digits, and [us, left, right] for each change of the motors' outputs since the last line. The emulated time
// stands still until an answer comes: {send} bytes for the robot, {after_us} later; {worn: [slot]} flash that no longer
// takes a 0; {reset: true}; {hang: true}; {stop: true}, which is answered by a last line of figures.
import { readFileSync, readSync, writeSync } from 'node:fs';
import { RP2040 } from 'rp2040js';

const FLASH = 0x10000000;
const RAM_TOP = 0x20001000;
const FLASH_BYTES = 2 * 1024 * 1024;
const SECTOR = 4096;
const VECTORS = FLASH + 0x100;
const BYTE_NANOS = (10 * 1e9) / 115200;
// What the emulator lacks and does no harm: the level of the UART's FIFO that raises an interrupt.
const TOLERATED = new Set(['UART0 Unimplemented peripheral write to 0x34: 0x0']);
const IDLE_LINE_NANOS = 2e9; // a line goes out at least so often, or a silent robot would never be heard of

const image = readFileSync(process.argv[2]);
const symbols = JSON.parse(readFileSync(process.argv[3], 'utf8'));

// Boot ROM: a look-up function and the flash functions, as 'bx lr' at these addresses with the work done out here.
const ROM_TABLE = 0x100;
const ROM_LOOKUP = 0x80;
const ROM_FIRST = 0x200;
const ROM_NAMES = ['IF', 'EX', 'RE', 'RP', 'FC', 'CX'];
const BX_LR = 0x4770;

let chip, clock, incoming, outgoing, motors, nextByteAt, decision, lastLine;
const worn = new Set();
const figures = { decisions: 0, most_cycles: 0, total_cycles: 0, stack: 0, instructions: 0, cycles: 0, working_s: 0, watchdog_resets: 0 };

function start(flash, hung) {
  chip = new RP2040();
  clock = chip.clock;
  chip.logger = Object.fromEntries(
    ['debug', 'info', 'warn', 'error'].map((level) => [level, (part, text) => {
      if ((level === 'warn' || level === 'error') && !TOLERATED.has(`${part} ${text}`)) throw new Error(`${part}: ${text}`);
    }]),
  );
  chip.flash.set(flash);
  chip.bootrom[0x14 >> 2] = ROM_TABLE;
  chip.bootrom[0x18 >> 2] = ROM_LOOKUP | 1;
  for (const at of [ROM_LOOKUP, ...ROM_NAMES.map((_, index) => ROM_FIRST + 4 * index)]) {
    chip.bootrom[at >> 2] = BX_LR;
  }
  const watchdog = chip.peripherals[0x40058];
  watchdog.reason = hung ? 1 : 0;
  watchdog.onWatchdogTrigger = () => {
    watchdog.timer.enable = false; // it would trigger again and again
    figures.watchdog_resets++;
    reset(true);
  };
  const { core } = chip;
  core.VTOR = VECTORS;
  core.SP = chip.readUint32(VECTORS);
  core.PC = chip.readUint32(VECTORS + 4) & ~1;
  incoming = [];
  outgoing = [];
  motors = [];
  nextByteAt = 0;
  decision = null;
  lastLine = 0;
  chip.uart[0].onByte = (byte) => outgoing.push(byte);
  for (const slice of [1, 2]) {
    const channel = chip.pwm.channels[slice];
    // The registers tell the duty; the counter would only wake the clock thousands of times a second.
    channel.updateEnable = () => {};
    const write = channel.writeRegister.bind(channel);
    channel.writeRegister = (offset, value) => {
      write(offset, value);
      noteMotors();
    };
  }
}

function reset(hung) {
  start(chip.flash.slice(0, FLASH_BYTES), hung);
}

function speed(slice) {
  const { csr, cc } = chip.pwm.channels[slice];
  return csr & 1 ? (cc & 0xffff) - (cc >>> 16) : 0;
}

function noteMotors() {
  const now = [Math.round(clock.nanos / 1000), speed(1), speed(2)];
  const last = motors.at(-1);
  if (last && last[1] === now[1] && last[2] === now[2]) return;
  motors.push(now);
}

function callRom() {
  const { core } = chip;
  const r = core.registers;
  if (core.PC === ROM_LOOKUP) {
    const name = String.fromCharCode(r[1] & 0xff, r[1] >> 8);
    r[0] = (ROM_FIRST + 4 * ROM_NAMES.indexOf(name)) | 1;
    return;
  }
  const name = ROM_NAMES[(core.PC - ROM_FIRST) >> 2];
  if (!core.PM) throw new Error(`boot ROM function ${name} with interrupts on`);
  if (name === 'RE') {
    chip.flash.fill(0xff, r[0], r[0] + r[1]);
  } else if (name === 'RP') {
    const slot = (r[0] - (FLASH_BYTES - 2 * SECTOR)) / SECTOR;
    for (let i = 0; i < r[2]; i++) {
      chip.flash[r[0] + i] &= chip.readUint8(r[1] + i) | (worn.has(slot) && i === 100 ? 0xff : 0);
    }
  }
}

function say(line) {
  writeSync(1, JSON.stringify(line) + '\n');
}

function hear() {
  const bytes = [];
  const one = Buffer.alloc(1);
  for (;;) {
    if (readSync(0, one) === 0) process.exit(0); // the caller has gone
    if (one[0] === 10) return JSON.parse(Buffer.from(bytes).toString());
    bytes.push(one[0]);
  }
}

function exchange() {
  say({ us: Math.round(clock.nanos / 1000), sent: Buffer.from(outgoing).toString('hex'), motors });
  outgoing = [];
  motors = [];
  lastLine = clock.nanos;
  const answer = hear();
  for (const slot of answer.worn ?? []) worn.add(slot);
  if (answer.send) {
    incoming.push(...Buffer.from(answer.send, 'hex'));
    nextByteAt = clock.nanos + 1000 * (answer.after_us ?? 0);
  }
  if (answer.hang) chip.core.PC = symbols.hang;
  if (answer.reset) reset(false);
  if (answer.stop) {
    say(figures);
    process.exit(0);
  }
}

function advance(nanos) {
  clock.tick(nanos);
  while (incoming.length && clock.nanos >= nextByteAt) {
    chip.uart[0].feedByte(incoming.shift());
    nextByteAt += BYTE_NANOS;
  }
}

function rest() {
  if (outgoing.length || clock.nanos - lastLine > IDLE_LINE_NANOS) exchange();
  if (!chip.core.waiting) return; // it was reset
  const untilByte = incoming.length ? Math.max(nextByteAt - clock.nanos, 0) : Infinity;
  advance(Math.min(clock.nanosToNextAlarm || Infinity, untilByte));
}

function watch(core, pc) {
  if (pc < 0x4000) {
    callRom();
  } else if (pc === symbols.kg_agent_step) {
    decision = { back: core.LR & ~1, from: core.cycles };
  } else if (decision && pc === decision.back) {
    const cycles = core.cycles - decision.from;
    figures.decisions++;
    figures.total_cycles += cycles;
    figures.most_cycles = Math.max(figures.most_cycles, cycles);
    decision = null;
  }
}

// Until the core waits for an interrupt, or is another one after a reset.
function work() {
  const { core } = chip;
  const { registers } = core;
  const nanos = 1e9 / chip.clkSys;
  let lowest = RAM_TOP - figures.stack;
  const began = performance.now();
  while (!core.waiting && core === chip.core) {
    const pc = registers[15];
    if (pc === symbols.hang) advance(clock.nanosToNextAlarm); // an endless loop: only the watchdog ends it
    if (pc < 0x4000 || pc === symbols.kg_agent_step || (decision && pc === decision.back)) watch(core, pc);
    const cycles = core.executeInstruction();
    figures.instructions++;
    figures.cycles += cycles;
    if (registers[13] < lowest) lowest = registers[13];
    if (incoming.length) advance(cycles * nanos);
    else clock.tick(cycles * nanos);
  }
  figures.stack = RAM_TOP - lowest;
  figures.working_s += (performance.now() - began) / 1000;
}

const flash = new Uint8Array(FLASH_BYTES).fill(0xff);
flash.set(image);
start(flash, false);
for (;;) {
  work();
  rest();
}
