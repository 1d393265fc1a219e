import {
  admitRuns,
  answerLimit,
  bodyBytesWith,
  decideNoBudget,
  EMPTY_BODY_BYTES,
  hasTools,
  inputTokensToReserve,
  mediaOf,
  modelPrice,
  NO_AMOUNT,
  NO_MARKS,
  parseModelHandle,
  reliableBytesPerToken,
  reserveAmount,
  reserveNanoUsd,
  searchesMax,
  thinkingBudget,
  tokensToReserve,
  UNKNOWN_MEDIA,
  utf8Length,
  type Account,
  type AskingRun,
  type Amount,
  type ApplicableWork,
  type DenseRequest,
  type PriceTable,
} from '@nightshift/agent-core';
import {
  commitReservations,
  commitRunsEnded,
  lockBudgets,
  lockRuns,
  readAskingRuns,
  readTokenCalibrations,
  type AskingRow,
  type CommitReport,
  type SealedRequest,
  type Tx,
} from '@nightshift/db';
import { openEncoder, readRequests, type CachedDefinition, type RequestText } from '@nightshift/intake';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import {
  outputTokensMax,
  type Calibrations,
  type SizedRequest,
} from '../../flow-parts/requests/fit-requests.ts';
import { openPageSizes } from '../../flow-parts/requests/page-sizes.ts';
import { workStatisticsOf } from '../../flow-parts/work-statistics.ts';

/** Requests that are encoded at a time to measure them; fewer if they are long. */
const PAGE_MAX = 100;

/** Result of the reservation for sealed steps with a budget. */
export interface Reserved {
  /** Steps that stay sealed. */
  readonly kept: number;
  /** Steps taken out because their budget has no room, now or ever. */
  readonly taken_out: number;
  /** Steps taken out without a check of their budget: earlier steps fill the body. */
  readonly left: number;
  readonly paused: number;
  readonly report: CommitReport | null;
}

/**
 * Reserves the greatest cost of newly sealed steps with a budget, in the transaction that seals them, and limits their answers.
 * So `spent + reserved ≤ cap` holds with any number of concurrent workers. The cost is measured on the exact bytes of the
 * request, and on the summary request that may replace it. Steps without room are taken out.
 *
 * An answer is limited by the answers to earlier steps of its definition or work class, and a prompt is counted by the samples of
 * its definition. Without enough of them all of `max_tokens` and a token a byte are reserved.
 *
 * Only as many requests are measured as fit one body. Later steps are taken out and their runs stay due. The first is
 * always measured, so that each call makes progress.
 */
export async function reserveBudgets(
  deps: FlowDeps,
  trx: Tx,
  sealed: {
    readonly id: string;
    readonly project_id: string;
    readonly nonce: string;
    readonly budgeted_batch_ids: readonly string[];
    /** Milliseconds since the runs became due. */
    readonly due_for_ms: number;
  },
): Promise<Reserved> {
  const asking = await readAskingRuns(trx, sealed.id, sealed.budgeted_batch_ids);
  const calibrations = await readTokenCalibrations(trx);
  const accounts = new Map<string, Account>(await lockBudgets(trx, sealed.budgeted_batch_ids));
  const reserved: { run_id: string; batch_id: string; amount: Amount; answer_limit: number | null }[] = [];
  const ended = new Map<string, string>();
  const waiting: string[] = [];
  const short = new Set<string>();
  const paused: { batch_id: string; reason: string; needs: Amount }[] = [];
  const sizes = openPageSizes({ db: trx }, sealed.id, (asking.at(-1)?.ordinal ?? 0) + 1);
  let body = { bytes: EMPTY_BODY_BYTES, count: 0 };
  let behind: readonly AskingRow[] = [];
  for (let at = 0; at < asking.length && behind.length === 0;) {
    const from = asking[at]?.ordinal ?? 0;
    const to = from + (await sizes.next(from));
    const page = asking.slice(at, at + PAGE_MAX).filter(({ ordinal }) => ordinal < to);
    at += page.length;
    waiting.push(...page.filter((run) => short.has(run.batch_id)).map((run) => run.run_id));
    const open = page.filter((run) => !short.has(run.batch_id));
    if (open.length === 0) continue;
    const runs: SizedRun[] = [];
    for (const run of await toAskingRuns(deps, trx, sealed, open, calibrations)) {
      const bytes = bodyBytesWith(body, run.bytes);
      if (body.count > 0 && bytes > deps.settings.body_bytes_max) break;
      body = { bytes, count: body.count + 1 };
      runs.push(run);
    }
    if (runs.length < open.length) behind = [...open.slice(runs.length), ...asking.slice(at)];
    const verdict = admitRuns(runs, accounts);
    const batchOf = new Map(open.map((run) => [run.run_id, run.batch_id]));
    const limitOf = new Map(runs.map((run) => [run.run_id, run.answer_limit]));
    for (const { run_id, amount } of verdict.admitted) {
      const batch_id = batchOf.get(run_id) ?? '';
      const account = accounts.get(batch_id);
      if (account !== undefined) accounts.set(batch_id, reserveAmount(account, amount));
      reserved.push({ run_id, batch_id, amount, answer_limit: limitOf.get(run_id) ?? null });
    }
    for (const { run_id, message } of verdict.ended) ended.set(run_id, message);
    for (const run_id of verdict.waiting) {
      waiting.push(run_id);
      short.add(batchOf.get(run_id) ?? '');
    }
    paused.push(...verdict.paused);
  }
  waiting.push(...behind.filter((run) => short.has(run.batch_id)).map((run) => run.run_id));
  const left = behind.filter((run) => !short.has(run.batch_id)).map((run) => run.run_id);
  const turned_away = [...waiting, ...ended.keys()];
  const { project_id, due_for_ms } = sealed;
  await commitReservations(trx, sealed.id, {
    reserved,
    turned_away,
    left: left.length === 0 ? null : { run_ids: left, project_id, due_for_ms },
    short_batch_ids: [...short],
    paused,
  });
  return {
    kept: reserved.length,
    taken_out: turned_away.length,
    left: left.length,
    paused: paused.length,
    report: ended.size === 0 ? null : await endRuns(trx, ended),
  };
}

async function endRuns(trx: Tx, ended: ReadonlyMap<string, string>): Promise<CommitReport> {
  const runs = await lockRuns(trx, [...ended.keys()]);
  const moves = [...runs.values()].map((run) => ({
    run,
    move: decideNoBudget(run, ended.get(run.id) ?? ''),
  }));
  return commitRunsEnded(trx, moves);
}

/** A run that asks for budget, with the size of its request. */
interface SizedRun extends AskingRun {
  readonly bytes: number;
  /** Limit of the answer below `max_tokens`; null: none. */
  readonly answer_limit: number | null;
}

/** Measures the steps in order. A request that cannot be built costs nothing, because it is never sent. */
async function toAskingRuns(
  deps: FlowDeps,
  trx: Tx,
  sealed: { readonly id: string; readonly nonce: string },
  rows: readonly AskingRow[],
  calibrations: Calibrations,
): Promise<readonly SizedRun[]> {
  const { prices } = deps.settings;
  const requests = await readRequestsOf(deps, trx, sealed.id, rows);
  const page = [...requests.values()];
  // Marks are decided when the request is sent; they take no tokens.
  const encode = await openEncoder(deps, trx, sealed.nonce, page, () => NO_MARKS);
  const definitions = await deps.definitions.get(trx, [...new Set(page.map((each) => each.definition_id))]);
  const work = await workStatisticsOf(deps, trx, definitions.values());
  return rows.map((row): SizedRun => {
    const request = requests.get(row.ordinal);
    const limit = row.was_cut_off ? row.max_tokens : limitOf(row, request, definitions, work);
    const size =
      request === undefined
        ? null
        : sizeOf(request, encode, (sized) =>
            outputTokensMax({ ...sized, request: { ...request, max_tokens: limit } }, prices, calibrations),
          );
    const spent = { cost_nanousd: row.spent_nanousd, output_tokens: row.spent_output_tokens };
    const room = (row.cap.output_tokens ?? Infinity) - row.spent_output_tokens;
    const output_tokens = tokensToReserve(limit, size?.output_tokens ?? 0, room);
    return {
      run_id: row.run_id,
      batch_id: row.batch_id,
      cost_nanousd: greatestCostOf(prices, row, size, output_tokens),
      output_tokens,
      account: { cap: row.cap, spent, reserved: NO_AMOUNT },
      bytes: size?.bytes ?? 0,
      answer_limit: limit < row.max_tokens ? limit : null,
    };
  });
}

/** Returns the limit of an answer by the work of its definition. */
function limitOf(
  { max_tokens }: AskingRow,
  request: SealedRequest | undefined,
  definitions: ReadonlyMap<string, CachedDefinition>,
  work: ReadonlyMap<string, ApplicableWork>,
): number {
  const cached = request === undefined ? undefined : definitions.get(request.definition_id);
  if (cached === undefined) return max_tokens;
  const { statistics } = work.get(cached.definition.id) ?? { statistics: null };
  return answerLimit(statistics, {
    max_tokens,
    thinking_tokens: thinkingBudget(cached.definition.model_settings),
  });
}

/** Reads the sealed requests with these ordinals, one range at a time. */
async function readRequestsOf(
  deps: FlowDeps,
  trx: Tx,
  providerBatchId: string,
  rows: readonly { readonly ordinal: number }[],
): Promise<ReadonlyMap<number, SealedRequest>> {
  const requests = new Map<number, SealedRequest>();
  for (let at = 0; at < rows.length;) {
    const from = rows[at]?.ordinal ?? 0;
    let to = from;
    while (rows[at]?.ordinal === to) {
      at++;
      to++;
    }
    for (const request of await readRequests(deps, trx, providerBatchId, from, to)) {
      requests.set(request.ordinal, request);
    }
  }
  return requests;
}

/** Measures of a request, and its maximum output tokens. */
interface AskingSize extends Omit<DenseRequest, 'window_tokens'> {
  readonly output_tokens: number;
  /** Most searches of its server tools. */
  readonly searches: number;
}

/** Measures a request; null if it cannot be built. */
function sizeOf(
  request: SealedRequest,
  encode: (request: SealedRequest) => RequestText,
  outputOf: (sized: SizedRequest) => number,
): AskingSize | null {
  let text: RequestText;
  try {
    text = encode(request);
  } catch {
    return null;
  }
  const { parts, images, made_by } = text;
  const { definition, toolPolicy } = made_by;
  const bytes = parts.reduce((sum, part) => sum + utf8Length(part), 0);
  const chars = parts.reduce((sum, part) => sum + part.length, 0);
  // A character outside ASCII has at most twice as many bytes as it has more than UTF-16 units.
  const dense_bytes = 2 * (bytes - chars);
  const has_tools = hasTools(definition);
  const output_tokens = outputOf({ request, definition, model_name: toolPolicy.model_name, bytes, images });
  const searches = request.is_summary ? 0 : searchesMax(definition.server_tools);
  const size = { bytes, dense_bytes, has_tools, output_tokens, searches };
  try {
    return { ...size, media: mediaOf(request.messages_json) };
  } catch {
    return { ...size, media: UNKNOWN_MEDIA };
  }
}

/** Returns the greatest cost; null for a model without a price. */
function greatestCostOf(
  prices: PriceTable,
  row: AskingRow,
  size: AskingSize | null,
  outputTokens: number,
): number | null {
  const name = parseModelHandle(row.model)?.name ?? row.model;
  if (modelPrice(prices, name) === null) return null;
  if (size === null) return 0;
  const measured = { ...size, window_tokens: row.context_window_limit };
  const least = reliableBytesPerToken(row.density);
  const inputTokens = inputTokensToReserve(prices, name, measured, least);
  return reserveNanoUsd(prices, name, inputTokens, outputTokens, size.searches);
}
