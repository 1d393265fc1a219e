/**
 * Sweeps the kill points: strikes every named point of the flows in every way, at its first, second and last
 * hit.
 */
import type { FlowSettings } from '../apps/worker/src/flow-parts/deps.ts';
import type { ProofDatabase } from './database.ts';
import type { Turn } from './model.ts';
import type { Nights } from './nights.ts';
import { CALM, type Temper } from './provider-temper.ts';
import { PLAIN_AGENT, PLAIN_BATCH, type AgentTraits } from './traits.ts';
import { SCHEDULE_POINTS } from './schedules.ts';
import { simulate, type SimulationResult } from './simulation.ts';
import { LEASE_MS } from './worker.ts';
import { SLOW_NOTE } from './tools.ts';
import type { Workload } from './workload.ts';
import type { EffectKind, Strike } from './world.ts';

/** A small workload that passes many points. */
export interface Scenario {
  readonly name: string;
  readonly temper: Temper;
  /** Number of effects before the provider heals. */
  readonly faultyEvents: number;
  readonly cancelAfterMs: number | null;
  /** Default: the seven runs. */
  readonly workload?: Workload;
  readonly settings?: Partial<FlowSettings>;
  /** Start of the names of points that are struck here, however many scenarios pass them. */
  readonly strikesAll?: string;
}

/**
 * Seven runs: memory and module tools, one agent shared by two, an isolated conversation, a summarised one.
 */
export const SCENARIOS: readonly Scenario[] = [
  { name: 'all is well', temper: CALM, faultyEvents: 1, cancelAfterMs: null },
  {
    name: 'replies are lost',
    temper: { ...CALM, create: { ...CALM.create, commitThenDrop: 0.5, dropBefore: 0.4 } },
    faultyEvents: 500,
    cancelAfterMs: null,
  },
  { name: 'cancelled amid work', temper: { ...CALM, late: 1 }, faultyEvents: 400, cancelAfterMs: 16_000 },
  { name: 'nights', temper: CALM, faultyEvents: 1, cancelAfterMs: null, workload: nightsOfFive() },
  { name: 'batches are lost', temper: { ...CALM, forget: 0.6 }, faultyEvents: 700, cancelAfterMs: null },
  {
    ...{ name: 'some calls are slow', temper: CALM, faultyEvents: 1, cancelAfterMs: null },
    ...{ workload: slowAndQuick(), settings: { chunk_lines: 4 }, strikesAll: 'tools.' },
  },
];

/** Points that no scenario passes: the simulation of schedules and the test of the flow that forgets batches strike them. */
export const STRUCK_ELSEWHERE: ReadonlySet<string> = new Set([
  ...SCHEDULE_POINTS,
  'forget.before_commit',
  'forget.after_commit',
]);

export const STRIKES: Readonly<Record<string, Strike>> = {
  kill: { kind: 'kill', performed: true },
  throw: { kind: 'fail', performed: false },
  pause: { kind: 'pause', ms: Math.round(2.5 * LEASE_MS), performed: true },
};

const SEED = 4_711;

/** Result of one point in one scenario. */
export interface PointReport {
  readonly point: string;
  readonly scenario: string;
  /** Hits in an undisturbed run. */
  readonly hits: number;
  readonly runs: number;
  /** Struck runs that violated a check, with the check. */
  readonly failures: readonly string[];
}

/** A point in an undisturbed run: its hits, and whether it can fail. */
export interface RecordedPoint {
  readonly hits: number;
  readonly canFail: boolean;
}

/** Records the points of an undisturbed run. `kinds`: hooks alone, or every effect of every flow. */
export async function recordPoints(
  database: ProofDatabase,
  scenario: Scenario,
  kinds: readonly EffectKind[],
): Promise<ReadonlyMap<string, RecordedPoint>> {
  const points = new Map<string, RecordedPoint>();
  const result = await simulate(database, {
    ...optionsOf(scenario),
    striker:
      () =>
      ({ kind, label, canFail }) => {
        if (kinds.includes(kind)) points.set(label, { hits: (points.get(label)?.hits ?? 0) + 1, canFail });
        return null;
      },
  });
  if (result.violations.length > 0)
    throw new Error(
      `The scenario '${scenario.name}' fails undisturbed: ${JSON.stringify(result.violations[0])}`,
    );
  return points;
}

/** Result of a struck run. `struck`: whether the run reached the point. */
export type StruckResult = SimulationResult & { readonly struck: boolean };

/** Strikes the `nth` hit of a point in a scenario. */
export async function strikeAt(
  database: ProofDatabase,
  scenario: Scenario,
  point: string,
  nth: number,
  strike: Strike,
): Promise<StruckResult> {
  let hits = 0;
  const result = await simulate(database, {
    ...optionsOf(scenario),
    striker:
      () =>
      ({ label }) => {
        if (label !== point) return null;
        hits += 1;
        return hits === nth ? strike : null;
      },
  });
  return { ...result, struck: hits >= nth };
}

/**
 * Sweeps every point in the first two scenarios that pass it, and in those that strike it anyway. Returns the swept points.
 */
export async function sweepPoints(
  database: ProofDatabase,
  kinds: readonly EffectKind[],
  onReport: (report: PointReport) => void,
  scenarios: readonly Scenario[] = SCENARIOS,
): Promise<ReadonlySet<string>> {
  const swept = new Map<string, number>();
  for (const scenario of scenarios) {
    const points = [...(await recordPoints(database, scenario, kinds))];
    for (const [point, { hits, canFail }] of points.sort(([a], [b]) => (a < b ? -1 : 1))) {
      const times = swept.get(point) ?? 0;
      if (times === 2 && (scenario.strikesAll === undefined || !point.startsWith(scenario.strikesAll)))
        continue;
      swept.set(point, Math.min(times + 1, 2));
      const failures: string[] = [];
      let runs = 0;
      for (const nth of new Set([1, Math.min(2, hits), hits])) {
        for (const [how, strike] of Object.entries(STRIKES)) {
          if (strike.kind === 'fail' && !canFail) continue;
          const { violations, struck } = await strikeAt(database, scenario, point, nth, strike);
          runs += 1;
          if (!struck) failures.push(`${how} at hit ${nth}: the run never came so far`);
          for (const { name, detail } of violations.slice(0, 1))
            failures.push(`${how} at hit ${nth}: ${name}: ${detail}`);
        }
      }
      onReport({ point, scenario: scenario.name, hits, runs, failures });
    }
  }
  return new Set(swept.keys());
}

function optionsOf(scenario: Scenario): Parameters<typeof simulate>[1] {
  return {
    seed: SEED,
    temper: scenario.temper,
    faultyEvents: scenario.faultyEvents,
    failingTools: 0,
    slowTools: 0,
    ...(scenario.settings === undefined ? {} : { settings: scenario.settings }),
    workload: () => scenario.workload ?? workloadOf(scenario),
  };
}

/**
 * Two fleets of five agents, accepted in three portions each, and a rewrite, under cursors. Messages arrive before the first,
 * during its accept and between the nights.
 */
function nightsOfFive(): Workload {
  const append = (atMs: number, agent: number, text: string): Nights['appends'][number] => ({
    ...{ atMs, agent, texts: [`${text} 1.`, `${text} 2.`] },
    repeatAfterMs: 500,
  });
  const night = (name: string, atMs: number, kind: 'fleet' | 'memory_rewrite'): Nights['nights'][number] => ({
    ...{ name, atMs, kind, cancelAfterMs: null },
    accepted: kind === 'fleet' ? null : true,
  });
  return {
    agents: 5,
    batches: [],
    nights: {
      appends: [
        ...[0, 1, 2, 3, 4].map((agent) => append(0, agent, `early ${agent}`)),
        ...[0, 2, 4].map((agent) => append(1_010 + agent, agent, `meanwhile ${agent}`)),
        append(8_000, 1, 'between'),
      ],
      nights: [
        night('first', 1_000, 'fleet'),
        night('second', 12_000, 'fleet'),
        night('rewrite', 12_000, 'memory_rewrite'),
      ],
    },
  };
}

/** Runs of one chunk whose calls end at different moments, so that they are committed in parts. */
function slowAndQuick(): Workload {
  const run = (name: string, agent: number, ...turns: readonly (readonly string[])[]) => ({
    ...{ name, agent, isolated: false, max_steps: 10 },
    turns: turns.map((calls, turn) => ({
      text: `${name}t${turn}`,
      calls: calls.map((call, index) => {
        const [tool = '', isSlow] = call.split(' ');
        return { tool, args: { note: `<${name}t${turn}c${index}>${isSlow === undefined ? '' : SLOW_NOTE}` } };
      }),
    })),
  });
  return {
    agents: 4,
    batches: [
      {
        ...{ atMs: 0, cancelAfterMs: null, wantsCallback: true },
        runs: [
          run('quick', 0, ['note_once'], ['note_idempotent']),
          run('both', 1, ['note_once', 'note_idempotent', 'look_up slowly'], ['note_once']),
          run('slow', 2, ['note_once slowly', 'note_idempotent slowly', 'note_once']),
          run('late', 3, ['note_idempotent'], ['look_up', 'note_once slowly']),
        ],
      },
    ],
  };
}

function workloadOf(scenario: Scenario): Workload {
  const note = (tool: string, name: string): NonNullable<Turn['calls']>[number] =>
    tool === 'core_memory_append'
      ? { tool, args: { label: 'notes', content: `<${name}>` } }
      : { tool, args: { note: name } };
  const run = (
    name: string,
    agent: number,
    tools: readonly (readonly string[])[],
    isolated = false,
  ): Workload['batches'][number]['runs'][number] => ({
    name,
    agent,
    isolated,
    max_steps: 10,
    turns: tools.map((calls, turn) => ({
      text: `${name}t${turn}`,
      calls: calls.map((tool, index) => note(tool, `${name}t${turn}c${index}`)),
    })),
  });
  const summarised: AgentTraits = { ...PLAIN_AGENT, buffer: { limit: 4, keep: 1 } };
  return {
    agents: 5,
    agentTraits: [PLAIN_AGENT, PLAIN_AGENT, PLAIN_AGENT, PLAIN_AGENT, summarised],
    batches: [
      {
        atMs: 0,
        cancelAfterMs: scenario.cancelAfterMs,
        wantsCallback: true,
        runs: [
          run('a', 0, [['core_memory_append'], ['note_once', 'core_memory_append']]),
          run('b', 0, [['core_memory_append']]),
          run('c', 1, [['note_idempotent', 'note_once'], ['look_up']]),
          run('d', 2, [['note_once', 'note_once']]),
        ],
      },
      {
        atMs: 2_000,
        cancelAfterMs: null,
        wantsCallback: false,
        pilot: { runs: 1, then: 'continue', failure_rate: 1 },
        runs: [
          run('e', 2, [['look_up']]),
          run('f', 3, [['core_memory_append', 'note_once']], true),
          run('g', 4, [['look_up'], ['look_up'], ['look_up']]),
        ],
      },
      {
        atMs: 2_000,
        cancelAfterMs: null,
        wantsCallback: true,
        wantsEvents: true,
        traits: { ...PLAIN_BATCH, accepted: true },
        runs: [run('h', 3, [['core_memory_append']], true)],
      },
    ],
  };
}
