import { isJsonObject, type Json } from '../base/json.ts';

/** A call as loop detection sees it. */
export interface LoopCall {
  readonly tool_name: string;
  readonly input: Json;
  readonly result: string | null;
  readonly is_error: boolean;
}

export interface LoopPolicy {
  /** Times that the same steps may come in a row before it is a loop; 0: loops are not looked for. */
  readonly repeats_max: number;
  /** Steps of the longest cycle that is looked for. */
  readonly cycle_len_max: number;
  /** Steps in a row that may bring nothing new; 0: stalls are not looked for. */
  readonly stalled_steps_max: number;
}

export const LOOP_POLICY_DEFAULT: LoopPolicy = { repeats_max: 4, cycle_len_max: 4, stalled_steps_max: 8 };

export type LoopVerdict =
  /** The last `repeats` times `cycle_len` steps were alike: tools, arguments and results. */
  | { readonly kind: 'loop'; readonly cycle_len: number; readonly repeats: number }
  /** The last `steps` steps failed, or had results that the run had seen before. */
  | { readonly kind: 'stall'; readonly steps: number };

/**
 * Whether a run goes round in circles, judged by the calls of its steps, oldest first. A loop is the same calls with
 * the same arguments and the same results, over and over, in a cycle of one or more steps. A stall is a row of steps
 * none of which brought anything new, whatever their arguments. A call that is still open is new.
 */
export function detectLoop(
  steps: readonly (readonly LoopCall[])[],
  policy: LoopPolicy = LOOP_POLICY_DEFAULT,
): LoopVerdict | null {
  const prints = steps.map((calls) => calls.map(callFingerprint).join(' '));
  for (let length = 1; policy.repeats_max > 0 && length <= policy.cycle_len_max; length++) {
    const repeats = repeatsAtEnd(prints, length);
    if (repeats > policy.repeats_max) return { kind: 'loop', cycle_len: length, repeats };
  }
  if (policy.stalled_steps_max === 0) return null;
  const stalled = stalledAtEnd(steps);
  return stalled > policy.stalled_steps_max ? { kind: 'stall', steps: stalled } : null;
}

/** How many times the last `length` entries stand in a row at the end. */
function repeatsAtEnd(prints: readonly string[], length: number): number {
  if (prints.length < length) return 0;
  let alike = 0;
  for (let at = prints.length - 1 - length; at >= 0 && prints[at] === prints[at + length]; at--) alike++;
  return Math.floor(alike / length) + 1;
}

function stalledAtEnd(steps: readonly (readonly LoopCall[])[]): number {
  const seen = new Set<string>();
  let stalled = 0;
  for (const calls of steps) {
    const isStalled = calls.every(
      (call) => call.result !== null && (call.is_error || seen.has(resultPrint(call))),
    );
    stalled = calls.length > 0 && isStalled ? stalled + 1 : 0;
    for (const call of calls) seen.add(resultPrint(call));
  }
  return stalled;
}

function resultPrint({ tool_name, result }: LoopCall): string {
  return `${tool_name}:${result === null ? 'open' : hashText(result.trim())}`;
}

/**
 * A short text that is the same for calls that mean the same: tool, arguments whatever the order of their members and
 * the space around their texts, and result.
 */
export function callFingerprint(call: LoopCall): string {
  const args = hashText(normalised(call.input));
  const result = call.result === null ? 'open' : hashText(`${call.is_error} ${call.result.trim()}`);
  return `${call.tool_name}:${args}:${result}`;
}

function normalised(input: Json): string {
  return JSON.stringify(input, (_key, part: Json) => {
    if (typeof part === 'string') return part.trim();
    return isJsonObject(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part;
  });
}

/** 64 bits of a text, as hex: two FNV-1a sums. Good against chance, not against malice. */
function hashText(text: string): string {
  let a = 0x811c9dc5;
  let b = 0x01234567;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    a = Math.imul(a ^ code, 0x01000193);
    b = Math.imul(b ^ (code + i), 0x01000193);
  }
  return [a, b].map((half) => (half >>> 0).toString(16).padStart(8, '0')).join('');
}
