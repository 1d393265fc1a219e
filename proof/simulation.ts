/** Runs one seed from its first request to the end of all work. */
import type { FlowDeps, FlowSettings } from '../apps/worker/src/flow-parts/deps.ts';
import { auditInvariants } from '../libs/db/src/index.ts';
import { clearFiles, replaceGlobals } from './replace-globals.ts';
import { createClocks } from './clocks.ts';
import type { ProofDatabase } from './database.ts';
import { createRandomStriker, drawRates, type FaultCounts, type FaultRates } from './faults.ts';
import { findViolations, type Violation } from './invariants.ts';
import {
  findLostAnswers,
  findLostCallbacks,
  findMemoryFaults,
  findOrphans,
  findStrays,
  findUnbooked,
} from './oracles.ts';
import { findNightFaults, lastNights, NO_NIGHTS, type Nights } from './nights.ts';
import { createProvider } from './provider.ts';
import { createLedger } from './provider-ledger.ts';
import { drawTemper, type Temper } from './provider-temper.ts';
import { createRandom, type Random } from './random.ts';
import type { Rewrite, SqlConnection } from './sim-pool.ts';
import { startWorkers } from './workers.ts';
import { createToolWorld } from './tools.ts';
import { startUsers } from './users.ts';
import { drawLooks, drawSizes, SETTINGS } from './worker.ts';
import { drawWorkload, type Workload } from './workload.ts';
import { createWorld, type Striker } from './world.ts';

export interface SimulationOptions {
  readonly seed: number;
  /** Number of effects with faults, before the world heals. Default: drawn per seed. */
  readonly faultyEvents?: number;
  /** Number of effects between two looks at the invariants. Default: 200. */
  readonly auditEvery?: number;
  /** Replaces the random faults. */
  readonly striker?: (world: { readonly isFaulty: () => boolean }) => Striker;
  readonly rates?: FaultRates;
  readonly temper?: Temper;
  readonly workload?: (random: Random) => Workload;
  /** Share of tool calls that fail before the world heals. */
  readonly failingTools?: number;
  /** Share of tool calls whose reply takes a while. */
  readonly slowTools?: number;
  readonly settings?: Partial<FlowSettings>;
  readonly sabotage?: {
    readonly rewrite?: Rewrite;
    readonly deps?: (deps: FlowDeps) => FlowDeps;
    readonly settings?: Partial<FlowSettings>;
  };
  /** Starts from a database that is equal to the byte, so that traces are equal. */
  readonly exactly?: boolean;
  /** Goes on after the first violation. */
  readonly keepGoing?: boolean;
  /** Whether the seed has shown what was asked: it then ends without a judgement. */
  readonly isEnough?: () => boolean;
}

export interface SimulationResult {
  readonly seed: number;
  readonly violations: readonly Violation[];
  readonly trace: readonly string[];
  readonly traceHash: string;
  readonly events: number;
  readonly virtualMs: number;
  readonly faults: FaultCounts;
  readonly ledger: {
    readonly posts: number;
    readonly accepted: number;
    readonly billed: number;
    readonly excused: number;
  };
}

const STARTS_AT = Date.UTC(2026, 0, 1);
/** Numbers of effects with faults. A seed's first tool call comes after 1,200 to 2,900. */
const FAULTY_EVENTS = [600, 600, 4_000];
const AUDIT_EVERY = 200;
/**
 * Milliseconds that a withdrawal may wait beyond its quarantine.
 * A worker's clock may be ten minutes ahead when it stores the send, and the provider's may be set back by
 * three more.
 */
const CLOCK_ERROR_MS_MAX = 13 * 60_000;
/** Limits for all work once the world is well. */
const EVENTS_AFTER_HEALING = 12_000;
const VIRTUAL_MS_AFTER_HEALING = 15 * 60_000 + CLOCK_ERROR_MS_MAX;
/** Milliseconds for booking a late batch, its end included. */
const HUNTED_WITHIN_MS = 5 * 60_000;
/** A longer step of time means that nothing was left to do at once. */
const LEAP_MS = 150;
/** Interval of the check for open work, because some flows change rows without reporting work. */
const ASK_MS = 60_000;
/** Nights at the end of a seed with nights. */
const LAST_NIGHTS = 2;

/** Runs one seed. Equal seeds, options and databases give equal traces. */
export async function simulate(
  database: ProofDatabase,
  options: SimulationOptions,
): Promise<SimulationResult> {
  replaceGlobals();
  clearFiles();
  const { connection } = database;
  const seed = `seed ${options.seed}`;
  const random = createRandom(seed);
  const world = createWorld(random.fork('schedule'), STARTS_AT);
  const violations: Violation[] = [];
  const violation = (name: string, detail: string): void => {
    world.note(`VIOLATION ${name}: ${detail}`);
    violations.push({ name, detail });
  };
  const report = (found: readonly Violation[]): void => {
    for (const { name, detail } of found) violation(name, detail);
  };
  const faults: FaultCounts = { kill: 0, pause: 0, fail: 0, slow: 0 };
  const faultyEvents = options.faultyEvents ?? random.fork('trouble').pick(FAULTY_EVENTS);
  const at: { healed: number | null; mayBeDone: boolean; slept: number; waitsSince: number | null } = {
    healed: null,
    mayBeDone: false,
    slept: 0,
    waitsSince: null,
  };
  const isFaulty = (): boolean => at.healed === null;

  const lagMaxMs = SETTINGS.reconcile.quarantine_ms - SETTINGS.create_timeout_ms;
  const temper = options.temper ?? drawTemper(random.fork('temper'), lagMaxMs);
  const ledger = createLedger();
  const clocks = createClocks(world, random.fork('clocks'), temper.clocks, SETTINGS.reconcile.quarantine_ms);
  const provider = createProvider(world, random.fork('provider'), seed, temper, ledger, clocks);
  const failing = options.failingTools ?? (random.fork('failing').chance(0.5) ? 0.1 : 0);
  const slow = options.slowTools ?? (random.fork('slow').chance(0.4) ? 0.3 : 0);
  const tools = createToolWorld(random.fork('tools'), failing, slow);
  const workload = (options.workload ?? drawWorkload)(random.fork('workload'));
  /** The nights so far: those of the workload, then the last ones. */
  const nights: Nights[] = [workload.nights ?? NO_NIGHTS];

  connection.setClock(clocks.databaseNow);
  connection.setRewrite(options.sabotage?.rewrite ?? null);
  await database.reset(options.exactly ?? false);
  const workers = startWorkers(world, {
    connection,
    provider,
    tools,
    settings: {
      ...SETTINGS,
      ...(options.striker === undefined ? drawSizes(random.fork('sizes')) : {}),
      ...(options.striker === undefined ? drawLooks(random.fork('looks')) : {}),
      workspace_is_ours: temper.foreignBatches === 0,
      ...options.settings,
      ...options.sabotage?.settings,
    },
    seed,
    random: random.fork('staff'),
    isFaulty,
    violation,
    worked: () => {
      at.mayBeDone = true;
    },
    ...(options.sabotage?.deps === undefined ? {} : { sabotage: options.sabotage.deps }),
  });
  const users = await startUsers(world, database.db, workload, random.fork('user'), {
    ring: (kind) => workers.deliver(kind),
    resumed: (runIds) => ledger.resumed(runIds),
  });
  const rates = options.rates ?? drawRates(random.fork('rates'));
  world.setStriker(
    options.striker?.({ isFaulty }) ?? createRandomStriker(random.fork('faults'), rates, isFaulty, faults),
  );
  if (options.striker === undefined) workers.disturbAtRandom();

  const audit = async (atTheEnd: boolean): Promise<void> => {
    report(await findViolations(connection, atTheEnd));
    report(ledger.violations());
    report(tools.violations());
  };
  const heal = (): void => {
    at.healed = world.now();
    world.note('* all is well from here on');
    provider.heal();
    tools.heal();
  };
  /**
   * Tells whether the seed is over. Before a late create, all processes sleep until it arrives and must be
   * found.
   */
  const isOver = async (): Promise<boolean> => {
    const next = provider.nextLateAt();
    if (next !== null) {
      at.slept += Math.max(0, next - world.now());
      world.sleepUntil(next);
      at.waitsSince = null;
      return false;
    }
    at.waitsSince ??= world.now();
    const isLost = world.now() - at.waitsSince > HUNTED_WITHIN_MS;
    return isLost || (await findOrphans(connection, provider)).length === 0;
  };
  /** Describes work that is overdue after healing, or returns null. */
  const overdue = (): string | null => {
    if (at.healed === null) return null;
    const tookMs = world.now() - at.healed - at.slept;
    const isOverdue =
      tookMs > VIRTUAL_MS_AFTER_HEALING || world.events() > faultyEvents + EVENTS_AFTER_HEALING;
    return isOverdue ? `after ${world.events()} effects, ${tookMs} ms after all was well` : null;
  };
  const mayGoOn = (): boolean =>
    (violations.length === 0 || options.keepGoing === true) && options.isEnough?.() !== true;
  const run = async (): Promise<void> => {
    let audited = 0;
    let before = world.now();
    let asked = before;
    while (mayGoOn()) {
      if (!(await world.step())) {
        violation('nothing_left_to_do', 'nothing can happen, and work is open');
        return;
      }
      if (at.healed === null && world.events() >= faultyEvents) heal();
      if (world.events() - audited >= (options.auditEvery ?? AUDIT_EVERY)) {
        audited = world.events();
        await audit(false);
      }
      const isLeap = world.now() - before > LEAP_MS;
      if (isLeap && (at.mayBeDone || world.now() - asked > ASK_MS)) {
        at.mayBeDone = false;
        asked = world.now();
        if (users.openBatches() === 0 && !(await hasOpenWork(connection)) && (await isOver())) {
          if (
            nights.length > LAST_NIGHTS ||
            workload.nights === undefined ||
            workload.nights.nights.length === 0
          )
            return;
          if (at.healed === null) heal();
          // All that is left is read by a night without faults; a second shows that nothing is read twice.
          const last = lastNights(workload.nights, workload.agents, nights.length);
          nights.push(last);
          users.submitNights(last);
        }
      }
      before = world.now();
      const late = overdue();
      if (late !== null) {
        violation('not_finished', `${late}: ${await describeOpenWork(connection)}`);
        return;
      }
    }
  };
  const judge = async (): Promise<void> => {
    await audit(true);
    report(await findLostAnswers(connection, ledger));
    report(await findUnbooked(connection, ledger));
    const lost = world.trace.filter((line) => / ! pause | is dead$/.test(line)).length;
    report(await findStrays(connection, workload, ledger, lost));
    report(await findMemoryFaults(connection, workload.batches));
    if (nights.length > 1) report(await findNightFaults(connection, nights));
    report(await findOrphans(connection, provider));
    report(await findLostCallbacks(connection, workers.received));
    // The auditor is slow and repeats other checks, so it runs for every third seed and every struck point.
    if (options.seed % 3 !== 0 && options.striker === undefined) return;
    const found = await auditInvariants(database.db);
    report(found.map(({ id, name, row }) => ({ name: id, detail: `${name}: ${JSON.stringify(row)}` })));
  };

  const onRejection = (error: unknown): void => violation('unhandled_rejection', String(error));
  process.on('unhandledRejection', onRejection);
  try {
    await run();
    if (mayGoOn()) await judge();
  } catch (error) {
    violation('simulator_failed', error instanceof Error ? (error.stack ?? error.message) : String(error));
    await connection.query('rollback');
  } finally {
    workers.endAll();
    await world.settle();
    process.off('unhandledRejection', onRejection);
    connection.setClock(null);
  }
  return {
    seed: options.seed,
    violations,
    trace: world.trace,
    traceHash: world.traceHash(),
    events: world.events(),
    virtualMs: world.now() - STARTS_AT,
    faults,
    ledger: ledger.counts,
  };
}

/**
 * A callback is due within ten minutes: the first three tries are within minutes, the fourth after half an
 * hour.
 */
const OWES_CALLBACK = `callback_url is not null and callback_sent_at is null and next_due_at < app_now() + interval '10 minutes'`;

async function hasOpenWork(connection: SqlConnection): Promise<boolean> {
  const { rows } = await connection.query(
    `select exists (select from batch where completed_at is null or (${OWES_CALLBACK}))
         or exists (select from callback_event where next_due_at < app_now() + interval '10 minutes')
         or exists (select from run_chunk)
         or exists (select from provider_batch where state not in ('ingested', 'rejected', 'orphan_paid')) as open`,
  );
  return (rows[0] as { open: boolean }).open;
}

/** Describes the open work in words. */
async function describeOpenWork(connection: SqlConnection): Promise<string> {
  const { rows } = await connection.query(`
    select 'batch ' || b.state || ', runs ' || coalesce((select string_agg(distinct r.state, '+') from run r where r.batch_id = b.id), 'none')
           || due as what
      from batch b, lateral (select coalesce(', due ' || (b.next_due_at - app_now()), '') || coalesce(', held by ' || b.lease_owner, '') as due) d
     where b.completed_at is null or (${OWES_CALLBACK})
    union all
    select 'event ' || id || ', due ' || (next_due_at - app_now()) from callback_event where next_due_at is not null
    union all
    select 'provider batch ' || state || coalesce(', due ' || (next_due_at - app_now()), '') || coalesce(', held by ' || lease_owner, '')
           || coalesce(', ' || error::text, '') from provider_batch where state not in ('ingested', 'rejected', 'orphan_paid')
    union all
    select 'chunk ' || kind || ', due ' || (next_due_at - app_now()) || coalesce(', held by ' || lease_owner, '') from run_chunk
    union all
    select 'credential ' || coalesce(pause_reason, 'free') || coalesce(', held by ' || lease_owner, '') from credential`);
  return (rows as { what: string }[]).map(({ what }) => what).join('; ');
}
