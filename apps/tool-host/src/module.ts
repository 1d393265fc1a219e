import { pathToFileURL } from 'node:url';
import {
  CONCURRENCY_MAX,
  RESULT_CHAR_LIMIT_DEFAULT,
  RESULT_CHAR_LIMIT_MAX,
  SIDE_EFFECTS_DEFAULT,
  SPEED_DEFAULT,
  TIMEOUT_MS_DEFAULT,
  TIMEOUT_MS_MAX,
  type SideEffects,
  type Speed,
  type ToolModule,
} from './contract.ts';
import type { ModuleInspection } from './thread-messages.ts';

type RunFunction = ToolModule['run'];

const SPEEDS: readonly Speed[] = ['fast', 'slow'];
const SIDE_EFFECTS: readonly SideEffects[] = ['none', 'idempotent', 'once'];
const EXPORTS: readonly (keyof ToolModule)[] = [
  'description',
  'parameters',
  'run',
  'sideEffects',
  'speed',
  'concurrency',
  'timeoutMs',
  'resultCharLimit',
];
const APPROVALS_ARE_SET =
  'approvals are set through the API: for all agents by PATCH /v1/tools/{tool_id} with default_requires_approval, for one ' +
  'by PATCH /v1/agents/{agent_id}/tools/approval/{tool_name} or its tool rule requires_approval';
const functionOfFile = new Map<string, RunFunction>();

/**
 * Returns the `run` of the module, imported once per thread.
 * Throws: the error of the import.
 */
export async function loadRun(file: string): Promise<RunFunction> {
  const loaded = functionOfFile.get(file);
  if (loaded !== undefined) return loaded;
  const exports = await importExports(file);
  const { run } = exports;
  if (typeof run !== 'function') throw new TypeError(`${file} exports no function named run`);
  // Bound, because a default-exported object may use `this`.
  const bound = (run as RunFunction).bind(exports);
  functionOfFile.set(file, bound);
  return bound;
}

/** Imports the module and checks its exports; the reason names the faulty export. */
export async function inspect(file: string): Promise<ModuleInspection> {
  const exports = await importExports(file);
  const refuse = (reason: string): ModuleInspection => ({ usable: false, reason });

  const problem = refuseUnknownExport(exports);
  if (problem !== undefined) return refuse(problem);
  const { description, parameters, run } = exports;
  if (typeof description !== 'string' || description.trim() === '') {
    return refuse('description must be a non-empty string; export const description = …');
  }
  const schema = plainJsonObject(parameters);
  if (schema === undefined) {
    return refuse(
      'parameters must be a JSON Schema object of plain JSON values; export const parameters = …',
    );
  }
  if (schema['type'] !== 'object') {
    return refuse(`parameters.type must be 'object'; the arguments of a tool are always an object`);
  }
  if (typeof run !== 'function')
    return refuse('run must be a function; export function run(args, context) { … }');

  const sideEffects = exports['sideEffects'] ?? SIDE_EFFECTS_DEFAULT;
  if (!SIDE_EFFECTS.includes(sideEffects as SideEffects)) {
    return refuse(`sideEffects must be one of ${SIDE_EFFECTS.map((name) => `'${name}'`).join(', ')}`);
  }
  const speed = exports['speed'] ?? SPEED_DEFAULT;
  if (!SPEEDS.includes(speed as Speed)) return refuse(`speed must be 'fast' or 'slow'`);
  const concurrency = exports['concurrency'] ?? null;
  if (concurrency !== null && !isWithin(concurrency, CONCURRENCY_MAX)) {
    return refuse(`concurrency must be a whole number of calls from 1 to ${CONCURRENCY_MAX}`);
  }
  const timeoutMs = exports['timeoutMs'] ?? TIMEOUT_MS_DEFAULT;
  if (!isWithin(timeoutMs, TIMEOUT_MS_MAX)) {
    return refuse(`timeoutMs must be a whole number of milliseconds from 1 to ${TIMEOUT_MS_MAX}`);
  }
  const resultCharLimit = exports['resultCharLimit'] ?? RESULT_CHAR_LIMIT_DEFAULT;
  if (!isWithin(resultCharLimit, RESULT_CHAR_LIMIT_MAX)) {
    return refuse(`resultCharLimit must be a whole number of characters from 1 to ${RESULT_CHAR_LIMIT_MAX}`);
  }
  return {
    usable: true,
    description,
    parameters: schema,
    side_effects: sideEffects as SideEffects,
    speed: speed as Speed,
    concurrency,
    timeout_ms: timeoutMs,
    result_char_limit: resultCharLimit,
  };
}

/** Returns the reason for refusing an unknown export: a misspelt `sideEffects` would count as its default. */
function refuseUnknownExport(exports: Record<string, unknown>): string | undefined {
  // The namespace of a CommonJS module also holds the whole object, under both names.
  const isWhole = (name: string): boolean =>
    name === 'module.exports' || (name === 'default' && typeof exports[name] === 'object');
  const name = Object.keys(exports).find(
    (key) => !EXPORTS.includes(key as keyof ToolModule) && !isWhole(key),
  );
  if (name === undefined) return undefined;
  if (name === 'default') {
    return 'exports a default; a tool is exported by name: export function run(args, context) { … }';
  }
  const meant = EXPORTS.find((known) => known.toLowerCase() === name.replaceAll('_', '').toLowerCase());
  if (meant !== undefined) return `exports '${name}'; the name is ${meant}`;
  const elsewhere = /approval/i.test(name) ? `; ${APPROVALS_ARE_SET}` : '';
  return `exports '${name}', which is not part of a tool; it may export ${EXPORTS.join(', ')}; keep helpers in a file whose name begins with _${elsewhere}`;
}

/** Imports the module's named exports, or its default export if that object holds `run`. */
async function importExports(file: string): Promise<Record<string, unknown>> {
  const namespace = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  const fallback = namespace['default'];
  if (namespace['run'] === undefined && typeof fallback === 'object' && fallback !== null) {
    return fallback as Record<string, unknown>;
  }
  return namespace;
}

function plainJsonObject(value: unknown): Record<string, unknown> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  try {
    return JSON.parse(JSON.stringify(value)) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

function isWithin(value: unknown, max: number): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max;
}
