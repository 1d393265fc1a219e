/**
 * Ids on the wire are `<prefix>-<uuid>`; in the database they are uuid columns.
 * Steps and messages have no id column. A step's uuid is its run's uuid with the step key in its low 24 bits.
 * A message's uuid is its conversation's with the message number in its low 31 bits.
 * The low 7 of these number the items of a message, for the `otid` of Letta's clients.
 */

import { hex32 } from './hex.ts';

/** Prefixes of ids on the wire. A batch is a `job` there, as in Letta. */
export type WirePrefix =
  | 'agent'
  | 'block'
  | 'tool'
  | 'message'
  | 'run'
  | 'step'
  | 'job'
  | 'batch_item'
  | 'conversation'
  | 'schedule'
  | 'worker'
  | 'mcp_server'
  | 'user';

/** Bits of a run's uuid that must be zero: 16 for the step number, 8 for the attempt. */
export const RUN_FREE_BITS = 24;
/** Zero bits of a conversation's uuid: 24 for the message number, 7 for the item within a message. */
export const CONVERSATION_FREE_BITS = 31;

export const STEP_NUMBER_MAX = 0xffff;
export const ATTEMPT_MAX = 0xff;
export const MESSAGE_SEQ_MAX = 0xff_ffff;

/** Formats a wire id: `agent`, uuid → `agent-<uuid>`. */
export function toWireId(prefix: WirePrefix, uuid: string): string {
  return `${prefix}-${uuid}`;
}

function low32(uuid: string): number {
  return Number.parseInt(uuid.slice(-8), 16);
}

function withLow32(uuid: string, value: number): string {
  return uuid.slice(0, -8) + hex32(value);
}

/** Clears the lowest `bits` (at most 32) of a uuid, as parent ids need. */
export function clearLowBits(uuid: string, bits: number): string {
  const zeros = '0'.repeat(Math.floor(bits / 4));
  const head = uuid.slice(0, uuid.length - zeros.length);
  if (bits % 4 === 0) return head + zeros;
  const digit = Number.parseInt(head.slice(-1), 16) & (0xf << (bits % 4));
  return head.slice(0, -1) + digit.toString(16) + zeros;
}

/** Number and attempt of a step: its primary key beside the run's id. */
export interface StepKey {
  readonly run_id: string;
  readonly number: number;
  readonly attempt: number;
}

/** Makes a step's uuid: its run's uuid with number and attempt in the free bits. */
export function stepUuid(key: StepKey): string {
  return withLow32(key.run_id, low32(key.run_id) + key.number * 256 + key.attempt);
}

/** Reads the step key from a uuid made by {@link stepUuid}. */
export function stepKeyOf(uuid: string): StepKey {
  const low = low32(uuid);
  return {
    run_id: clearLowBits(uuid, RUN_FREE_BITS),
    number: (low >>> 8) & STEP_NUMBER_MAX,
    attempt: low & ATTEMPT_MAX,
  };
}

/** Makes a message's uuid: its conversation's uuid with number and item in the free bits. */
export function messageUuid(conversationId: string, seq: number, item = 0): string {
  return withLow32(conversationId, low32(conversationId) + seq * 128 + item);
}

/** Reads conversation and number from a message's uuid. */
export function messageKeyOf(uuid: string): { readonly conversation_id: string; readonly seq: number } {
  return {
    conversation_id: clearLowBits(uuid, CONVERSATION_FREE_BITS),
    seq: (low32(uuid) >>> 7) & MESSAGE_SEQ_MAX,
  };
}

/** Nonce, the step's uuid without dashes and with a zero low byte, and the attempt without leading zeros. */
const CUSTOM_ID = /^[a-z0-9]{6,16}-[0-9a-f]{12}[1-8][0-9a-f]{3}[89ab][0-9a-f]{13}00-(?:0|[1-9]\d{0,2})$/;

/**
 * Makes the `custom_id` of a request: submission nonce, step, attempt.
 * At most 53 characters of `[a-z0-9-]`; the provider allows 64.
 */
export function toCustomId(nonce: string, { run_id, number, attempt }: StepKey): string {
  const low = hex32(low32(run_id) + number * 256);
  return `${nonce}-${run_id.slice(0, 8)}${run_id.slice(9, 13)}${run_id.slice(14, 18)}${run_id.slice(19, 23)}${run_id.slice(24, 28)}${low}-${attempt}`;
}

/** Parses a `custom_id` made by {@link toCustomId}; null for any other. */
export function fromCustomId(customId: string): { readonly nonce: string; readonly key: StepKey } | null {
  if (!CUSTOM_ID.test(customId)) return null;
  const nonce = customId.slice(0, customId.indexOf('-'));
  const step = customId.slice(nonce.length + 1, nonce.length + 33);
  const attempt = Number(customId.slice(nonce.length + 34));
  if (attempt > ATTEMPT_MAX) return null;
  const run_id = `${step.slice(0, 8)}-${step.slice(8, 12)}-${step.slice(12, 16)}-${step.slice(16, 20)}-${step.slice(20, 26)}000000`;
  return { nonce, key: { run_id, number: Number.parseInt(step.slice(26, 30), 16), attempt } };
}
