import { readdirSync, readFileSync } from 'node:fs';
import {
  startSandboxHost,
  type SandboxFetch,
  type SandboxRequest,
} from '../../apps/sandbox-host/src/index.ts';
import type { HostileProgram, HostileReply } from './programs.ts';

/** Runs hostile programs, each beside calls of a harmless neighbour, and measures their end and their memory. */

/** A place that runs hostile programs. */
export interface HostileHost {
  /** Its layers, one a line. */
  readonly layers: readonly string[];
  /** Whether each call starts a process, whose start is no time of the program. */
  readonly startsProcesses: boolean;
  /** A program whose result is `{"sum":6000}`. */
  readonly neighbour: HostileProgram;
  /** Runs a program. Never rejects. */
  call(program: HostileProgram, timeout_ms: number): Promise<HostileReply>;
  /** Resident memory of the programs under way. Unit: megabytes. */
  memoryMb(): number;
  close(): Promise<void>;
}

export interface HostileBounds {
  readonly timeout_ms: number;
  /** Maximum time of a program beyond its timeout. */
  readonly overtime_ms: number;
  /** Maximum growth of the host's processes while a program runs. */
  readonly growth_mb: number;
}

export interface HostileResult {
  readonly name: string;
  readonly status: HostileReply['status'];
  readonly elapsed_ms: number;
  readonly growth_mb: number;
  /** Calls of the neighbour beside the program. */
  readonly neighbours: number;
  readonly problems: readonly string[];
}

const SAMPLE_EVERY_MS = 10;
const NEIGHBOURS_MAX = 20;
/** Timeout of a program that must end by itself. */
const OWN_END_MS = 5_000;

/** Answers the requests of programs without a network; `/slow` answers when the call ends. */
export const answer: SandboxFetch = async ({ url }, { signal }) => {
  if (url.endsWith('/slow'))
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
  return { status: 200, headers: {}, body: url.endsWith('/large') ? 'x'.repeat(2_000_000) : 'answer' };
};

export async function startHostileHost(): Promise<HostileHost> {
  const host = await startSandboxHost({ fetch: answer, threads: 2 });
  return {
    layers: host.layers.map(({ name, holds, reason }) => `${holds ? 'on ' : 'off'} ${name} ${reason ?? ''}`),
    startsProcesses: false,
    neighbour: HARMLESS,
    call: (program, timeout_ms) => host.runCall(toRequest(program, timeout_ms)),
    memoryMb: () => residentMb(host.pid()),
    close: () => host.close(),
  };
}

function toRequest(program: HostileProgram, timeout_ms: number): SandboxRequest {
  return {
    call_id: program.name,
    tool_name: 'f',
    code: program.code,
    parameters: ['a', 'b'],
    arguments: program.arguments ?? {},
    timeout_ms,
    now_ms: Date.UTC(2026, 0, 1),
    idempotency_key: program.name,
    network: program.network ?? [],
    side_effects: 'once',
    result_char_limit: 50_000,
  };
}

const HARMLESS: HostileProgram = {
  name: 'neighbour',
  code: 'export function f(a, b) { let sum = 0; for (let i = 0; i < 1000; i++) sum += a * b; return { sum }; }',
  arguments: { a: 2, b: 3 },
};

async function callNeighbour(host: HostileHost): Promise<string | undefined> {
  const { status, result } = await host.call(host.neighbour, 10_000);
  return status === 'succeeded' && result === '{"sum":6000}' ? undefined : `neighbour ${status}: ${result}`;
}

/** Calls the neighbour twice at a time. Returns the median time of a call. Unit: milliseconds. */
export async function warmUp(host: HostileHost, rounds: number): Promise<number> {
  const times: number[] = [];
  const call = async (): Promise<void> => {
    const startedAt = performance.now();
    await callNeighbour(host);
    times.push(performance.now() - startedAt);
  };
  for (let at = 0; at < rounds; at += 1) await Promise.all([call(), call()]);
  return times.toSorted((a, b) => a - b)[rounds] ?? 0;
}

/** Runs a program beside the neighbour. */
export async function runHostile(
  host: HostileHost,
  program: HostileProgram,
  bounds: HostileBounds,
): Promise<HostileResult> {
  await warmUp(host, 1);
  const problems: string[] = [];
  const before = host.memoryMb();
  let peak = before;
  const sampling = setInterval(() => {
    peak = Math.max(peak, host.memoryMb());
  }, SAMPLE_EVERY_MS);
  const startedAt = performance.now();
  const timeout_ms =
    program.status === 'succeeded' || program.status === 'failed' ? OWN_END_MS : bounds.timeout_ms;
  const ended = new AbortController();
  const running = host.call(program, timeout_ms).finally(() => ended.abort());
  let neighbours = 0;
  while (!ended.signal.aborted && neighbours < NEIGHBOURS_MAX) {
    const problem = await callNeighbour(host);
    neighbours += 1;
    if (problem !== undefined) problems.push(problem);
  }
  const reply = await running;
  const elapsed = performance.now() - startedAt;
  clearInterval(sampling);
  const growth = Math.max(peak, host.memoryMb()) - before;
  if (elapsed > timeout_ms + bounds.overtime_ms) problems.push(`it took ${Math.round(elapsed)} ms`);
  if (growth > bounds.growth_mb) problems.push(`the host grew by ${Math.round(growth)} MB`);
  problems.push(...problemsOf(program, reply));
  return {
    name: program.name,
    status: reply.status,
    elapsed_ms: elapsed,
    growth_mb: growth,
    neighbours,
    problems,
  };
}

function problemsOf(program: HostileProgram, reply: HostileReply): readonly string[] {
  const { status, result } = reply;
  const problems: string[] = [];
  const shown = `${status}: ${JSON.stringify(result.slice(0, 100))}`;
  if (status === 'crashed' && program.status !== 'crashed') problems.push(shown);
  if (program.status !== undefined && program.status !== status)
    problems.push(`not ${program.status} but ${shown}`);
  const { result: wanted } = program;
  if (typeof wanted === 'string' ? wanted !== result : wanted?.test(result) === false)
    problems.push(`not ${String(wanted)} but ${shown}`);
  const problem = program.problem?.(reply);
  if (problem !== undefined) problems.push(problem);
  if (reply.result.length > 50_000) problems.push(`the result has ${reply.result.length} characters`);
  if (reply.stdout.length > 4_096 || reply.stderr.length > 4_096) problems.push('the output is not cut');
  return problems;
}

/** Returns the resident memory of a process and its children. */
export function residentMb(pid: number | undefined): number {
  if (pid === undefined) return 0;
  try {
    const [, kilobytes = '0'] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return childrenOf(pid).reduce((sum, child) => sum + residentMb(child), Number(kilobytes) / 1024);
  } catch {
    // The process has ended meanwhile.
    return 0;
  }
}

/** Returns the children of a process. Throws: it has ended. */
export function childrenOf(pid: number): readonly number[] {
  return readdirSync(`/proc/${pid}/task`)
    .flatMap((task) => readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' '))
    .filter(Boolean)
    .map(Number);
}
