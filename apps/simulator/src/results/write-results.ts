import { open, rename, rm } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { answerRequest, messageJson } from '../answer.ts';
import type { AnswerSettings } from '../answer.ts';
import type { Batch, BatchItem, Fate, RequestCounts } from '../batch.ts';
import type { CacheSession } from '../cache/prefix-cache.ts';
import { createPrefixReader } from '../cache/prefixes.ts';
import type { Prefix, PrefixReader } from '../cache/prefixes.ts';
import { contentHashOf, drawFrom, idFrom, shuffledIndexes } from '../draws.ts';
import { verdictOn } from '../fates.ts';
import type { Ending } from '../fates.ts';
import type { Billing } from '../ledger.ts';
import type { Model } from '../models.ts';
import type { SimulatorState } from '../state.ts';
import type { Directive } from '../scripts/directive.ts';
import type { MessageParams } from '../scripts/script.ts';
import { tokensOfBytes } from '../tokens.ts';
import { listPriceUsd, usageOf, WEB_SEARCH_USD } from '../usage.ts';
import type { Usage } from '../usage.ts';
import { paramsIssue } from '../validate/params.ts';
import { linesOf } from './read-lines.ts';

/** Price of a batch as a fraction of the list price. */
const BATCH_PRICE = 0.5;
/** Requests of one window; windows keep the memory independent of the batch size. */
const WINDOW_ITEMS = 128;
const OUTGOING_BYTES = 512 * 1024;
const WINDOW_BYTES = 4 * 1024 * 1024;
/** Lines of a filled draft that are written together. */
const FILLED_LINES = 512;
/** Cache look-ups between two turns of the event loop. */
const YIELD_EVERY = 4_096;

function windowsOf(items: readonly BatchItem[]): BatchItem[][] {
  const windows: BatchItem[][] = [];
  let window: BatchItem[] = [];
  for (const item of items) {
    const bytes = item.offset + item.length - (window[0]?.offset ?? 0);
    if (window.length === 0 || window.length === WINDOW_ITEMS || bytes > WINDOW_BYTES)
      windows.push((window = []));
    window.push(item);
  }
  return windows;
}

const errorLine = (seed: string, customId: string, type: string, message: string): string => {
  const requestId = idFrom('req_011C', 20, seed, 'item', customId);
  const error = { type: 'error', error: { type, message }, request_id: requestId };
  return `{"custom_id":"${customId}","result":{"type":"errored","error":${JSON.stringify(error)}}}`;
};

/** A line of the result file and the fate of its request. */
interface Settled {
  readonly line: string;
  readonly fate: Fate;
}

/** An answered request whose usage depends on the cache, and so on all requests that were processed before it. */
interface Unpriced {
  readonly customId: string;
  readonly contentHash: string;
  readonly model: Model;
  readonly billable: boolean;
  readonly totalTokens: number;
  readonly outputTokens: number;
  readonly webSearches: number;
  readonly prefixes: readonly Prefix[];
  usage: Usage | null;
}

/** One writing of the results of a batch. */
interface Writing {
  readonly state: SimulatorState;
  readonly settings: AnswerSettings;
  readonly batch: Batch;
  readonly ending: Ending;
  readonly reader: PrefixReader;
  readonly billings: Billing[];
  readonly unpriced: Unpriced[];
}

/** Ends one request with its result line, fate and cost. An error here affects only this request. */
function settleItem(writing: Writing, customId: string, bytes: Buffer): Settled {
  const { state, settings, batch, ending } = writing;
  const { seed } = settings;
  const contentHash = contentHashOf(bytes);
  const verdict = verdictOn(state, ending, batch, customId, contentHash, () => bytes.toString());
  if (verdict.kind === 'canceled' || verdict.kind === 'expired') {
    return { line: `{"custom_id":"${customId}","result":{"type":"${verdict.kind}"}}`, fate: verdict.kind };
  }
  if (verdict.kind === 'errored') {
    return { line: errorLine(seed, customId, verdict.type, verdict.message), fate: 'errored' };
  }
  try {
    return answerItem(writing, { customId, contentHash, bytes, script: verdict.script });
  } catch (error) {
    process.stderr.write(
      `simulator: request ${customId} failed: ${(error as Error).stack ?? String(error)}\n`,
    );
    return { line: errorLine(seed, customId, 'api_error', 'Internal server error'), fate: 'errored' };
  }
}

/** In a draft of the results: begins the place of a usage that is still to be filled in. No JSON text holds it. */
const GAP = '\0';

function answerItem(
  { reader, billings, unpriced, settings, batch }: Writing,
  item: {
    readonly customId: string;
    readonly contentHash: string;
    readonly bytes: Buffer;
    readonly script: Directive | undefined;
  },
): Settled {
  const { seed } = settings;
  const { customId, contentHash, bytes, script } = item;
  const params: unknown = JSON.parse(bytes.toString());
  const { version, betas } = batch;
  const issue = paramsIssue(params, { endpoint: 'batch', version, betas, seed, paramsBytes: bytes.length });
  if (issue !== undefined)
    return { line: errorLine(seed, customId, issue.type, issue.message), fate: 'errored' };
  const valid = params as MessageParams;
  const answer = answerRequest({ params: valid, contentHash, identity: customId, script }, settings);
  if (answer.kind === 'error')
    return { line: errorLine(seed, customId, answer.type, answer.message), fate: 'errored' };
  const { model, billable, head, output_tokens: outputTokens, web_searches: webSearches } = answer;
  const start = `{"custom_id":"${customId}","result":{"type":"succeeded","message":`;
  const totalTokens = tokensOfBytes(bytes.length);
  const prefixes = reader.prefixesOf(valid, model, bytes.length);
  if (prefixes.length > 0) {
    const index = unpriced.length;
    unpriced.push({
      ...{ customId, contentHash, model, billable },
      ...{ totalTokens, outputTokens, webSearches, prefixes, usage: null },
    });
    return { line: `${start}${head}${GAP}${index}`, fate: 'succeeded' };
  }
  const usage = usageOf(totalTokens, outputTokens);
  if (billable) billings.push(billingOf(batch, { customId, contentHash, model, webSearches }, usage));
  return { line: `${start}${messageJson(answer, usage, 'batch')}}}`, fate: 'succeeded' };
}

function billingOf(
  batch: Batch,
  {
    customId,
    contentHash,
    model,
    webSearches,
  }: Pick<Unpriced, 'customId' | 'contentHash' | 'model' | 'webSearches'>,
  usage: Usage,
): Billing {
  const usd = listPriceUsd(model, usage) * BATCH_PRICE + webSearches * WEB_SEARCH_USD;
  return { batch, customId, contentHash, usage, usd };
}

async function readFully(file: FileHandle, buffer: Buffer, position: number): Promise<void> {
  for (let done = 0; done < buffer.length;) {
    const { bytesRead } = await file.read(buffer, done, buffer.length - done, position + done);
    if (bytesRead === 0) throw new Error(`the spooled body ends before byte ${position + buffer.length}`);
    done += bytesRead;
  }
}

/** Appends the lines through one reused buffer, to avoid garbage of a window's size. */
async function writeLines(file: FileHandle, lines: readonly string[], outgoing: Buffer): Promise<number> {
  let written = 0;
  let filled = 0;
  const flush = async (): Promise<void> => {
    // Writes the whole buffer, with several system calls if necessary.
    await file.writeFile(outgoing.subarray(0, filled));
    written += filled;
    filled = 0;
  };
  for (const line of lines) {
    // A UTF-16 unit takes at most three bytes.
    if (filled + line.length * 3 + 1 > outgoing.length) await flush();
    if (line.length * 3 + 1 > outgoing.length) {
      const own = Buffer.from(`${line}\n`);
      await file.writeFile(own);
      written += own.length;
      continue;
    }
    filled += outgoing.write(line, filled, 'utf8');
    outgoing[filled++] = 0x0a;
  }
  await flush();
  return written;
}

function windowOrder(state: SimulatorState, batch: Batch, windows: number): Uint32Array {
  const order = state.settings.result_order;
  if (order === 'shuffled') return shuffledIndexes(windows, state.seed, batch.seq, 'windows');
  const inOrder = Uint32Array.from({ length: windows }, (_, i) => i);
  return order === 'reversed' ? inOrder.reverse() : inOrder;
}

/** A complete result file with its counts and billings. */
interface Written {
  readonly counts: RequestCounts;
  readonly billings: readonly Billing[];
  readonly bytes: number;
}

/**
 * Answers the requests in `bodyPath` and writes their lines to `path`. A request with a cached prefix has its usage left open.
 * Bills nothing.
 */
async function writeDraft(
  writing: Writing,
  items: readonly BatchItem[],
  bodyPath: string,
  path: string,
): Promise<Omit<Written, 'billings'>> {
  const { state, batch } = writing;
  const counts = { processing: 0, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
  const windows = windowsOf(items);
  const body = await open(bodyPath, 'r');
  const results = await open(path, 'w');
  let written = 0;
  let reused = Buffer.alloc(0);
  const outgoing = Buffer.allocUnsafeSlow(OUTGOING_BYTES);
  try {
    for (const number of windowOrder(state, batch, windows.length)) {
      const window = windows[number] ?? [];
      const [first, last] = [window[0], window.at(-1)];
      const offset = first?.offset ?? 0;
      const size = last === undefined ? 0 : last.offset + last.length - offset;
      if (reused.length < size) reused = Buffer.allocUnsafeSlow(size);
      const bytes = reused.subarray(0, size);
      await readFully(body, bytes, offset);
      const lines: string[] = [];
      for (const { customId, offset: start, length } of window) {
        const own = bytes.subarray(start - offset, start - offset + length);
        const { line, fate } = settleItem(writing, customId, own);
        counts[fate]++;
        lines.push(line);
      }
      if (state.settings.result_order === 'reversed') lines.reverse();
      else if (state.settings.result_order === 'shuffled') {
        const plain = lines.slice();
        shuffledIndexes(lines.length, state.seed, batch.seq, number).forEach((from, to) => {
          lines[to] = plain[from] ?? '';
        });
      }
      written += await writeLines(results, lines, outgoing);
      await nextTurn();
      state.stopped.throwIfAborted();
    }
  } finally {
    await body.close();
    await results.close();
  }
  return { counts, bytes: written };
}

/**
 * Computes the usage of each request from the cache. A seeded draw by custom id gives each a time between creation and end of
 * the batch, at which it is processed, so the result does not depend on the order of requests and batches.
 */
async function priceAll(
  { state, settings, batch, unpriced }: Writing,
  session: CacheSession,
  endMs: number,
): Promise<void> {
  const { created_at_ms: createdMs } = batch;
  const draws = unpriced.map(({ customId }) => drawFrom(settings.seed, 'processed', customId));
  const order = [...unpriced.keys()].sort((a, b) => (draws[a] ?? 0) - (draws[b] ?? 0));
  for (const [done, index] of order.entries()) {
    const request = unpriced[index];
    if (request === undefined) continue;
    const { customId, prefixes, totalTokens, outputTokens } = request;
    const missed = drawFrom(settings.seed, 'cache miss', customId) < state.settings.cache_miss;
    const atMs = createdMs + Math.max(0, endMs - createdMs) * (draws[index] ?? 0);
    const read = session.use(prefixes, atMs, missed);
    request.usage = usageOf(totalTokens, outputTokens, prefixes, read);
    if (done % YIELD_EVERY === 0) await nextTurn();
  }
}

/** Writes the draft at `path` again with the usages filled in. Returns the size in bytes. */
async function fillIn({ state, unpriced }: Writing, path: string): Promise<number> {
  const filledPath = `${path}.filled`;
  const results = await open(filledPath, 'w');
  const outgoing = Buffer.allocUnsafeSlow(OUTGOING_BYTES);
  let written = 0;
  try {
    let lines: string[] = [];
    for await (const { bytes } of linesOf(path)) {
      const line = bytes.toString();
      const gapAt = line.lastIndexOf(GAP);
      const request = gapAt < 0 ? undefined : unpriced[Number(line.slice(gapAt + 1))];
      if (request?.usage == null) lines.push(line);
      else {
        const message = { head: line.slice(0, gapAt), web_searches: request.webSearches };
        lines.push(`${messageJson(message, request.usage, 'batch')}}}`);
      }
      if (lines.length < FILLED_LINES) continue;
      written += await writeLines(results, lines, outgoing);
      lines = [];
      state.stopped.throwIfAborted();
    }
    written += await writeLines(results, lines, outgoing);
    await results.close();
    await rename(filledPath, path);
  } catch (error) {
    await results.close();
    await rm(filledPath, { force: true });
    throw error;
  }
  return written;
}

/** Writes the result file. The cache and the ledger are left unchanged, but for the session. */
async function writeFileOfResults(
  writing: Writing,
  session: CacheSession,
  items: readonly BatchItem[],
  bodyPath: string,
  path: string,
): Promise<Written> {
  const { state, batch, billings, unpriced } = writing;
  const endMs = Math.min(batch.ends_at_ms, state.clock.now());
  const draft = await writeDraft(writing, items, bodyPath, path);
  if (unpriced.length === 0) return { ...draft, billings };
  await session.turn();
  await priceAll(writing, session, endMs);
  for (const request of unpriced) {
    if (request.billable && request.usage !== null) billings.push(billingOf(batch, request, request.usage));
  }
  return { counts: draft.counts, billings, bytes: await fillIn(writing, path) };
}

/**
 * Validates, answers and bills all requests of a batch and writes its result file. On the batch it sets only the counts and
 * the path of the results. It holds one window of requests at a time and yields between windows.
 * Throws: when the simulator stops or the disk is full; nothing is billed or cached then, and the file is deleted.
 */
export async function writeResults(state: SimulatorState, batch: Batch, ending: Ending): Promise<void> {
  const { items, body_path: bodyPath } = batch;
  if (items === null || bodyPath === null) throw new Error(`batch ${batch.id} has no body to answer`);
  const path = `${bodyPath}.results`;
  // Taken now: after a reset this batch must be billed in the old ledger.
  const { ledger, cache, seed, settings } = state;
  const session = cache.open();
  const writing: Writing = {
    ...{ state, batch, ending, billings: [], unpriced: [] },
    reader: createPrefixReader(batch.workspace),
    settings: {
      seed,
      defaultScript: { script: settings.default_script, args: settings.default_script_args },
    },
  };
  try {
    const written = await writeFileOfResults(writing, session, items, bodyPath, path);
    // Only now, because a failed attempt is retried and must not be billed or cached twice.
    session.commit();
    for (const billing of written.billings) ledger.bill(billing);
    batch.counts = written.counts;
    batch.results_path = path;
    batch.results_bytes = written.bytes;
  } catch (error) {
    await rm(path, { force: true }).catch(() => undefined);
    throw error;
  } finally {
    session.end();
  }
}
