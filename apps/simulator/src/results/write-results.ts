import { open, rm } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { answerRequest } from '../answer.ts';
import type { AnswerSettings } from '../answer.ts';
import type { Batch, BatchItem, Fate, RequestCounts } from '../batch.ts';
import { contentHashOf, idFrom, shuffledIndexes } from '../draws.ts';
import { verdictOn } from '../fates.ts';
import type { Ending } from '../fates.ts';
import type { Billing } from '../ledger.ts';
import type { SimulatorState } from '../state.ts';
import type { Directive } from '../scripts/directive.ts';
import type { MessageParams } from '../scripts/script.ts';
import { listPriceUsd } from '../usage.ts';
import { paramsIssue } from '../validate/params.ts';

/** Price of a batch as a fraction of the list price. */
const BATCH_PRICE = 0.5;
/** Requests of one window; windows keep the memory independent of the batch size. */
const WINDOW_ITEMS = 128;
const OUTGOING_BYTES = 512 * 1024;
const WINDOW_BYTES = 4 * 1024 * 1024;

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

/** Ends one request with its result line, fate and cost. An error here affects only this request. */
function settleItem(
  state: SimulatorState,
  billings: Billing[],
  settings: AnswerSettings,
  batch: Batch,
  ending: Ending,
  customId: string,
  bytes: Buffer,
): Settled {
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
    return answerItem(billings, settings, batch, { customId, contentHash, bytes, script: verdict.script });
  } catch (error) {
    process.stderr.write(
      `simulator: request ${customId} failed: ${(error as Error).stack ?? String(error)}\n`,
    );
    return { line: errorLine(seed, customId, 'api_error', 'Internal server error'), fate: 'errored' };
  }
}

function answerItem(
  billings: Billing[],
  settings: AnswerSettings,
  batch: Batch,
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
  const answer = answerRequest(
    {
      params: params as MessageParams,
      paramsBytes: bytes.length,
      contentHash,
      identity: customId,
      serviceTier: 'batch',
      script,
    },
    settings,
  );
  if (answer.kind === 'error')
    return { line: errorLine(seed, customId, answer.type, answer.message), fate: 'errored' };
  if (answer.billable) {
    const usd = listPriceUsd(answer.model, answer.usage) * BATCH_PRICE;
    billings.push({ batch, customId, contentHash, usage: answer.usage, usd });
  }
  return {
    line: `{"custom_id":"${customId}","result":{"type":"succeeded","message":${answer.json}}}`,
    fate: 'succeeded',
  };
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

/** Answers the requests in `bodyPath` and writes their lines to `path`. Bills nothing. */
async function writeFileOfResults(
  state: SimulatorState,
  batch: Batch,
  ending: Ending,
  items: readonly BatchItem[],
  bodyPath: string,
  path: string,
): Promise<Written> {
  const settings: AnswerSettings = {
    seed: state.seed,
    cacheHitFraction: state.settings.cache_hit,
    defaultScript: { script: state.settings.default_script, args: state.settings.default_script_args },
  };
  const counts = { processing: 0, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
  const windows = windowsOf(items);
  const billings: Billing[] = [];
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
        const { line, fate } = settleItem(state, billings, settings, batch, ending, customId, own);
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
  return { counts, billings, bytes: written };
}

/**
 * Validates, answers and bills all requests of a batch and writes its result file. On the batch it sets only the counts and
 * the path of the results. It holds one window of requests at a time and yields between windows.
 * Throws: when the simulator stops or the disk is full; nothing is billed then, and the file is deleted.
 */
export async function writeResults(state: SimulatorState, batch: Batch, ending: Ending): Promise<void> {
  const { items, body_path: bodyPath } = batch;
  if (items === null || bodyPath === null) throw new Error(`batch ${batch.id} has no body to answer`);
  const path = `${bodyPath}.results`;
  // Taken now: after a reset this batch must be billed in the old ledger.
  const { ledger } = state;
  let written: Written;
  try {
    written = await writeFileOfResults(state, batch, ending, items, bodyPath, path);
  } catch (error) {
    await rm(path, { force: true }).catch(() => undefined);
    throw error;
  }
  // Only now, because a failed attempt is retried and must not be billed twice.
  for (const billing of written.billings) ledger.bill(billing);
  batch.counts = written.counts;
  batch.results_path = path;
  batch.results_bytes = written.bytes;
}
