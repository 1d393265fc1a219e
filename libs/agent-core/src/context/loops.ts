import { hex32 } from '../base/hex.ts';
import { isJsonObject, type Json } from '../base/json.ts';

/** A call as loop detection sees it. */
export interface LoopCall {
  readonly tool_name: string;
  readonly input: Json;
  readonly result: string | null;
  readonly is_error: boolean;
  /** It changes something: with other arguments it is something new, whatever its result says. Default false. */
  readonly acts?: boolean;
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

/** The steps of a run as far as loops are looked for in them: short texts, bounded in number. */
export interface StepPrints {
  /** One print a step that called tools, oldest first. */
  readonly prints: readonly string[];
  /** Prints of results that the run has had, oldest first, each once. */
  readonly seen: readonly string[];
  /** Steps in a row, up to the last, that brought nothing new. */
  readonly stalled: number;
}

/** Before the first step. */
export const NO_STEPS: StepPrints = { prints: [], seen: [], stalled: 0 };

/** Prints that are kept: enough for five rounds of the longest cycle, and results for about as long a look back. */
const PRINTS_KEPT = 24;
const RESULTS_KEPT = 64;

/**
 * The prints with one more step. A step without a call is none: it changes nothing. One brings nothing new when every
 * call of it failed, or had a result that was seen before (of a call that acts: with the same arguments); a call that is
 * still open is new.
 */
export function withStep(steps: StepPrints, calls: readonly LoopCall[]): StepPrints {
  if (calls.length === 0) return steps;
  const results = calls.map(resultPrint);
  const isStalled = calls.every(
    (call, place) => call.result !== null && (call.is_error || steps.seen.includes(results[place] ?? '')),
  );
  return {
    prints: [...steps.prints, hashText(calls.map(callFingerprint).join(' '))].slice(-PRINTS_KEPT),
    seen: [...new Set([...steps.seen, ...results])].slice(-RESULTS_KEPT),
    stalled: isStalled ? steps.stalled + 1 : 0,
  };
}

export type LoopVerdict =
  /** The last `repeats` times `cycle_len` steps were alike: tools, arguments and results. */
  | { readonly kind: 'loop'; readonly cycle_len: number; readonly repeats: number }
  /** The last `steps` steps failed, or had results that the run had seen before. */
  | { readonly kind: 'stall'; readonly steps: number };

/**
 * Whether a run goes round in circles. A loop is the same calls with the same arguments and the same results, over and
 * over, in a cycle of one or more steps. A stall is a row of steps none of which brought anything new, whatever their
 * arguments.
 */
export function detectLoop(steps: StepPrints, policy: LoopPolicy = LOOP_POLICY_DEFAULT): LoopVerdict | null {
  const { prints, stalled } = steps;
  for (let length = 1; policy.repeats_max > 0 && length <= policy.cycle_len_max; length++) {
    const repeats = repeatsAtEnd(prints, length);
    if (repeats > policy.repeats_max) return { kind: 'loop', cycle_len: length, repeats };
  }
  if (policy.stalled_steps_max === 0) return null;
  return stalled > policy.stalled_steps_max ? { kind: 'stall', steps: stalled } : null;
}

/** How many times the last `length` entries stand in a row at the end. */
function repeatsAtEnd(prints: readonly string[], length: number): number {
  if (prints.length < length) return 0;
  let alike = 0;
  for (let at = prints.length - 1 - length; at >= 0 && prints[at] === prints[at + length]; at--) alike++;
  return Math.floor(alike / length) + 1;
}

function resultPrint(call: LoopCall): string {
  const { tool_name, result } = call;
  if (call.acts === true) return hashText(callFingerprint(call));
  return hashText(`${tool_name}:${result === null ? 'open' : result.trim()}`);
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

/** JSON text with the members of objects in order and the space around texts left out. */
function normalised(input: Json): string {
  if (typeof input === 'string') return JSON.stringify(input.trim());
  if (Array.isArray(input)) return `[${input.map(normalised).join(',')}]`;
  if (!isJsonObject(input)) return JSON.stringify(input);
  const names = Object.keys(input).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${normalised(input[name] ?? null)}`).join(',')}}`;
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
  return hex32(a) + hex32(b);
}
