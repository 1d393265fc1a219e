import { hex32 } from '../base/hex.ts';
import { isJsonObject, type Json } from '../base/json.ts';

/** A call in loop detection. */
export interface LoopCall {
  readonly tool_name: string;
  readonly input: Json;
  readonly result: string | null;
  readonly is_error: boolean;
  /**
   * It has an effect: new arguments make it new, whatever its result.
   * Default: false.
   */
  readonly acts?: boolean;
}

export interface LoopPolicy {
  /** Allowed repetitions of the same steps; 0 turns loop detection off. */
  readonly repeats_max: number;
  /**
   * Longest detected cycle.
   * Unit: steps.
   */
  readonly cycle_len_max: number;
  /** Allowed consecutive steps without anything new; 0 turns stall detection off. */
  readonly stalled_steps_max: number;
}

export const LOOP_POLICY_DEFAULT: LoopPolicy = { repeats_max: 4, cycle_len_max: 4, stalled_steps_max: 8 };

/** Prints of a run's steps for loop detection: short texts, bounded in number. */
export interface StepPrints {
  /** A print for each step with calls, oldest first. */
  readonly prints: readonly string[];
  /** Distinct prints of the run's results, oldest first. */
  readonly seen: readonly string[];
  /** Consecutive steps without anything new, up to the last. */
  readonly stalled: number;
}

/** Before the first step. */
export const NO_STEPS: StepPrints = { prints: [], seen: [], stalled: 0 };

/** Prints kept: five rounds of the longest cycle, and results for about as long. */
const PRINTS_KEPT = 24;
const RESULTS_KEPT = 64;

/**
 * Adds a step to the prints. A step without a call changes nothing.
 * A step is stale when every call failed or had a known result (of a call with effects: with the same arguments). An
 * open call is new.
 */
export function withStep(steps: StepPrints, calls: readonly LoopCall[]): StepPrints {
  if (calls.length === 0) return steps;
  const fingerprints = calls.map(callFingerprint);
  const results = calls.map((call, place) => resultPrint(call, fingerprints[place] ?? ''));
  const isStalled = calls.every(
    (call, place) => call.result !== null && (call.is_error || steps.seen.includes(results[place] ?? '')),
  );
  const print = printOf(fingerprints.join(' '));
  return {
    prints: [...steps.prints.slice(1 - PRINTS_KEPT), print],
    seen: withResults(steps.seen, results),
    stalled: isStalled ? steps.stalled + 1 : 0,
  };
}

function withResults(seen: readonly string[], results: readonly string[]): readonly string[] {
  const fresh = results.filter((result) => !seen.includes(result));
  const all = seen.concat(fresh.length > 1 ? [...new Set(fresh)] : fresh);
  return all.length > RESULTS_KEPT ? all.slice(-RESULTS_KEPT) : all;
}

export type LoopVerdict =
  /** The last `repeats` times `cycle_len` steps had equal tools, arguments and results. */
  | { readonly kind: 'loop'; readonly cycle_len: number; readonly repeats: number }
  /** The last `steps` steps failed or had known results. */
  | { readonly kind: 'stall'; readonly steps: number };

/**
 * Detects whether a run goes round in circles.
 * Loop: a cycle of steps repeats with the same calls, arguments and results. Stall: consecutive steps bring nothing
 * new, whatever their arguments.
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

/** Counts the repetitions of the last `length` entries at the end. */
function repeatsAtEnd(prints: readonly string[], length: number): number {
  if (prints.length < length) return 0;
  let alike = 0;
  for (let at = prints.length - 1 - length; at >= 0 && prints[at] === prints[at + length]; at--) alike++;
  return Math.floor(alike / length) + 1;
}

function resultPrint({ tool_name, result, acts }: LoopCall, fingerprint: string): string {
  return acts === true
    ? printOf(fingerprint)
    : printOf(tool_name, ':', result === null ? 'open' : result.trim());
}

/**
 * Makes a short text that is equal for equivalent calls: same tool, arguments and result.
 * The order of members and the space around texts do not count.
 */
export function callFingerprint({ tool_name, input, result, is_error }: LoopCall): string {
  const args = new TextPrint();
  addNormalised(args, input);
  const outcome = result === null ? 'open' : printOf(is_error ? 'true ' : 'false ', result.trim());
  return `${tool_name}:${args.toHex()}:${outcome}`;
}

/** Adds JSON text with sorted object members and trimmed texts. */
function addNormalised(print: TextPrint, input: Json): void {
  let separator = '';
  if (Array.isArray(input)) {
    print.add('[');
    for (const element of input as readonly Json[]) {
      print.add(separator);
      addNormalised(print, element);
      separator = ',';
    }
    print.add(']');
  } else if (isJsonObject(input)) {
    print.add('{');
    for (const name of inOrder(Object.keys(input))) {
      print.add(separator);
      print.add(JSON.stringify(name));
      print.add(':');
      addNormalised(print, input[name] ?? null);
      separator = ',';
    }
    print.add('}');
  } else print.add(JSON.stringify(typeof input === 'string' ? input.trim() : input));
}

/** From here on `sort` is cheaper. */
const MANY_NAMES = 16;

/** Sorts names in place. For the few names of arguments, `sort` would cost as much as the rest of a fingerprint. */
function inOrder(names: string[]): readonly string[] {
  if (names.length >= MANY_NAMES) return names.sort();
  for (let sorted = 1; sorted < names.length; sorted++) {
    const name = names[sorted] as string;
    let place = sorted;
    for (; place > 0 && (names[place - 1] as string) > name; place--)
      names[place] = names[place - 1] as string;
    names[place] = name;
  }
  return names;
}

function printOf(...parts: readonly string[]): string {
  const print = new TextPrint();
  for (const part of parts) print.add(part);
  return print.toHex();
}

/**
 * Hashes a text to 64 bits, as hex: two FNV-1a sums. Good against chance, not against malice.
 * The text comes in parts, since joining long texts costs more than the sums.
 */
class TextPrint {
  #a = 0x811c9dc5 | 0;
  #b = 0x01234567;
  #length = 0;

  add(part: string): void {
    let a = this.#a;
    let b = this.#b;
    let place = this.#length;
    for (let i = 0; i < part.length; i++) {
      const code = part.charCodeAt(i);
      a = Math.imul(a ^ code, 0x01000193);
      b = Math.imul(b ^ (code + place), 0x01000193);
      place++;
    }
    this.#a = a;
    this.#b = b;
    this.#length = place;
  }

  toHex(): string {
    return hex32(this.#a) + hex32(this.#b);
  }
}
