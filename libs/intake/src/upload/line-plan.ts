import {
  ISSUES_MAX,
  NightshiftError,
  type ErrorCode,
  type FieldError,
  type PriceTable,
  type ToolChoice,
} from '@nightshift/agent-core';
import {
  readRunAgents,
  requestedDefinitions,
  type Database,
  type NewRun,
  type RequestedDefinition,
  type RunAgent,
  type StagedLine,
} from '@nightshift/db';
import { yieldEvery } from '@nightshift/services';
import { createSchemaCheck } from '../assert-schemas.ts';
import { isCapped } from '../estimate/expect-cost.ts';
import { HELD_MS_MAX } from '../held.ts';
import { readNamedTools } from '../named-tools.ts';
import { planBatch, type BatchPlaces } from '../plan-batch.ts';
import type { BatchOptions, RunRequest, TemplateInput, TemplateRequest } from '../request.ts';
import { createFiller, type Filler } from '../requested-runs.ts';
import { sentence } from '../sentence.ts';
import { toCap, toNewRun } from '../to-runs.ts';
import { PLAIN_RUN, toStagedLine } from './staged-run.ts';

/** Agents per look-up. */
const AGENTS_PER_READ = 1_000;
/** Agents that are remembered from one portion to the next. */
const AGENTS_KEPT = 20_000;

/** Characters of filled templates at which a portion ends. */
const FILLED_CHARS_PER_PORTION = 2_000_000;

/** The facts that lines are checked against. */
export interface LineFacts {
  readonly db: Database;
  readonly projectId: string;
  readonly prices: PriceTable;
  /** The database's time at the start of the upload. */
  readonly now: Date;
}

/** The batch of an upload, as its first line has it. */
export interface UploadHead {
  readonly options: BatchOptions;
  readonly template: TemplateRequest | null;
  readonly tools: ToolChoice | null;
  /** Pointer to the batch, for errors. */
  readonly path: string;
  /** Most characters of all filled templates. */
  readonly filled_chars_max: number;
}

/** A valid line: a request, or values for the template. */
export interface UploadLine {
  /** Number of the line in the upload, from 1. */
  readonly line: number;
  readonly request: RunRequest | TemplateInput;
}

/** Wrong fields of lines. */
export interface LineErrors {
  readonly code: ErrorCode;
  readonly fields: readonly FieldError[];
  /** Null if there may be more. */
  readonly total: number | null;
}

/** A portion of lines to stage, and the errors in it. */
export interface PlannedLines {
  /** Number of the lines that were checked: the first ones. The others are for the next portion. */
  readonly taken: number;
  readonly lines: readonly StagedLine[];
  readonly errors: readonly LineErrors[];
}

/** The checks of an upload, from portion to portion. */
export interface LinePlan {
  /** The fields that lines omit. */
  readonly shared: NewRun;
  /** Whether a line had a cap of its own. */
  hasCappedRuns(): boolean;
  /**
   * Checks a portion as {@link planBatch} checks a batch, or its first lines if their filled templates are large.
   * Throws: a refusal of the batch itself.
   */
  plan(lines: readonly UploadLine[]): Promise<PlannedLines>;
}

/** Returns the pointer to a line. */
export function linePath(line: number): string {
  return `/lines/${line}`;
}

/**
 * Opens the checks of an upload.
 * Throws: `validation_failed` for an unusable template.
 */
export function openLinePlan(facts: LineFacts, head: UploadHead): LinePlan {
  const { template, options, tools, path } = head;
  const templatePath = `${path}/template`;
  const filler =
    template === null
      ? null
      : createFiller(template, tools, `${templatePath}/input`, () => undefined, head.filled_chars_max);
  const shared = filler?.shared ?? { ...PLAIN_RUN, tools };
  const schemas = createSchemaCheck();
  const readAgents = createAgentReader(facts, shared, template !== null);
  const yieldIfDue = yieldEvery(HELD_MS_MAX);
  let hasCappedRuns = shared.cap !== undefined && isCapped(shared.cap);
  let isTemplateChecked = template === null;

  const checkSchemas = async (at: string, holder: RunRequest | TemplateRequest): Promise<FieldError[]> => {
    const fields: FieldError[] = [];
    if (holder.client_tools == null && holder.response_format == null) return fields;
    for (const field of schemas(at, holder)) {
      await yieldIfDue();
      if (field !== null) fields.push(field);
    }
    return fields;
  };

  const toRuns = async (lines: readonly UploadLine[]) => {
    if (filler !== null) return fillIn(filler, lines);
    const fields: FieldError[] = [];
    for (const { line, request } of lines)
      fields.push(...(await checkSchemas(linePath(line), request as RunRequest)));
    const runs = lines.map(({ request }) => toNewRun(request as RunRequest, tools));
    return { runs, fields, taken: lines.length, isAll: true };
  };

  const plan = async (given: readonly UploadLine[]): Promise<PlannedLines> => {
    if (!isTemplateChecked && template !== null) {
      refuse(await checkSchemas(templatePath, template));
      isTemplateChecked = true;
    }
    const { runs, fields, taken, isAll } = await toRuns(given);
    const lines = given.slice(0, taken);
    const errors: LineErrors[] = [];
    if (fields.length > 0)
      errors.push({ code: 'validation_failed', fields, total: isAll ? fields.length : null });
    // Runs of a template stand at other places once an input is wrong.
    if (runs.length < lines.length) return { taken, lines: [], errors };
    hasCappedRuns ||= template === null && runs.some(({ cap }) => cap !== undefined && isCapped(cap));
    const places: BatchPlaces = { batch: path, runOf: (index) => linePath(lines[index]?.line ?? 0) };
    const shared_path = template === null ? null : templatePath;
    const cap = toCap(options);
    const batch = { deadline: options.deadline ?? null, cap, runs, tools, shared_path, places };
    const requested = requestedDefinitions(runs);
    const agents = await readAgents(requested);
    const named = await readNamedTools(facts.db, facts.projectId, runs);
    const planned = planBatch(batch, {
      now: facts.now,
      prices: facts.prices,
      requested,
      agents,
      tools: named,
    });
    if (planned.kind === 'refusal') {
      const { code, message, ...refusal } = planned.refusal;
      // The batch itself is wrong: every portion would say so.
      if (refusal.fields.some((field) => field.path.startsWith(path) && path !== ''))
        throw new NightshiftError(code, message, refusal);
      errors.push({ code, fields: refusal.fields, total: refusal.fields_total ?? refusal.fields.length });
    }
    const staged = errors.length > 0 ? [] : runs.map((run) => toStagedLine(run, shared));
    return { taken, lines: staged, errors };
  };
  return { shared, hasCappedRuns: () => hasCappedRuns, plan };
}

async function fillIn(filler: Filler, lines: readonly UploadLine[]) {
  const inputs = lines.map(({ request }) => request as TemplateInput);
  const pathOf = (index: number): string => linePath(lines[index]?.line ?? 0);
  const { runs, fields, filled } = await filler.fill(inputs, pathOf, FILLED_CHARS_PER_PORTION);
  // A hundred errors are enough: the other inputs are left out.
  const isEnough = fields.length >= ISSUES_MAX;
  const taken = isEnough ? inputs.length : filled;
  return { runs, fields, taken, isAll: filled === taken };
}

function refuse(fields: readonly FieldError[]): void {
  const [first] = fields;
  if (first === undefined) return;
  throw new NightshiftError('validation_failed', sentence(`${first.path}: ${first.message}`), { fields });
}

/**
 * Creates a reader of the agents of portions. It keeps the agents of requests with the additions of the `shared` run alone,
 * and of a template, whose additions are always the same: a file names an agent many times.
 */
function createAgentReader({ db, projectId }: LineFacts, shared: NewRun, hasTemplate: boolean) {
  const kept = new Map<string, RunAgent>();
  const choice = requestedDefinitions([shared])[0]?.added.tool_choice_json ?? null;
  const isKept = ({ added }: RequestedDefinition): boolean =>
    hasTemplate ||
    (added.client_tools_json === null &&
      added.result_format_json === null &&
      added.tool_choice_json === choice);
  return async (requested: readonly RequestedDefinition[]): Promise<ReadonlyMap<string, RunAgent>> => {
    const agents = new Map<string, RunAgent>();
    const unread: RequestedDefinition[] = [];
    const seen = new Set<string>();
    for (const request of requested) {
      if (seen.size === seen.add(request.key).size) continue;
      const agent = isKept(request) ? kept.get(request.agent_id) : undefined;
      if (agent === undefined) unread.push(request);
      else agents.set(request.key, agent);
    }
    for (let from = 0; from < unread.length; from += AGENTS_PER_READ) {
      const part = unread.slice(from, from + AGENTS_PER_READ);
      const read = await readRunAgents(db, projectId, part);
      if (kept.size + read.size > AGENTS_KEPT) kept.clear();
      for (const request of part) {
        const agent = read.get(request.key);
        if (agent === undefined) continue;
        agents.set(request.key, agent);
        if (isKept(request)) kept.set(request.agent_id, agent);
      }
    }
    return agents;
  };
}
