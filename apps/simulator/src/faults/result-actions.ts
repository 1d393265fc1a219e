import { z } from 'zod';
import { drawFrom, idFrom, shuffledIndexes } from '../draws.ts';
import type { ResultLine, ResultPlan } from '../results/result-plan.ts';
import type { Fault, FaultContext } from './fault.ts';

const probability = z.number().min(0).max(1);
const line = z.number().int().nonnegative();

/** Actions on the stream of result lines. `at` is the number of lines before the action. */
export const resultActions = [
  /** Ends the stream after a number of lines or bytes, or a fraction of the lines. */
  z.strictObject({
    type: z.literal('cut'),
    at_lines: line.optional(),
    at_bytes: z.number().int().nonnegative().optional(),
    at_fraction: z.number().min(0).max(1).optional(),
    boundary: z.enum(['newline', 'midline']).default('newline'),
    how: z.enum(['clean', 'fin', 'rst', 'short_content_length', 'close_delimited', 'gzip']).default('clean'),
  }),
  z.strictObject({
    type: z.literal('garbageLine'),
    at: line.default(1),
    text: z.string().default('{"custom_id": "half a li'),
  }),
  z.strictObject({ type: z.literal('blankLine'), at: line.default(1) }),
  z.strictObject({ type: z.literal('nullLine'), at: line.default(1) }),
  /** A line of a request that is not in the batch. */
  z.strictObject({
    type: z.literal('foreignLine'),
    at: line.default(0),
    custom_id: z.string().default('not-in-this-batch'),
  }),
  z.strictObject({ type: z.literal('extraNewline') }),
  z.strictObject({ type: z.literal('noFinalNewline') }),
  z.strictObject({ type: z.literal('crlf') }),
  z.strictObject({ type: z.literal('bom') }),
  z.strictObject({
    type: z.literal('duplicateLines'),
    probability: probability.default(1),
    mode: z.enum(['identical', 'conflicting']).default('identical'),
  }),
  z.strictObject({
    type: z.literal('dropLines'),
    probability: probability.optional(),
    at: z.array(line).optional(),
  }),
  /**
   * Answers with a readable usage but unusable content: nested too deep, no list of blocks, a block without a type, or
   * (`garbled`) a line that is not JSON.
   */
  z.strictObject({
    type: z.literal('unusableAnswers'),
    probability: probability.default(1),
    how: z.enum(['deep', 'no_array', 'odd_block', 'garbled']).default('deep'),
    levels: z.number().int().min(1).max(1_000_000).default(200),
  }),
  /** Holds the whole file in memory, so only for small batches. */
  z.strictObject({ type: z.literal('reorder'), how: z.enum(['shuffle', 'reverse']) }),
  z.strictObject({
    type: z.literal('stall'),
    at_bytes: z.number().int().nonnegative(),
    ms: z.number().nonnegative(),
  }),
  z.strictObject({ type: z.literal('trickle'), bytes_per_second: z.number().positive() }),
  z.strictObject({ type: z.literal('chunks'), bytes: z.number().int().min(1).max(1_048_576) }),
  z.strictObject({ type: z.literal('contentType'), value: z.string().nullable() }),
  z.strictObject({ type: z.literal('gzip'), on: z.boolean() }),
] as const;

type ResultAction = z.output<(typeof resultActions)[number]>;
type Lines = AsyncIterable<ResultLine>;
type Edit = (lines: Lines) => Lines;

const withEdit = (plan: ResultPlan, edit: Edit): ResultPlan => ({ ...plan, edits: [...plan.edits, edit] });
const asLine = (text: string): ResultLine => ({ bytes: Buffer.from(text), terminator: '\n' });

const mapped = (change: (line: ResultLine, at: number) => readonly ResultLine[]): Edit =>
  async function* (lines) {
    let at = 0;
    for await (const one of lines) yield* change(one, at++);
  };

/** Inserts a line after the first `at` lines, or at the end of a shorter file. */
const inserted = (at: number, text: string): Edit =>
  async function* (lines) {
    let seen = 0;
    for await (const one of lines) {
      if (seen++ === at) yield asLine(text);
      yield one;
    }
    if (seen <= at) yield asLine(text);
  };

const cutAfter = (count: number, boundary: 'newline' | 'midline'): Edit =>
  async function* (lines) {
    let seen = 0;
    for await (const one of lines) {
      if (seen++ < count) {
        yield one;
        continue;
      }
      const half = Math.max(1, Math.floor(one.bytes.length / 2));
      if (boundary === 'midline') yield { bytes: one.bytes.subarray(0, half), terminator: '' };
      return;
    }
  };

const lastChanged = (change: (line: ResultLine) => readonly ResultLine[]): Edit =>
  async function* (lines) {
    let held: ResultLine | undefined;
    for await (const one of lines) {
      if (held !== undefined) yield held;
      held = one;
    }
    if (held !== undefined) yield* change(held);
  };

const reordered = (how: 'shuffle' | 'reverse', context: FaultContext): Edit =>
  async function* (lines) {
    const all: ResultLine[] = [];
    for await (const one of lines) all.push(one);
    if (how === 'reverse') yield* all.reverse();
    else
      for (const at of shuffledIndexes(all.length, context.seed, context.ruleId)) yield all[at] ?? asLine('');
  };

/** Creates a conflicting answer to the same request: another message id, or an error instead of no message. */
function conflicting(original: ResultLine): ResultLine {
  const text = original.bytes.toString();
  const other = text.replace(/"id":"msg_01.{22}"/, `"id":"${idFrom('msg_01', 22, 'conflicting', text)}"`);
  if (other !== text) return asLine(other);
  const { custom_id } = JSON.parse(text) as { custom_id: string };
  const error = { type: 'error', error: { type: 'api_error', message: 'a second answer' }, request_id: null };
  return asLine(JSON.stringify({ custom_id, result: { type: 'errored', error } }));
}

/** Replaces the content of an answer and keeps its usage; other lines are unchanged. */
function spoiled(
  original: ResultLine,
  action: Extract<ResultAction, { type: 'unusableAnswers' }>,
): ResultLine {
  const text = original.bytes.toString();
  const start = text.indexOf('"content":[');
  const end = text.lastIndexOf(',"stop_reason":');
  if (start === -1 || end < start || !text.includes('"type":"succeeded"')) return original;
  const nested = '['.repeat(action.levels) + ']'.repeat(action.levels);
  const content = {
    deep: `[{"type":"tool_use","id":"toolu_deep","name":"deep","input":{"deep":${nested}}}]`,
    no_array: '{"type":"text","text":"no list"}',
    odd_block: '[{"text":"no type"}]',
    garbled: '[{"type":"text","text":"\u0001"}]',
  }[action.how];
  return { ...original, bytes: Buffer.from(`${text.slice(0, start)}"content":${content}${text.slice(end)}`) };
}

function cutPlan(plan: ResultPlan, action: Extract<ResultAction, { type: 'cut' }>): ResultPlan {
  const manner: ResultPlan = { ...plan, cut: action.how, gzip: action.how === 'gzip' ? true : plan.gzip };
  if (action.at_bytes !== undefined) return { ...manner, stopAfterBytes: action.at_bytes };
  const lines = action.at_lines ?? Math.floor(plan.totalLines * (action.at_fraction ?? 0.5));
  return withEdit(manner, cutAfter(lines, action.boundary));
}

function edited(action: ResultAction, plan: ResultPlan, context: FaultContext): ResultPlan {
  const drawn = (purpose: string, bytes: Buffer): number =>
    drawFrom(context.seed, context.ruleId, purpose, bytes.toString('latin1', 0, 100));
  switch (action.type) {
    case 'cut':
      return cutPlan(plan, action);
    case 'garbageLine':
      return withEdit(plan, inserted(action.at, action.text));
    case 'blankLine':
      return withEdit(plan, inserted(action.at, ''));
    case 'nullLine':
      return withEdit(plan, inserted(action.at, 'null'));
    case 'foreignLine':
      return withEdit(
        plan,
        inserted(action.at, JSON.stringify({ custom_id: action.custom_id, result: { type: 'expired' } })),
      );
    case 'extraNewline':
      return withEdit(
        plan,
        lastChanged((last) => [last, asLine('')]),
      );
    case 'noFinalNewline':
      return withEdit(
        plan,
        lastChanged((last) => [{ ...last, terminator: '' }]),
      );
    case 'crlf':
      return withEdit(
        plan,
        mapped((one) => [{ ...one, terminator: '\r\n' }]),
      );
    case 'bom':
      return withEdit(
        plan,
        mapped((one, at) =>
          at > 0 ? [one] : [{ ...one, bytes: Buffer.concat([Buffer.from('\ufeff'), one.bytes]) }],
        ),
      );
    case 'duplicateLines':
      return withEdit(
        plan,
        mapped((one) => {
          if (drawn('duplicate', one.bytes) >= action.probability) return [one];
          return action.mode === 'identical' ? [one, one] : [one, conflicting(one)];
        }),
      );
    case 'dropLines':
      return withEdit(
        plan,
        mapped((one, at) => {
          const dropped =
            action.at === undefined
              ? drawn('drop', one.bytes) < (action.probability ?? 0.5)
              : action.at.includes(at);
          return dropped ? [] : [one];
        }),
      );
    case 'unusableAnswers':
      return withEdit(
        plan,
        mapped((one) => [drawn('unusable', one.bytes) < action.probability ? spoiled(one, action) : one]),
      );
    case 'reorder':
      return withEdit(plan, reordered(action.how, context));
    case 'stall':
      return { ...plan, stall: { atBytes: action.at_bytes, ms: action.ms } };
    case 'trickle':
      return { ...plan, bytesPerSecond: action.bytes_per_second };
    case 'chunks':
      return { ...plan, chunkBytes: action.bytes };
    case 'contentType':
      return { ...plan, contentType: action.value };
    case 'gzip':
      return { ...plan, gzip: action.on };
  }
}

const TYPES = new Set<string>(resultActions.map((schema) => schema.shape.type.value));

/** Returns the stages of a result action; undefined for another family. */
export function resultFault(action: { readonly type: string }, ruleId: string): Fault | undefined {
  if (!TYPES.has(action.type)) return undefined;
  return { ruleId, results: (plan, context) => edited(action as ResultAction, plan, context) };
}
