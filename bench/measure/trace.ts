/** What each statement costs: CPU of the backend that carries it out, and of this thread while it is being sent. */
import { readFileSync } from 'node:fs';
import type pg from 'pg';

export interface StatementCost {
  calls: number;
  /** Milliseconds of CPU of the server's process. */
  backend_cpu_ms: number;
  rows: number;
  /** Characters of all parameters. */
  sent_chars: number;
}

type Costs = readonly (readonly [statement: string, cost: StatementCost])[];

/** What several processes noted, each statement once. */
export function mergeCosts(ofProcesses: readonly Costs[]): Costs {
  const merged = new Map<string, StatementCost>();
  for (const [statement, cost] of ofProcesses.flat()) {
    const before = merged.get(statement);
    merged.set(statement, {
      calls: (before?.calls ?? 0) + cost.calls,
      backend_cpu_ms: (before?.backend_cpu_ms ?? 0) + cost.backend_cpu_ms,
      rows: (before?.rows ?? 0) + cost.rows,
      sent_chars: (before?.sent_chars ?? 0) + cost.sent_chars,
    });
  }
  return [...merged];
}

interface TracedClient {
  readonly processID: number | null;
}

type Query = (this: TracedClient, ...parameters: readonly unknown[]) => unknown;

/** Nanoseconds that a process has been on a processor, as the scheduler counts them. */
function cpuNs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]);
  } catch {
    return 0;
  }
}

/** Notes the cost of every statement that clients of this module send, by its text. The server must be on this machine. */
export function traceStatements(module: Pick<typeof pg, 'Client'>, costs: Map<string, StatementCost>): void {
  const prototype = module.Client.prototype as unknown as { query: Query };
  const send = prototype.query;
  prototype.query = function traced(...parameters) {
    const pid = this.processID ?? 0;
    const before = cpuNs(pid);
    const [first, second] = parameters;
    const config = first as { text?: string; values?: unknown[] } | string;
    const text = (typeof config === 'string' ? config : (config.text ?? '')).replace(/\s+/g, ' ').trim();
    const values = typeof config === 'string' ? second : (config.values ?? second);
    const note = (rows: number | null | undefined): void => {
      let cost = costs.get(text);
      if (cost === undefined)
        costs.set(text, (cost = { calls: 0, backend_cpu_ms: 0, rows: 0, sent_chars: 0 }));
      cost.calls += 1;
      cost.backend_cpu_ms += (cpuNs(pid) - before) / 1e6;
      cost.rows += rows ?? 0;
      cost.sent_chars += charsOf(values);
    };
    // A pool's own `query` hands a callback down; other callers await a promise.
    const last = parameters.at(-1);
    if (typeof last === 'function') {
      const callback = last as (error: unknown, result?: Answer) => void;
      return send.apply(this, [
        ...parameters.slice(0, -1),
        (error: unknown, result?: Answer) => {
          note(result?.rowCount);
          callback(error, result);
        },
      ]);
    }
    const answer = send.apply(this, [...parameters]);
    if (answer instanceof Promise) {
      void answer.then(
        (result: Answer) => note(result.rowCount),
        () => undefined,
      );
    }
    return answer;
  };
}

interface Answer {
  readonly rowCount?: number | null;
}

function charsOf(values: unknown): number {
  if (!Array.isArray(values)) return 0;
  return values.reduce<number>((sum, value) => sum + (typeof value === 'string' ? value.length : 0), 0);
}
