/** Simulates a message-batch provider in memory, on virtual time. */
import { fromCustomId } from '../libs/agent-core/src/index.ts';
import type {
  CreateOutcome,
  ListOutcome,
  RemoteBatch,
  RetrieveOutcome,
  Unavailable,
} from '../apps/worker/src/provider/port.ts';
import type { Clocks } from './clocks.ts';
import { answerOf, promptOf, transcriptFault, type Params, type Prompt } from './model.ts';
import type { Ledger, Trouble } from './provider-ledger.ts';
import { CALM, type Temper } from './provider-temper.ts';
import { drawOf, type Random } from './random.ts';
import type { World } from './world.ts';

type Fate = 'succeeded' | Extract<Trouble, 'errored' | 'expired' | 'canceled' | 'permanent' | 'too_long'>;

export interface Item {
  readonly custom_id: string;
  readonly params: Params;
  fate: Fate | null;
}

export interface StoredBatch {
  readonly id: string;
  /** Creation time on the provider's clock. */
  readonly createdAt: number;
  readonly listedAt: number;
  readonly foundAt: number;
  readonly foreign: boolean;
  /** Created after the timeout of its create: its steps may have been sent again. */
  readonly late: boolean;
  readonly items: readonly Item[];
  endsAt: number;
  endedAt: number | null;
  cancelAskedAt: number | null;
  /** Whether it is cancelled at the console. */
  readonly console: boolean;
  forgotten: boolean;
  /** Number of passes over its results. */
  passes: number;
  /** Its last results had no line, so its owner is unknown. */
  hasNoLines: boolean;
}

export interface Provider {
  readonly ledger: Ledger;
  readonly batches: ReadonlyMap<string, StoredBatch>;
  readonly clocks: Clocks;
  /** Arrival of the next late create; null when there is none. */
  nextLateAt(): number | null;
  temper(): Temper;
  /** Ends all faults and lets open batches end soon. */
  heal(): void;
  create(body: Buffer, timeoutMs: number): { readonly value: CreateOutcome; readonly afterMs: number };
  list(createdAfter: Date): ListOutcome;
  retrieve(id: string): RetrieveOutcome;
  cancel(id: string): RetrieveOutcome;
  /** Returns the batch, unless the provider hides or has lost it. */
  look(id: string): StoredBatch | Unavailable | null;
}

/** A word in a script that makes the provider refuse the whole create. */
export const POISON = 'poison';

const EXPIRES_MS = 24 * 3_600_000;
/** Delays of late creates: beyond any quarantine, up to hours. */
const LATE_MS_MIN = 30_000;
const LATE_MS = [30_000, 600_000, 3 * 3_600_000];

/** Creates a provider. `seed` fixes the fate of each request, independent of its sender and its time. */
export function createProvider(
  world: World,
  random: Random,
  seed: string,
  firstTemper: Temper,
  ledger: Ledger,
  clocks: Clocks,
): Provider {
  let temper = firstTemper;
  const batches = new Map<string, StoredBatch>();
  /** Requests by id: a repeated request must be the same. */
  const shown = new Map<string, string>();

  /** The latest request of each run. */
  const grown = new Map<string, Prompt & { readonly place: number }>();
  /** Checks that a request begins with the run's request before it, unless a summary was asked for in between. */
  const checkGrowth = (customId: string, prompt: Prompt): void => {
    const key = fromCustomId(customId)?.key;
    if (key === undefined) return;
    const place = key.number * 1_000 + key.attempt;
    const before = grown.get(key.run_id);
    if (before !== undefined && before.place >= place) return;
    grown.set(key.run_id, { ...prompt, place });
    if (before === undefined || before.is_summary || prompt.is_summary) return;
    if (before.frame !== prompt.frame) ledger.note('prompt_changed', customId);
    else if (!prompt.messages.startsWith(before.messages)) ledger.note('messages_changed', customId);
  };

  /** Arrival times of late creates. */
  const held = new Set<number>();
  const lateness = random.fork('late');

  const store = (items: readonly Item[], foreign: boolean, latencyMs: number, late = false): StoredBatch => {
    const id = `msgbatch_${String(batches.size).padStart(4, '0')}`;
    const never = random.chance(temper.neverEnds);
    const batch: StoredBatch = {
      id,
      createdAt: clocks.providerNow(),
      listedAt: world.now() + random.int(0, temper.listLagMs),
      foundAt: world.now() + random.int(0, temper.notFoundMs),
      foreign,
      late,
      items,
      endsAt: never ? Number.POSITIVE_INFINITY : world.now() + latencyMs,
      endedAt: null,
      cancelAskedAt: null,
      // A stream of its own, so that other draws stay the same.
      console: !foreign && random.fork(`console ${id}`).chance(temper.console),
      forgotten: !foreign && random.chance(temper.forget),
      passes: 0,
      hasNoLines: false,
    };
    batches.set(id, batch);
    if (batch.console) batch.endsAt = Math.min(batch.endsAt, world.now() + 5_000);
    if (batch.forgotten) for (const item of items) ledger.trouble(item.custom_id, 'forgotten');
    return batch;
  };
  const latency = (): number => random.int(500, 20_000) * (random.chance(temper.late) ? 8 : 1);

  const fateOf = (item: Item): Fate => {
    const draw = drawOf(`${seed}/${item.custom_id}`);
    const { errored, expired, permanent, tooLong } = temper.fates;
    if (draw < errored) return 'errored';
    if (draw < errored + expired) return 'expired';
    if (draw < errored + expired + permanent) return 'permanent';
    return drawOf(`${seed}/too long/${item.custom_id}`) < tooLong ? 'too_long' : 'succeeded';
  };
  /** Ends a batch whose time has come. */
  const age = (batch: StoredBatch): StoredBatch => {
    if (batch.endedAt !== null || world.now() < batch.endsAt) return batch;
    batch.endedAt = batch.endsAt;
    for (const item of batch.items) {
      const isStopped = batch.cancelAskedAt !== null || batch.console;
      const cancelled = isStopped && drawOf(`${seed}/cancel/${item.custom_id}`) < 0.6;
      // A late or hidden batch tells nothing, so its steps are rightly sent again.
      if (cancelled && batch.cancelAskedAt === null && !batch.late && !batch.forgotten)
        ledger.cancelledAtConsole(item.custom_id, batch.id);
      item.fate = cancelled ? 'canceled' : batch.foreign ? 'errored' : fateOf(item);
      if (item.fate === 'succeeded') {
        ledger.billed(item.custom_id, batch.id, 0);
        // A cut-off call is no answer: its step is rightly sent again with more tokens.
        if (answerOf(item.params, '').cut) ledger.excuse(item.custom_id, batch.id, 'cut off');
        if (batch.late) ledger.excuse(item.custom_id, batch.id, 'late');
      } else ledger.trouble(item.custom_id, item.fate);
    }
    return batch;
  };
  const show = (batch: StoredBatch): RemoteBatch => {
    const ended = batch.endedAt !== null;
    const count = (...fates: Fate[]): number =>
      ended ? batch.items.filter((item) => item.fate !== null && fates.includes(item.fate)).length : 0;
    return {
      provider_id: batch.id,
      processing_status: ended ? 'ended' : batch.cancelAskedAt !== null ? 'canceling' : 'in_progress',
      counts: {
        processing: ended ? 0 : batch.items.length,
        succeeded: count('succeeded'),
        errored: count('errored', 'permanent', 'too_long'),
        canceled: count('canceled'),
        expired: count('expired'),
      },
      request_count: batch.items.length,
      created_at: new Date(batch.createdAt),
      expires_at: new Date(batch.createdAt + EXPIRES_MS),
      ended_at: batch.endedAt === null ? null : new Date(clocks.providerNow()),
      archived_at: null,
      has_results: ended,
    };
  };
  const unavailable = (): Unavailable | null =>
    random.chance(temper.unavailable)
      ? { outcome: 'unavailable', reason: 'HTTP 529: Overloaded', status: 529, retry_after_ms: null }
      : null;
  const look = (id: string): StoredBatch | Unavailable | null => {
    const outage = unavailable();
    if (outage !== null) return outage;
    const batch = batches.get(id);
    if (batch === undefined || batch.forgotten || world.now() < batch.foundAt) return null;
    return age(batch);
  };
  const retrieve = (id: string): RetrieveOutcome => {
    const batch = look(id);
    if (batch === null) return { outcome: 'not_found' };
    return 'outcome' in batch ? batch : { outcome: 'found', batch: show(batch) };
  };

  return {
    ledger,
    batches,
    clocks,
    nextLateAt: () => (held.size === 0 ? null : Math.min(...held)),
    temper: () => temper,
    heal() {
      temper = CALM;
      clocks.heal();
      for (const batch of batches.values()) {
        if (batch.endedAt === null) batch.endsAt = Math.min(batch.endsAt, world.now() + 20_000);
      }
    },
    create(body, timeoutMs) {
      const { requests } = JSON.parse(body.toString()) as { requests: Item[] };
      const items = requests.map(({ custom_id, params }): Item => ({ custom_id, params, fate: null }));
      const nonces = [...new Set(items.map((item) => fromCustomId(item.custom_id)?.nonce ?? ''))];
      const nonce = nonces[0] ?? '';
      if (nonces.length !== 1) ledger.note('mixed_nonces', nonces.join());
      if (new Set(items.map((item) => item.custom_id)).size !== items.length)
        ledger.note('custom_id_twice', `in one create of ${items.length}`);
      for (const item of items) {
        ledger.sent(item.custom_id);
        const prompt = promptOf(item.params);
        const params = JSON.stringify([prompt, item.params.max_tokens, item.params.tool_choice]);
        if ((shown.get(item.custom_id) ?? params) !== params) ledger.note('request_changed', item.custom_id);
        shown.set(item.custom_id, params);
        checkGrowth(item.custom_id, prompt);
        const fault = transcriptFault(item.params);
        if (fault !== null) ledger.note('broken_transcript', `${item.custom_id}: ${fault}`);
      }
      const refuse = (
        what: Extract<CreateOutcome, { outcome: 'refused' }>['what'],
        status: number,
      ): { readonly value: CreateOutcome; readonly afterMs: number } => {
        ledger.posted(nonce, 'refused');
        const retry_after_ms = status === 429 ? random.int(0, 10_000) : null;
        return {
          value: { outcome: 'refused', what, status, message: `HTTP ${status}`, retry_after_ms },
          afterMs: 5,
        };
      };
      const lost = (
        reason: string,
        afterMs: number,
      ): { readonly value: CreateOutcome; readonly afterMs: number } => ({
        value: { outcome: 'unknown', reason, status: null },
        afterMs,
      });

      if (body.toString().includes(POISON)) {
        const [alone, ...others] = items;
        if (alone !== undefined && others.length === 0) ledger.trouble(alone.custom_id, 'refused');
        return refuse('bad_request', 400);
      }
      const faults = temper.create;
      clocks.mayJump(timeoutMs);
      if (random.chance(faults.refuse)) {
        const [what, status] = random.pick([
          ['rate_limited', 429],
          ['overloaded', 529],
          ['unauthorized', 401],
          ['too_large', 413],
        ] as const);
        if (what !== 'too_large' || items.length > 1) return refuse(what, status);
      }
      if (random.chance(faults.dropBefore)) {
        ledger.posted(nonce, 'dropped');
        return lost('ECONNRESET', random.int(0, timeoutMs));
      }
      ledger.posted(nonce, 'accepted');
      if (lateness.chance(faults.late)) {
        const afterMs = LATE_MS_MIN + lateness.int(0, lateness.pick(LATE_MS));
        const arrivesAt = world.now() + afterMs;
        held.add(arrivesAt);
        world.at(afterMs, `create of ${nonce} arrives late`, () => {
          held.delete(arrivesAt);
          const batch = store(items, false, latency(), true);
          world.note(`= provider accepts ${batch.id} with ${items.length} of ${nonce}, late`);
        });
        return lost('HTTP 504', lateness.int(1, timeoutMs));
      }
      const batch = store(items, false, latency());
      world.note(`= provider accepts ${batch.id} with ${items.length} of ${nonce}`);
      if (random.chance(temper.foreignBatches)) {
        const foreign = items.map((_, index): Item => ({
          custom_id: `other-${batches.size}-${index}`,
          params: { max_tokens: 1, messages: [] },
          fate: null,
        }));
        store(foreign, true, latency());
      }
      if (random.chance(faults.commitThenDrop))
        return lost('ECONNRESET after the body', random.int(0, timeoutMs));
      if (random.chance(faults.hang)) return lost('timeout', timeoutMs);
      const afterMs = random.chance(faults.slow) ? random.int(0, timeoutMs) : random.int(1, 50);
      return { value: { outcome: 'created', batch: show(batch) }, afterMs };
    },
    list(createdAfter) {
      const outage = unavailable();
      const now = clocks.dateHeader() === null ? null : new Date(clocks.providerNow());
      if (outage !== null) return { batches: [], complete: false, unavailable: outage, now };
      const shown = [...batches.values()].filter(
        (batch) =>
          batch.createdAt >= createdAfter.getTime() && batch.listedAt <= world.now() && !batch.forgotten,
      );
      return {
        batches: shown.map((batch) => show(age(batch))).reverse(),
        complete: true,
        unavailable: null,
        now,
      };
    },
    retrieve,
    cancel(id) {
      const batch = look(id);
      if (batch === null) return { outcome: 'not_found' };
      if ('outcome' in batch) return batch;
      if (batch.endedAt === null && batch.cancelAskedAt === null) {
        batch.cancelAskedAt = world.now();
        batch.endsAt = Math.min(batch.endsAt, world.now() + random.int(0, 5_000));
      }
      return { outcome: 'found', batch: show(batch) };
    },
    look,
  };
}
