/** Runs many seeds in several processes over one server. */
import { fork, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import type { SimulationResult } from './simulation.ts';

/** A process's report of one seed. */
export interface SeedReport extends Omit<SimulationResult, 'trace'> {
  /** Trace lines of a failed seed; empty for others. */
  readonly trace: readonly string[];
  /** For a failed seed: whether a second and a third run from an equal database gave the same trace. */
  readonly isRepeatable: boolean | null;
}

/** Runs `seeds` in `processes` processes and calls `onReport` as each seed ends. */
export async function runCampaign(
  serverUrl: string,
  seeds: Iterable<number>,
  processes: number,
  onReport: (report: SeedReport) => void,
): Promise<void> {
  const queue = seeds[Symbol.iterator]();
  const runOne = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const child: ChildProcess = fork(join(import.meta.dirname, 'seed-process.ts'), [serverUrl]);
      const next = (): void => {
        const step = queue.next();
        child.send(step.done === true ? { kind: 'end' } : { kind: 'seed', seed: step.value });
      };
      child.on(
        'message',
        (message: { readonly kind: 'ready' } | { readonly kind: 'report'; readonly report: SeedReport }) => {
          if (message.kind === 'report') onReport(message.report);
          next();
        },
      );
      child.on('error', reject);
      child.on('exit', (code) => {
        if (code === 0) resolve();
        else
          reject(
            new Error(`A process of the simulation ended with code ${String(code)}; its message is above.`),
          );
      });
    });
  await Promise.all(Array.from({ length: processes }, runOne));
}
