/** Creates the simulated provider's result files with their faults. */
import type { ResultsOutcome } from '../apps/worker/src/provider/port.ts';
import { ResultsInterrupted } from '../apps/worker/src/provider/port.ts';
import { answerOf } from './model.ts';
import type { Item, Provider, StoredBatch } from './provider.ts';
import type { LineUsage } from './provider-ledger.ts';
import { drawOf, type Random } from './random.ts';
import type { World } from './world.ts';

/** Passes in which a file may be cut short: one fewer than a worker accepts. */
const SHORT_PASSES_MAX = 3;

/** Milliseconds after its end in which a batch may have no results yet. */
const NOT_READY_MS_MAX = 20_000;

/** The file of one pass. `end`: how its stream ends. */
export interface ResultFile {
  readonly pieces: readonly Buffer[];
  readonly end: 'clean' | 'broken' | 'silent';
}

/** Opens the results of a batch. Faults differ between passes. */
export function openResults(
  world: World,
  provider: Provider,
  random: Random,
  seed: string,
  id: string,
): ResultFile | Exclude<ResultsOutcome, { outcome: 'open' }> {
  const batch = provider.look(id);
  if (batch === null) return { outcome: 'not_found' };
  if ('outcome' in batch) return batch;
  const temper = provider.temper().results;
  if (batch.endedAt === null) return { outcome: 'not_ready' };
  // A longer lag would count as lost results.
  const mayLag = world.now() - batch.endedAt < NOT_READY_MS_MAX;
  if (mayLag && random.chance(temper.notReady)) return { outcome: 'not_ready' };
  batch.passes += 1;
  const lines = linesOf(provider, batch, seed);
  batch.hasNoLines = lines.length === 0;
  // A worker takes repeated short passes as final, so they stop in time.
  const mayBeShort = batch.passes < SHORT_PASSES_MAX;
  const isCut = mayBeShort && random.chance(temper.cut);
  const isShort = mayBeShort && !isCut && random.chance(temper.shortEnd);
  // No foreign line in a file that lacks ours: the file would then count as foreign.
  const isWhole = !isCut && !isShort && lines.length === batch.items.length;
  if (!isCut && !isShort && !batch.foreign) {
    for (const item of batch.items) {
      if (item.fate === 'succeeded' && !isLost(provider, item, seed))
        provider.ledger.delivered(item.custom_id, batch.id, usageOf(item, seed));
    }
  }
  const spoiled = spoil(provider, batch, lines, random, isWhole);
  let text = spoiled.join(random.chance(0.1) ? '\r\n' : '\n');
  if (!random.chance(0.1)) text += '\n';
  if (random.chance(0.05)) text = `\uFEFF${text}`;
  let end: ResultFile['end'] = 'clean';
  if (isCut) {
    text = text.slice(0, random.int(0, text.length));
    end = random.pick(['clean', 'broken', 'silent'] as const);
  } else if (isShort) {
    text = spoiled
      .slice(0, random.int(0, spoiled.length))
      .map((line) => `${line}\n`)
      .join('');
  }
  return { pieces: cutUp(Buffer.from(text), random), end };
}

/** Builds one line per item. An item's line is the same in every pass. */
function linesOf(provider: Provider, batch: StoredBatch, seed: string): readonly string[] {
  const { garbage, drop } = provider.temper().results;
  return batch.items.flatMap((item) => {
    const { custom_id } = item;
    const draw = drawOf(`${seed}/line/${custom_id}`);
    if (!batch.foreign && draw < garbage) {
      provider.ledger.excuse(custom_id, batch.id, 'unreadable');
      return [`{"custom_id":"${custom_id}","result":{"type":"succ\u0000`];
    }
    if (!batch.foreign && draw < garbage + drop) {
      provider.ledger.excuse(custom_id, batch.id, 'no line');
      return [];
    }
    const line = JSON.stringify({ custom_id, result: resultOf(item, seed) });
    return [
      batch.foreign || item.fate !== 'succeeded' ? line : spoiledAnswer(provider, batch, item, line, seed),
    ];
  });
}

/** Tells whether an item's line has no usage to book. */
function isLost(provider: Provider, { custom_id }: Item, seed: string): boolean {
  const { garbage, drop } = provider.temper().results;
  return drawOf(`${seed}/line/${custom_id}`) < garbage + drop;
}

/** Nesting beyond the limit of the store. */
const LEVELS = 200;

/**
 * Spoils an answer beside its usage.
 * Content that is nested too deep or is not a list ends the run; garbled content allows a retry.
 */
function spoiledAnswer(
  provider: Provider,
  batch: StoredBatch,
  { custom_id }: Item,
  line: string,
  seed: string,
): string {
  const draw = drawOf(`${seed}/unusable/${custom_id}`) / provider.temper().results.unusable;
  if (!(draw < 1)) return line;
  const kind = draw < 0.4 ? 'deep' : draw < 0.7 ? 'no list' : 'garbled';
  provider.ledger.trouble(custom_id, 'unusable');
  if (kind === 'garbled') provider.ledger.excuse(custom_id, batch.id, 'garbled');
  const content = {
    deep: `[{"type":"x","deep":${'['.repeat(LEVELS)}${']'.repeat(LEVELS)}}]`,
    'no list': '"no list"',
    garbled: '[{"type":"text","text":"\u0001"}]',
  }[kind];
  const [start, end] = [line.indexOf('"content":['), line.lastIndexOf(',"stop_reason"')];
  return `${line.slice(0, start)}"content":${content}${line.slice(end)}`;
}

function usageOf(item: Item, seed: string): LineUsage {
  const { turn } = answerOf(item.params, nameOf(item, seed));
  return { input_tokens: 100 + turn, output_tokens: 10 + turn };
}

function nameOf({ custom_id }: Item, seed: string): string {
  return drawOf(`${seed}/${custom_id}`).toString(36).slice(2, 10);
}

function resultOf(item: Item, seed: string): object {
  switch (item.fate) {
    case 'succeeded': {
      const name = nameOf(item, seed);
      const { content, stop_reason } = answerOf(item.params, name);
      const message = {
        id: `msg_${name}`,
        type: 'message',
        role: 'assistant',
        model: 'claude-haiku-4-5',
        content,
        stop_reason,
        stop_sequence: null,
        usage: usageOf(item, seed),
      };
      return { type: 'succeeded', message };
    }
    case 'errored':
      return {
        type: 'errored',
        error: { type: 'error', error: { type: 'api_error', message: 'Internal server error' } },
      };
    case 'permanent':
      return {
        type: 'errored',
        error: { type: 'error', error: { type: 'invalid_request_error', message: 'bad' } },
      };
    case 'too_long':
      return {
        type: 'errored',
        error: {
          type: 'error',
          error: { type: 'invalid_request_error', message: 'prompt is too long: 9 tokens > 8 maximum' },
        },
      };
    default:
      return { type: item.fate };
  }
}

function spoil(
  provider: Provider,
  batch: StoredBatch,
  lines: readonly string[],
  random: Random,
  isWhole: boolean,
): readonly string[] {
  const { duplicate, foreignLine } = provider.temper().results;
  const spoiled = [...lines];
  if (random.chance(0.5)) shuffle(spoiled, random);
  if (random.chance(0.1)) spoiled.splice(random.int(0, spoiled.length), 0, '');
  if (isWhole && random.chance(foreignLine)) {
    // An id of an unknown submission. A made-up result for a known step is not simulated.
    const [, step, attempt] = (batch.items[0]?.custom_id ?? 'x-y-1').split('-');
    const line = JSON.stringify({ custom_id: `strangers1-${step}-${attempt}`, result: { type: 'expired' } });
    spoiled.splice(random.int(0, spoiled.length), 0, line);
  }
  for (const line of lines)
    if (random.chance(duplicate)) spoiled.splice(random.int(0, spoiled.length), 0, line);
  return spoiled;
}

function shuffle(items: unknown[], random: Random): void {
  for (let i = items.length - 1; i > 0; i--) {
    const j = random.int(0, i);
    [items[i], items[j]] = [items[j], items[i]];
  }
}

function cutUp(bytes: Buffer, random: Random): readonly Buffer[] {
  const pieces: Buffer[] = [];
  for (let from = 0; from < bytes.length;) {
    const to = Math.min(bytes.length, from + random.int(200, 4_000));
    pieces.push(bytes.subarray(from, to));
    from = to;
  }
  return pieces;
}

/** Builds the error of a broken stream. */
export function interrupted(end: ResultFile['end']): ResultsInterrupted {
  return new ResultsInterrupted(end === 'silent' ? 'no byte in time' : 'ECONNRESET');
}
