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

function resultPrint({ tool_name, result, acts }: LoopCall, fingerprint: string): string {
  return acts === true
    ? printOf(fingerprint)
    : printOf(tool_name, ':', result === null ? 'open' : result.trim());
}

/**
 * A short text that is the same for calls that mean the same: tool, arguments whatever the order of their members and
 * the space around their texts, and result.
 */
export function callFingerprint({ tool_name, input, result, is_error }: LoopCall): string {
  const args = new TextPrint();
  addNormalised(args, input);
  const outcome = result === null ? 'open' : printOf(is_error ? 'true ' : 'false ', result.trim());
  return `${tool_name}:${args.toHex()}:${outcome}`;
}

/** Adds JSON text with the members of objects in order and the space around texts left out. */
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

/** Sorts names in place. Arguments have a few, for which `sort` costs as much as all the rest of a fingerprint. */
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
 * 64 bits of a text, as hex: two FNV-1a sums. Good against chance, not against malice. The text comes in parts, since
 * joining long ones costs more than the sums.
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
