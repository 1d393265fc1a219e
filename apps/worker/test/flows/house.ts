import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SHIPPED_PRICES, type Cap } from '@nightshift/agent-core';
import {
  createAgents,
  DEFAULT_PROJECT_ID,
  findTools,
  inTransaction,
  newConversationId,
  newId,
  registerMemoryTools,
  registerModuleTools,
  requestBatchCancel,
  type BlockContent,
  type Claimant,
  type ModuleTool,
  type NewAgent,
  type NewBatch,
  type NewRun,
} from '@nightshift/db';
import type { JsonObject, ResultFormat, ToolDefinition } from '@nightshift/agent-core';
import { acceptBatch, lendTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { createDefinitionCache } from '@nightshift/intake';
import { startSimulator, type Simulator, type SimulatorOptions } from '../../../simulator/src/index.ts';
import { createGrantKeeper } from '../../src/flow-parts/calls/grant-keeper.ts';
import {
  createQuickTools,
  QUICK_TOOLS_POLICY_DEFAULT,
  type QuickToolsPolicy,
} from '../../src/flow-parts/calls/quick-tools.ts';
import { createStrangers } from '../../src/flow-parts/strangers.ts';
import { createWorkBook } from '../../src/flow-parts/work-statistics.ts';
import type { FlowDeps, FlowReport, FlowSettings, Hooks } from '../../src/flow-parts/deps.ts';
import { createSlots } from '../../src/flow-parts/slots.ts';
import { createLeaseKeeper } from '../../src/leases/keeper.ts';
import type { ToolRequest, ToolRunners } from '../../src/tools/runner.ts';
import { runnersOf, type ToolPort } from '../../../../test/runners-of.ts';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import type { ProviderPort } from '../../src/provider/port.ts';
import { acceptBatch as makeRuns } from '../../src/flows/accept-batch/accept-batch.ts';
import { cancelBatch } from '../../src/flows/cancel-batch/cancel-batch.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { finishBatch } from '../../src/flows/finish-batch/finish-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { reconcileSubmission } from '../../src/flows/reconcile-submission/reconcile-submission.ts';
import { runToolCalls } from '../../src/flows/run-tool-calls/run-tool-calls.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { sweep } from '../../src/flows/sweep/sweep.ts';

/** A database, a simulator and workers driven by hand: without queue, timers or waiting. */
export interface House {
  readonly database: TestDatabase;
  readonly simulator: Simulator;
  /** Creates a worker with its own leases, on the same database and provider. */
  worker(parts?: WorkerParts): FlowDeps;
  /** Stores agents with the given blocks and tools, and a batch with one run each. */
  submit(runs: readonly SubmittedRun[], rest?: Partial<NewBatch>): Promise<SubmittedBatch>;
  /**
   * Runs every flow in turn until the batches have ended.
   * Throws: no flow makes progress.
   */
  drive(worker: FlowDeps, options?: DriveOptions): Promise<readonly FlowReport[]>;
  /** Makes all waiting rows due now. Leases stand. */
  hasten(): Promise<void>;
  /** Cuts a worker's power: it renews nothing, and its leases expire. */
  bury(worker: FlowDeps): Promise<void>;
  /** Requests the cancellation of a batch, as the API does. */
  cancel(batchId: string): Promise<void>;
  /** Reads the runs of a batch in the order of its requests. */
  runsOf(batchId: string): Promise<readonly RunRow[]>;
  /** Reads the rows of a query, for assertions. */
  rows<T>(text: string, values?: readonly unknown[]): Promise<T[]>;
  close(): Promise<void>;
}

export interface WorkerParts {
  readonly owner?: string;
  readonly lease_duration_ms?: number;
  readonly tools?: ToolPort;
  /** In place of `tools`. */
  readonly runners?: ToolRunners;
  readonly provider?: ProviderPort;
  readonly settings?: Partial<FlowSettings>;
  readonly hooks?: Hooks;
  readonly quickTools?: QuickToolsPolicy;
}

export interface SubmittedRun {
  readonly input: string;
  /** System messages before it. */
  readonly alerts?: readonly string[];
  readonly blocks?: Readonly<Record<string, string>>;
  readonly tools?: readonly string[];
  readonly max_steps?: number;
  readonly tool_rules?: readonly object[];
  readonly client_tools?: readonly ToolDefinition[];
  readonly result_schema?: JsonObject | 'none';
  readonly deadline?: string;
  /** Default: a model that accepts a forced tool choice. */
  readonly model?: string;
  /** `model_settings.extra`. */
  readonly extra?: JsonObject;
  /** Index in this list of another run of the same agent. */
  readonly same_agent_as?: number;
  /** The id of an existing agent. */
  readonly agent_id?: string;
  readonly custom_id?: string;
  /** Overrides for its new agent. */
  readonly agent?: Partial<NewAgent>;
  /** Uses an isolated conversation. */
  readonly isolated?: boolean;
  /** Maximum tokens of an answer. Default: 1,024. */
  readonly max_tokens?: number;
  readonly cap?: Cap;
  /** Other fields of the run. */
  readonly rest?: Partial<NewRun>;
}

export interface DriveOptions {
  readonly rounds?: number;
  /** Makes waiting rows due when no work is found. */
  readonly hasten?: boolean;
}

export interface RunRow {
  readonly state: string;
  readonly stop_reason: string | null;
  readonly step_number: number;
  readonly attempt: number;
  readonly error: { readonly message: string } | null;
}

export interface SubmittedBatch {
  readonly id: string;
  readonly run_ids: readonly string[];
  readonly agent_ids: readonly string[];
}

const FAST: Partial<FlowSettings> = {
  gather_window_ms: 0,
  requests_max: 1_000,
  body_bytes_max: 10_000_000,
  create_timeout_ms: 120_000,
  results_idle_timeout_ms: 5_000,
  results_bytes_per_second_min: 0,
  results_rate_window_ms: 60_000,
  ingest_lanes: 2,
  chunk_lines: 50,
  chunks_in_flight: 2,
  agents_per_portion: 500,
  line_bytes_max: 1_000_000,
  alone_delay_ms_max: 0,
  streams_max: 3,
  retry: {
    attempts_max: 4,
    retry_delay_ms: 0,
    retry_delay_ms_max: 0,
    outage_delay_ms: 0,
    outage_ms_max: 7_200_000,
  },
  poll: { poll_interval_ms: 0, poll_interval_ms_max: 0, missing_grace_ms: 0 },
  reconcile: {
    clock_skew_ms: 60_000,
    clock_margin_ms: 1_800_000,
    quarantine_ms: 0,
    search_interval_ms: 0,
    searches_min: 2,
  },
  refusal: { backoff_ms: 0, backoff_ms_max: 0, pause_ms: 0, refusals_max: 12 },
  breaker: { failures_min: 3, rest_ms: 0, rest_ms_max: 0 },
  workspace_is_ours: true,
  audit_interval_ms: 600_000,
  retention_days: null,
  prices: SHIPPED_PRICES,
};

/** No quick calls: answers are committed first, their calls run after. */
const NO_QUICK_TOOLS: QuickToolsPolicy = {
  ...QUICK_TOOLS_POLICY_DEFAULT,
  calls_min: 0,
  mean_ms_max: -1,
};

/** No module tools. */
export const NO_TOOLS: ToolPort = {
  runCalls: (calls) =>
    Promise.resolve(
      calls.map(({ call_id, tool_name }) => ({
        call_id,
        status: 'failed' as const,
        result: `There is no tool ${tool_name} here.`,
        duration_ms: 0,
        started: true,
      })),
    ),
};

export async function openHouse(
  postgresUrl: string,
  options: { readonly simulator?: SimulatorOptions; readonly modules?: readonly ModuleTool[] } = {},
): Promise<House> {
  const database = await lendTestDatabase(postgresUrl);
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-house-'));
  const simulator = await startSimulator({
    dataDir: join(dir, 'simulator'),
    ...options.simulator,
    settings: { latency: 'fixed:0', ...options.simulator?.settings },
  });
  const { db } = database;
  await inTransaction(db, async (trx) => {
    await registerMemoryTools(trx, DEFAULT_PROJECT_ID);
    await registerModuleTools(trx, DEFAULT_PROJECT_ID, options.modules ?? []);
  });
  const keepers: FlowDeps['leases'][] = [];
  const grantKeepers: FlowDeps['grantKeeper'][] = [];
  let workers = 0;

  const house: House = {
    database,
    simulator,
    worker(parts = {}) {
      workers += 1;
      const claimant: Claimant = {
        owner: parts.owner ?? `worker-${workers}`,
        lease_duration_ms: parts.lease_duration_ms ?? 30_000,
      };
      const leases = createLeaseKeeper(db, claimant);
      keepers.push(leases);
      const runners = parts.runners ?? runnersOf(parts.tools ?? NO_TOOLS);
      const grantKeeper = createGrantKeeper({
        ...{ db, claimant, grants: runners.places.grants, interval_ms: 20 },
        onError: (error) => {
          throw error;
        },
      });
      grantKeepers.push(grantKeeper);
      return {
        db,
        provider: parts.provider ?? anthropicProvider({ apiKey: 'test-key', baseURL: simulator.apiUrl }),
        tools: runners,
        grantKeeper,
        callSlots: createSlots(2),
        bell: { ring: () => Promise.resolve() },
        callbacks: { post: () => Promise.resolve({ kind: 'answered', status: 200 }) },
        leases,
        claimant,
        definitions: createDefinitionCache(),
        strangers: createStrangers(),
        work: createWorkBook(),
        quickTools: createQuickTools(parts.quickTools ?? NO_QUICK_TOOLS),
        chunkSlots: createSlots(parts.settings?.chunks_in_flight ?? 2),
        settings: {
          credential: 'default',
          body_dir: join(dir, 'bodies'),
          ...FAST,
          ...parts.settings,
        } as FlowSettings,
        ...(parts.hooks === undefined ? {} : { hooks: parts.hooks }),
      };
    },
    async submit(runs, rest = {}) {
      const tools = new Map(
        (
          await findTools(db, DEFAULT_PROJECT_ID, {
            ids: [],
            names: [...new Set(runs.flatMap((run) => run.tools ?? []))],
          })
        ).map((tool) => [tool.name, tool.id]),
      );
      const agentIds: string[] = [];
      const agents = runs.flatMap((run) => {
        const twin =
          run.agent_id ?? (run.same_agent_as === undefined ? undefined : agentIds[run.same_agent_as]);
        const id = twin ?? newId();
        agentIds.push(id);
        return twin === undefined ? [agentOf(id, run, tools)] : [];
      });
      const id = newId();
      const accepted = await inTransaction(db, async (trx) => {
        await createAgents(trx, DEFAULT_PROJECT_ID, agents);
        return acceptBatch(trx, DEFAULT_PROJECT_ID, {
          id,
          callback_url: null,
          metadata: null,
          idempotency: null,
          ...rest,
          runs: runs.map((run, index) => ({
            agent_id: agentIds[index] ?? '',
            custom_id: run.custom_id ?? null,
            max_steps: run.max_steps ?? 10,
            isolated: run.isolated ?? false,
            client_tools: run.client_tools ?? [],
            deadline: run.deadline ?? null,
            result_format: formatOf(run.result_schema),
            ...(run.cap === undefined ? {} : { cap: run.cap }),
            ...run.rest,
            messages: [
              ...(run.alerts ?? []).map((text) => ({ role: 'system' as const, text })),
              { role: 'user' as const, text: run.input },
            ].map(({ role, text }) => ({ role, content: [{ type: 'text', text }], otid: null, name: null })),
          })),
        });
      });
      return { id, run_ids: accepted.run_ids, agent_ids: agentIds };
    },
    async drive(worker, { rounds = 200, hasten = false } = {}) {
      const reports: FlowReport[] = [];
      for (let round = 0; round < rounds; round++) {
        let worked = false;
        for (const flow of [
          makeRuns,
          composeProviderBatch,
          submitProviderBatch,
          reconcileSubmission,
          pollProviderBatches,
          ingestResults,
          runToolCalls,
          sweep,
          finishBatch,
          cancelBatch,
        ]) {
          const report = await flow(worker);
          worked ||= report.worked;
          if (report.worked) reports.push(report);
        }
        const [open] = await house.rows<{ count: number }>(
          `select count(*)::int as count from batch where state in ('receiving', 'running', 'cancelling')`,
        );
        if (open?.count === 0) return reports;
        // Only the provider has work: let its timers run.
        if (!worked) await new Promise((resolve) => setImmediate(resolve));
        if (!worked && hasten) await house.hasten();
      }
      throw new Error(`The batches have not ended in ${rounds} rounds: ${JSON.stringify(reports.slice(-5))}`);
    },
    async hasten() {
      await house.rows('update provider_batch set next_due_at = app_now() where next_due_at > app_now()');
      await house.rows('update run_chunk set next_due_at = app_now() where next_due_at > app_now()');
      await house.rows('update batch set next_due_at = app_now() where next_due_at > app_now()');
      await house.rows('update credential set paused_until = app_now() where paused_until > app_now()');
    },
    async bury(worker) {
      worker.leases.close();
      worker.grantKeeper.abandon();
      for (const table of ['batch', 'provider_batch', 'run_chunk', 'credential', 'forgotten_batch']) {
        await house.rows(
          `update ${table} set lease_until = app_now() - interval '1 millisecond'
            where lease_owner = $1 and lease_until > app_now()`,
          [worker.claimant.owner],
        );
      }
    },
    async cancel(batchId) {
      await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, batchId));
    },
    runsOf: (batchId) =>
      house.rows<RunRow>(
        'select state, stop_reason, step_number, attempt, error from run where batch_id = $1 order by ordinal',
        [batchId],
      ),
    async rows<T>(text: string, values: readonly unknown[] = []) {
      const { rows } = await database.pool.query<T & Record<string, unknown>>(text, [...values]);
      return rows;
    },
    async close() {
      for (const keeper of keepers) keeper.close();
      for (const keeper of grantKeepers) keeper.abandon();
      await simulator.close();
      await database.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
  return house;
}

const formatOf = (schema: SubmittedRun['result_schema']): ResultFormat | 'none' | null =>
  schema === undefined ? null : schema === 'none' ? schema : { schema };

function agentOf(id: string, run: SubmittedRun, tools: ReadonlyMap<string, string>): NewAgent {
  return {
    id,
    conversation_id: newConversationId(),
    name: 'agent',
    description: null,
    agent_type: 'letta_v1_agent',
    system: 'You keep the memory of one package.',
    model: run.model ?? 'anthropic/claude-haiku-4-5',
    model_settings: {
      max_output_tokens: run.max_tokens ?? 1024,
      parallel_tool_calls: true,
      extra: run.extra ?? {},
    },
    tool_rules: run.tool_rules ?? [],
    metadata: null,
    tags: [],
    timezone: 'UTC',
    message_buffer_autoclear: false,
    context_window_limit: 200_000,
    hidden: false,
    echoed: {},
    blocks: Object.entries(run.blocks ?? {}).map(([label, value]) => ({
      id: newId(),
      label,
      value,
      description: null,
      char_limit: 10_000,
      read_only: false,
      metadata: {},
      tags: [],
      is_template: false,
      hidden: false,
    })),
    block_ids: [],
    tool_ids: (run.tools ?? []).map((name) => {
      const tool = tools.get(name);
      if (tool === undefined) throw new Error(`No tool ${name}.`);
      return tool;
    }),
    ...run.agent,
  };
}

/** Builds the content of a block as a person writes it. */
export function noted(overrides: Partial<BlockContent>): BlockContent {
  return {
    label: 'notes',
    value: '',
    description: null,
    char_limit: 10_000,
    read_only: false,
    conflict_policy: 'merge',
    metadata: {},
    tags: [],
    is_template: false,
    hidden: false,
    ...overrides,
  };
}

/** Builds a line of the simulator's default script: one tool call a turn, or joined to the turn before. */
export function call(tool: string, args: Readonly<Record<string, unknown>>, parallel = false): string {
  return JSON.stringify({ tool, args, ...(parallel ? { parallel: true } : {}) });
}

/** A pattern that takes about 30 ms to check on a text of 990 characters. */
export const LONG_CHECK = { pattern: '^(?!(?:.?){1000}!)' };

/** One answer of a scripted model: a call, parallel calls, or words. */
export type Turn = Said | Called | readonly Called[];
interface Said {
  readonly text: string;
}
interface Called {
  readonly tool: string;
  readonly args?: JsonObject;
}

/** Builds an input that makes the simulator give these answers, whatever it receives in between. */
export function script(...turns: readonly Turn[]): string {
  return `⟦sim:sequence?since=directive&steps=${encodeURIComponent(JSON.stringify(turns))}⟧`;
}

/** The parts of requests that tests read. */
export interface SentParams {
  readonly max_tokens: number;
  readonly tools?: readonly { readonly name: string; readonly strict?: true }[];
  readonly tool_choice?: JsonObject;
  readonly system?: readonly { readonly text: string; readonly cache_control?: object }[];
  readonly messages: readonly { readonly role: string; readonly content: readonly SentBlock[] }[];
}
export type SentBlock = { readonly type: string } & JsonObject;

/** Creates a provider that forwards to the simulator and records the params of every request in order. */
export function recording(house: House): { readonly provider: ProviderPort; readonly sent: SentParams[] } {
  const real = anthropicProvider({ apiKey: 'test-key', baseURL: house.simulator.apiUrl });
  const sent: SentParams[] = [];
  const provider: ProviderPort = {
    ...real,
    async createBatch(body, asked) {
      const { requests } = JSON.parse(await body.text()) as { requests: { params: SentParams }[] };
      sent.push(...requests.map(({ params }) => params));
      return real.createBatch(body, asked);
    },
  };
  return { provider, sent };
}

/** Creates module tools that answer at once with `answer` of the call, or `done`. */
export function answering(answer: (request: ToolRequest) => string | Error = () => 'done'): ToolPort & {
  readonly asked: ToolRequest[];
} {
  const asked: ToolRequest[] = [];
  return {
    asked,
    runCalls: (calls) => {
      asked.push(...calls);
      return Promise.resolve(
        calls.map((request) => {
          const said = answer(request);
          const failed = said instanceof Error;
          return {
            call_id: request.call_id,
            status: failed ? ('failed' as const) : ('succeeded' as const),
            result: failed ? said.message : said,
            duration_ms: 1,
            started: true,
          };
        }),
      );
    },
  };
}
