/**
 * Removes the safety code piece by piece. A mutant changes the flows' dependencies (a statement, a port, a policy) and never
 * the code itself. A check named beforehand must catch each: a proof that catches no fault proves nothing.
 */
import type { FlowDeps, FlowSettings } from '../apps/worker/src/flow-parts/deps.ts';
import type { Random } from './random.ts';
import type { ScheduleSimulationOptions } from './schedules.ts';
import type { SimulationOptions } from './simulation.ts';
import type { Rewrite } from './sim-pool.ts';
import { AGREEING } from './clocks.ts';
import { CALM, type Temper } from './provider-temper.ts';
import { LEASE_MS, SETTINGS } from './worker.ts';
import { drawNights, NO_NIGHTS, type Nights } from './nights.ts';
import { drawWorkload, withoutPoison, type Workload } from './workload.ts';

export interface Mutant {
  readonly name: string;
  /** The removed safety code. */
  readonly without: string;
  /** Creates the sabotage; `hit` is called whenever it takes effect. */
  readonly make: (hit: () => void) => NonNullable<SimulationOptions['sabotage']>;
  /** For a guard of schedules: the sabotage of their simulation, in place of `make`. */
  readonly schedules?: (hit: () => void) => NonNullable<ScheduleSimulationOptions['sabotage']>;
  /** Checks that may catch it. */
  readonly caughtBy: readonly string[];
  /** A world in which the mutant shows soon. */
  readonly world?: Partial<SimulationOptions>;
  /**
   * For a guard behind other guards: removes these, in the mutant's world too. With this alone, no check of `caughtBy` may
   * fail.
   */
  readonly others?: (hit: () => void) => Rewrite;
}

/** Seeds within which a mutant must be caught. */
export const SEEDS_MAX = 60;

const HARSH: Temper = {
  ...CALM,
  create: { refuse: 0.05, dropBefore: 0.2, commitThenDrop: 0.4, hang: 0.1, slow: 0.5, late: 0 },
  listLagMs: 14_000,
};
const ZOMBIES: Partial<SimulationOptions> = {
  rates: { kill: 0.004, pause: 0.03, fail: 0.004, slow: 0.02 },
  faultyEvents: 1_200,
};
const KILLS: Partial<SimulationOptions> = {
  rates: { kill: 0.03, pause: 0, fail: 0.01, slow: 0 },
  faultyEvents: 1_200,
};
/** Half of the calls are slow, so that chunks are committed in parts, and hosts are away now and then. */
const SLOW_CALLS: Partial<SimulationOptions> = {
  ...KILLS,
  ...{ temper: CALM, slowTools: 0.5, settings: { chunk_lines: 4 } },
};
/** The database's clock jumps during creates, and lists lag. */
const JUMPS: Temper = {
  ...CALM,
  create: { ...CALM.create, slow: 0.8, dropBefore: 0.1 },
  listLagMs: 14_000,
  clocks: { ...AGREEING, databaseJumps: 0.6 },
};
/**
 * Every third sender pauses right before its POST, until its submission has been withdrawn and sent again. The lease of a
 * create, the quarantine and two searches take 48 seconds. Random pauses of this length rarely hit this point.
 */
const STALLED: Partial<SimulationOptions> = {
  striker: ({ isFaulty }) => {
    let passes = 0;
    return ({ label }) => {
      if (label !== 'submit.before_post' || !isFaulty() || passes++ % 3 !== 0) return null;
      return { kind: 'pause', ms: 12 * LEASE_MS, performed: false };
    };
  },
};
const PAID: readonly string[] = ['paid_twice', 'orphaned_batch', 'nonce_sent_twice'];

/** Rewrites every statement that matches `pattern`. */
function rewriting(pattern: RegExp, replacement: string): Mutant['make'] {
  return (hit) => ({ rewrite: rewriteOf(pattern, replacement)(hit) });
}

function rewriteOf(pattern: RegExp, replacement: string): (hit: () => void) => Rewrite {
  return (hit) => (text) => {
    const changed = text.replace(pattern, replacement);
    if (changed !== text) hit();
    return changed;
  };
}

/** Applies several rewrites to a text. */
function inTurn(...makers: readonly ((hit: () => void) => Rewrite)[]): (hit: () => void) => Rewrite {
  return (hit) => {
    // A part that meets no statement must not hide behind another part.
    const missing = new Set(makers);
    const rewrites = makers.map((make) =>
      make(() => {
        missing.delete(make);
        if (missing.size === 0) hit();
      }),
    );
    return (text) => rewrites.reduce((changed, rewrite) => rewrite(changed), text);
  };
}

function withDeps(change: (deps: FlowDeps, hit: () => void) => Partial<FlowDeps>): Mutant['make'] {
  return (hit) => ({ deps: (deps) => ({ ...deps, ...change(deps, hit) }) });
}

/** Joins the chunks of a result file, and turns the first success into an invalid request. */
async function* withoutAnAnswer(chunks: AsyncIterable<Uint8Array>, hit: () => void): AsyncGenerator<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of chunks) pieces.push(piece);
  const text = Buffer.concat(pieces).toString();
  const error = '{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}';
  const changed = text.replace(/\{"type":"succeeded".*/, `{"type":"errored","error":${error}}}`);
  if (changed !== text) hit();
  yield Buffer.from(changed);
}

function withPolicy(settings: Partial<FlowSettings>): Mutant['make'] {
  return (hit) => {
    hit();
    return { settings };
  };
}

/** Draws a workload that has nights, with three times as many of them. */
function drawBusyNights(random: Random): Workload {
  const workload = drawWorkload(random);
  const drawn: Nights[] = [];
  for (let round = 0; drawn.length < 3; round++) {
    const nights = drawNights(random.fork(`busy ${round}`), workload.agents);
    if (nights !== NO_NIGHTS) drawn.push(nights);
  }
  const texts = (place: number, text: string): string => `${place}/${text}`;
  return {
    ...workload,
    batches: workload.batches.map(withoutPoison),
    nights: {
      appends: drawn.flatMap(({ appends }, place) =>
        appends.map((append) => ({ ...append, texts: append.texts.map((text) => texts(place, text)) })),
      ),
      nights: drawn.flatMap(({ nights }, place) =>
        nights.map((night) => ({ ...night, name: texts(place, night.name) })),
      ),
    },
  };
}

/** Draws a workload whose batches all have a pilot of one run, and more runs. */
function drawPilots(random: Random): Workload {
  const workload = drawWorkload(random);
  const batches = workload.batches.map((batch) => ({
    ...batch,
    cancelAfterMs: null,
    pilot: { runs: 1, then: 'continue', failure_rate: 1 } as const,
    runs: [0, 1].flatMap((round) =>
      batch.runs.map((run) => ({ ...run, name: `${run.name}x${round}`, isolated: true })),
    ),
  }));
  return { ...workload, batches, nights: NO_NIGHTS };
}

/** Draws a workload with a batch per run, each cancelled within so many milliseconds. */
function cancellingEach(random: Random, withinMs: number): Workload {
  const workload = drawWorkload(random);
  const batches = workload.batches.flatMap((batch) =>
    batch.runs.map((run) => ({ ...batch, runs: [run], cancelAfterMs: random.int(0, withinMs) })),
  );
  return { ...workload, batches };
}

const CANCEL_GATHER_MS = 500;
const { reconcile } = SETTINGS;

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'blind resubmit',
    without: 'looking for an unanswered create before sending it again',
    make: (hit) => ({
      settings: { reconcile: { ...reconcile, quarantine_ms: 0, searches_min: 1 } },
      deps: (deps) => ({
        ...deps,
        provider: {
          ...deps.provider,
          listBatches: () => {
            hit();
            return Promise.resolve({ batches: [], complete: true, unavailable: null, now: null });
          },
        },
      }),
    }),
    caughtBy: PAID,
    world: { temper: HARSH },
  },
  {
    name: 'no quarantine',
    without: 'the wait until the provider lists its accepted batches',
    make: withPolicy({
      reconcile: { ...reconcile, quarantine_ms: 0, searches_min: 1, search_interval_ms: 1 },
    }),
    caughtBy: PAID,
    world: { temper: { ...HARSH, listLagMs: 16_000 } },
  },
  {
    name: 'by our own clock',
    without: "searching by the provider's clock, with a margin for clock errors",
    make: (hit) => ({
      settings: { reconcile: { ...reconcile, clock_margin_ms: reconcile.clock_skew_ms } },
      deps: (deps) => ({
        ...deps,
        provider: {
          ...deps.provider,
          clock: {
            ...deps.provider.clock,
            read: () => {
              hit();
              return null;
            },
          },
        },
      }),
    }),
    caughtBy: PAID,
    world: { temper: { ...HARSH, clocks: { ...AGREEING, offsetMs: 180_000 } } },
  },
  {
    name: 'one clock is enough',
    without: "the end of the quarantine by the provider's clock, if the database's clock jumps",
    make: withDeps(({ provider }, hit) => ({
      provider: {
        ...provider,
        async listBatches(asked) {
          hit();
          return { ...(await provider.listBatches(asked)), now: null };
        },
      },
    })),
    caughtBy: PAID,
    world: {
      temper: { ...JUMPS, create: { ...JUMPS.create, commitThenDrop: 0.6 } },
      settings: { reconcile: { ...reconcile, searches_min: 1 } },
    },
  },
  {
    name: 'hunting for a minute',
    without: 'the search for late creates, for as long as a batch may run',
    make: rewriting(
      /("d"\."watched_until" > app_now\(\))/,
      `$1 and d.submit_started_at > app_now() - interval '1 minute'`,
    ),
    caughtBy: ['orphaned_batch'],
    world: { temper: { ...CALM, create: { ...CALM.create, late: 0.3 } } },
  },
  {
    name: 'a late answer',
    without: 'giving a batch to its doubted submission when its overtaken sender hears of it',
    make: rewriting(
      /(as unproven\s+from provider_batch p where) (p\.nonce = \$\d+ or p\.provider_id = \$\d+)/,
      '$1 false and ($2)',
    ),
    caughtBy: [...PAID, 'answer_lost', 'flow_failed'],
    world: {
      temper: {
        ...JUMPS,
        create: { ...CALM.create, slow: 1 },
        clocks: { ...JUMPS.clocks, databaseJumps: 1 },
      },
    },
  },
  {
    name: 'send without a look at the lease',
    without: 'the check right before the POST that the lease outlasts it',
    make: withDeps(({ leases }, hit) => ({
      leases: {
        ...leases,
        remainingMs: () => {
          hit();
          return Number.POSITIVE_INFINITY;
        },
      },
    })),
    caughtBy: PAID,
    world: { ...STALLED, temper: CALM },
  },
  {
    name: 'a client that repeats creates',
    without: 'one POST per create, even after errors',
    make: withDeps(({ provider }, hit) => ({
      provider: {
        ...provider,
        async createBatch(body, options) {
          let outcome = await provider.createBatch(body, options);
          for (let again = 0; again < 2 && outcome.outcome === 'unknown'; again++) {
            hit();
            outcome = await provider.createBatch(body, options);
          }
          return outcome;
        },
      },
    })),
    caughtBy: PAID,
    world: { temper: HARSH },
  },
  {
    name: 'the old nonce again',
    without: 'a new nonce for resent steps',
    make: rewriting(
      /nonce = (\$\d+), submission = submission \+ 1/,
      `nonce = case when $1::text = '' then '' else nonce end, submission = submission + 1`,
    ),
    caughtBy: ['nonce_sent_twice'],
    world: { temper: HARSH },
  },
  {
    name: 'adoption on trust',
    without: 'distinguishing submissions of one size, and proving an adopted batch by its lines',
    make: rewriting(
      /(from provider_batch p\s+where p\.next_due_at is not null)(\s+and \(p\.state in \('submitting', 'unknown'\))/,
      '$1 and false$2',
    ),
    caughtBy: [...PAID, 'flow_failed'],
    world: { temper: { ...HARSH, foreignBatches: 0.5 } },
  },
  {
    name: 'no fence',
    without: 'the epoch of the lease at the head of transactions',
    make: rewriting(
      /(where id = \$\d+::uuid and )lease_epoch = (\$\d+)( for (?:key )?share)/,
      '$1$2::int is not null$3',
    ),
    caughtBy: ['once_tool_ran_twice', 'flow_failed'],
    world: { ...ZOMBIES, temper: CALM },
  },
  {
    name: 'no journal',
    without: "the record of a call's start, before it runs",
    make: rewriting(
      /(update tool_call c set) state = 'running', started_at = app_now\(\)/,
      '$1 state = c.state',
    ),
    caughtBy: ['once_tool_ran_twice'],
    world: { ...KILLS, temper: CALM },
  },
  {
    name: 'a key for each try',
    without: 'the key shared by all repeats of a call',
    make: (hit) => {
      let tries = 0;
      return withDeps(({ tools }) => ({
        tools: {
          ...tools,
          run: (call, options) => {
            hit();
            return tools.run({ ...call, idempotency_key: `${call.idempotency_key}/${++tries}` }, options);
          },
        },
      }))(hit);
    },
    caughtBy: ['tool_key_renewed'],
    world: {
      ...{ ...KILLS, temper: CALM, faultyEvents: 3_000 },
      rates: { kill: 0.02, pause: 0.02, fail: 0.03, slow: 0.05 },
    },
  },
  {
    name: 'once means again',
    without: 'leaving alone an interrupted call that must not run twice',
    make: rewriting(
      /'state', c\.state/,
      `'state', case when c.state = 'running' then 'pending' else c.state end`,
    ),
    caughtBy: ['once_tool_ran_twice'],
    world: { ...KILLS, temper: CALM },
  },
  {
    name: 'kept, then made again',
    without: 'the state of a result that is stored before the results of its neighbours',
    make: rewriting(
      /(update tool_call c\s+set state = )d\.s, held_result = d\.h, duration_ms = d\.d,\s+started_at = case .*? end,\s+ended_at = case .*? end\b/s,
      `$1'pending', held_result = null, duration_ms = null, started_at = null, ended_at = null`,
    ),
    caughtBy: ['once_tool_ran_twice'],
    world: SLOW_CALLS,
  },
  {
    name: 'the chunk goes with its first part',
    without: 'keeping the other runs in a chunk whose first runs are committed',
    make: (hit) => ({
      rewrite: inTurn(
        rewriteOf(
          /(delete from run_chunk\s+where id = \$\d+::uuid and \(\$\d+::uuid\[\] is null or )(run_ids <@ \$\d+::uuid\[\])\)/,
          '$1$2 or true)',
        ),
        rewriteOf(/(is not null and not )(run_ids <@ \$\d+::uuid\[\])/, '$1($2 or true)'),
      )(hit),
    }),
    caughtBy: ['acting_has_chunk'],
    world: SLOW_CALLS,
  },
  {
    name: 'committed, yet in its chunk',
    without: 'taking committed runs out of their chunk',
    make: rewriting(
      /where u\.id <> all\((\$\d+::uuid\[\])\) (order by u\.place\)\s+where id = \$\d+::uuid and \$\d+::uuid\[\] is not null)/,
      'where u.id <> all($1) or true $2',
    ),
    caughtBy: ['tools_chunk_is_acting', 'acting_in_one_chunk', 'once_tool_ran_twice'],
    // The chunk goes with its last run, soon after.
    world: { ...SLOW_CALLS, auditEvery: 20 },
  },
  {
    name: 'put off for ever',
    without: 'the later chunk of runs whose host takes no calls',
    make: rewriting(
      /(insert into run_chunk \(id, project_id, kind, run_ids, next_due_at\)\s+select .*?from run_chunk where id = \$\d+::uuid)\)/s,
      '$1 and false)',
    ),
    caughtBy: ['acting_has_chunk'],
    world: {
      temper: CALM,
      // Every third call meets a host that is away.
      striker: ({ isFaulty }) => {
        let calls = 0;
        return ({ label }) =>
          label.startsWith('tools.run') && isFaulty() && calls++ % 3 === 0
            ? { kind: 'fail', performed: false }
            : null;
      },
    },
  },
  {
    name: 'a place for good',
    without: 'the place that is free again when the result of a call is stored',
    make: withDeps(({ tools }, hit) => ({
      tools: {
        ...tools,
        places: {
          ...tools.places,
          open: (onFreed) => ({ ...tools.places.open(onFreed), stored: hit }),
        },
      },
    })),
    caughtBy: ['not_finished'],
    world: SLOW_CALLS,
  },
  {
    name: 'one pass is enough',
    without: 'comparing the answered requests with the sent requests',
    make: rewriting(
      /select exists \(select 1 from step where provider_batch_id = p\.id and state = 'sealed'\) as open/,
      'select false as open',
    ),
    caughtBy: ['sealed_in_live_batch', 'not_finished'],
    world: { temper: { ...CALM, results: { ...CALM.results, shortEnd: 0.6 } } },
  },
  {
    name: 'answers for errors',
    without: 'the answer in a line of each file',
    make: withDeps(({ provider }, hit) => ({
      provider: {
        ...provider,
        async streamResults(id, options) {
          const results = await provider.streamResults(id, options);
          if (results.outcome !== 'open') return results;
          return { ...results, chunks: withoutAnAnswer(results.chunks, hit) };
        },
      },
    })),
    caughtBy: ['answer_lost'],
    world: { temper: CALM },
  },
  {
    name: 'every refusal is for good',
    without: 'distinguishing a temporary refusal of a create from a final refusal',
    make: withDeps(({ provider }, hit) => ({
      provider: {
        ...provider,
        async createBatch(body, options) {
          const outcome = await provider.createBatch(body, options);
          if (outcome.outcome !== 'refused' || outcome.what === 'bad_request') return outcome;
          hit();
          return { ...outcome, what: 'bad_request' };
        },
      },
    })),
    caughtBy: ['ended_without_cause'],
    world: { temper: { ...CALM, create: { ...CALM.create, refuse: 0.6 } } },
  },
  {
    name: 'no callbacks',
    without: 'the callbacks of ended batches',
    make: rewriting(/(and b\.callback_url is not null) and b\.completed_at is not null/, '$1 and false'),
    caughtBy: ['callback_lost'],
    world: { temper: CALM },
  },
  {
    name: 'no state guard',
    without: 'the required states of step and run when an answer is written',
    make: rewriting(/ and (?:t\.)?state = d\.was/, ''),
    // The state before another chunk ingested the same line, which an answer is decided by.
    others: rewriteOf(
      /(b\.state as batch_state,[^;]*? r\.definition_id,\s+)r\.state,/,
      `$1case when r.state in ('acting', 'requires_action') then r.state else 'in_flight' end as state,`,
    ),
    caughtBy: [
      'tally_steps',
      'tally_runs',
      'messages_gapless',
      'last_seq_is_last',
      'script_followed',
      'steps_gapless',
      'holder_is_named',
      'in_flight_is_sealed',
      'sealed_is_in_flight',
    ],
    world: {
      // An answer that ends its run without a message: the store refuses a second message anyway.
      temper: {
        ...CALM,
        fates: { ...CALM.fates, permanent: 0.5 },
        results: { ...CALM.results, duplicate: 0.9 },
      },
      rates: { kill: 0, pause: 0.01, fail: 0, slow: 0.05 },
    },
  },
  {
    name: 'two holders',
    without: 'the rule that a single run holds a conversation',
    make: (hit) => ({
      rewrite: inTurn(
        rewriteOf(/id = r\.conversation_id and run_id is null/, 'id = r.conversation_id'),
        rewriteOf(
          /\(c\.run_id is null or c\.run_id in \(select unnest\((\$\d+::uuid\[\])\)\)\)/,
          '$1 is not null',
        ),
      )(hit),
    }),
    caughtBy: ['one_holder', 'holder_is_named', 'runs_do_not_mix', 'flow_failed'],
    world: { temper: CALM },
  },
  {
    name: 'cancel, then send',
    without: 'excluding runs of a cancelled batch from sealing',
    make: rewriting(/r\.state = 'ready' and b\.state = 'running'/, `r.state = 'ready'`),
    // The last check before the send takes such steps back.
    others: rewriteOf(/and \(b\.state <> 'running' or r\.overdue_from/, 'and (r.overdue_from'),
    caughtBy: ['no_seal_after_cancel'],
    // Every run has its own cancel, about when it is sealed, and cancels are slow.
    world: {
      temper: CALM,
      rates: { kill: 0, pause: 0, fail: 0, slow: 0.5 },
      settings: { gather_window_ms: CANCEL_GATHER_MS },
      workload: (random) => cancellingEach(random, CANCEL_GATHER_MS + 200),
    },
  },
  {
    name: 'counted twice',
    without: 'a single increment of a count',
    make: rewriting(/"t"\."steps" \+ "excluded"\."steps"/, '"t"."steps" + 2 * "excluded"."steps"'),
    caughtBy: ['tally_steps'],
    world: { temper: CALM },
  },
  {
    name: 'no cap',
    without: 'the room under the cap of its batch that a step needs before it is sealed',
    make: (hit) => ({
      rewrite: inTurn(
        rewriteOf(
          /"room", "max_cost_nanousd", "max_output_tokens",/,
          '"room", null::bigint as max_cost_nanousd, null::bigint as max_output_tokens,',
        ),
        rewriteOf(/and \(g\.max_(cost_nanousd|output_tokens) is null\s+or [^)]*\)/g, ''),
      )(hit),
    }),
    caughtBy: ['within_caps'],
    world: { temper: CALM },
  },
  {
    name: 'counting again',
    without: "the prompt's numbers that are fixed with its step",
    make: rewriting(
      /'passages', p\.passages/,
      `'passages', (select count(*) from passage p where p.project_id = r.project_id)`,
    ),
    caughtBy: ['request_changed'],
    world: {
      temper: { ...CALM, create: { ...CALM.create, refuse: 0.6 } },
      workload: (random) => drawWorkload(random, { everyoneArchives: true }),
    },
  },
  {
    name: 'no lease at all',
    without: 'leases and epochs: every worker takes any due row',
    make: (hit) => ({
      rewrite: inTurn(
        rewriteOf(/and lease_until < app_now\(\)/g, ''),
        rewriteOf(/((?:[a-z]+\.)?lease_epoch) = (\$\d+)/g, '($1 > 0 or $2::int > 0)'),
      )(hit),
    }),
    caughtBy: [...PAID, 'once_tool_ran_twice', 'flow_failed', 'request_count'],
    world: { ...ZOMBIES, temper: HARSH },
  },
  {
    name: 'messages that wait for ever',
    without: 'the entry of waiting messages when their conversation becomes free',
    make: rewriting(
      /(delete from waiting_message where conversation_id = any\(.*?\)::uuid\[\]\))/s,
      '$1 and false',
    ),
    caughtBy: ['message_appended_once', 'message_read_once'],
    world: { temper: CALM, workload: drawBusyNights },
  },
  {
    name: 'any end will do',
    without: 'the good end of a run that moves its cursor',
    make: rewriting(
      /\) r where r\.stop_reason in \('end_turn', 'tool_rule'\)\)/,
      ') r where r.ended_at is not null)',
    ),
    caughtBy: ['message_read_once'],
    world: { workload: drawBusyNights },
  },
  {
    name: 'nights without a trace',
    without: 'the record of the messages that a run was given',
    make: rewriting(/(insert into cursor_span[^]*\) as d)\s*$/, '$1 where false'),
    caughtBy: ['message_read_once'],
    world: { temper: CALM, workload: drawBusyNights },
  },
  {
    name: 'a second look',
    without: 'the check for a run under way before messages are handed out again',
    make: rewriting(
      /coalesce\(bool_or\(r\.ended_at is null\), false\) as is_under_way/,
      'false as is_under_way',
    ),
    caughtBy: ['message_read_once'],
    world: { temper: CALM, workload: drawBusyNights },
  },
  {
    name: 'beside the pilot',
    without: 'holding the other runs of a batch back from the seal while its pilot runs',
    make: rewriting(
      /\(b\.pilot_state is distinct from 'running' or r\.ordinal = any\(b\.pilot_ordinals\)\)/,
      'true',
    ),
    others: rewriteOf(/coalesce\(\(select ordinals from alone\) \? r\.ordinal::text, true\)/, 'true'),
    caughtBy: ['pilot_goes_alone'],
    world: { temper: CALM, workload: drawPilots },
  },
  {
    name: 'a pilot without an end',
    without: 'looking for pilots whose runs have ended',
    make: rewriting(
      /\(b\.pilot_state is not distinct from 'running' and b\.pilot_ordinals is not null/g,
      '(false',
    ),
    caughtBy: ['not_finished', 'nothing_left_to_do'],
    world: { temper: CALM, workload: drawPilots },
  },
  {
    name: 'a tick apart from its batch',
    without: 'the transaction that stores the tick, its batch and the next due time',
    make: () => ({}),
    schedules: (hit) => ({
      deps: (deps) => {
        hit();
        return { ...deps, db: withoutTransactions(deps.db) };
      },
    }),
    caughtBy: ['tick_lost', 'tick_invented', 'tick_doubled', 'I17'],
  },
];

/** Lets every statement of a transaction commit alone. */
function withoutTransactions(db: FlowDeps['db']): FlowDeps['db'] {
  return new Proxy(db, {
    get(target, name): unknown {
      if (name === 'transaction') {
        return () => ({ execute: (work: (trx: unknown) => unknown) => work(target) });
      }
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
}
