import type { Stack } from '../stack/stack.ts';
import type { Client } from './client.ts';
import { createProgressBar, type BatchProgress, type ProgressBar } from './progress.ts';

const LOOK_MS = 100;
/** Milliseconds without a step after which a batch counts as stuck. */
const STUCK_MS = 120_000;

interface Watch {
  readonly label: string;
  readonly stepsExpected: number;
  /** The directory that the error of a stuck batch names. */
  readonly logs: string;
  /** The provider is the real one, which may take its time. */
  readonly mayRest?: boolean;
  /** What the batch waits for after so many milliseconds without a step; null for no known reason. */
  readonly waitsFor?: (quietMs: number) => string | null;
  /** Called after each look at a batch that goes on. */
  readonly onLook?: (batch: BatchProgress, bar: ProgressBar) => Promise<void>;
}

/**
 * Shows the progress of a batch until it has ended, and returns it.
 * @throws when it will not end by itself.
 */
export async function untilEnded(
  client: Client,
  stack: Stack,
  batchId: string,
  watch: Watch,
): Promise<BatchProgress> {
  const bar = createProgressBar(watch.label, watch.stepsExpected);
  let last = { steps: -1, at: performance.now() };
  try {
    for (;;) {
      const batch = await client.get<BatchProgress & { readonly status: string }>(
        `/v1/messages/batches/${batchId}`,
      );
      const { steps } = batch.usage;
      const alive = stack.workers.filter((worker) => worker.alive()).length;
      if (steps !== last.steps) last = { steps, at: performance.now() };
      const quietMs = performance.now() - last.at;
      const isOver = ['completed', 'failed', 'cancelled'].includes(batch.status);
      bar.show(batch, alive, isOver ? null : (watch.waitsFor?.(quietMs) ?? null));
      if (isOver) return batch;
      const stuck = whyStuck(batch, alive, watch.mayRest === true ? 0 : quietMs);
      if (stuck !== null) throw new Error(`${stuck}; the logs are in ${watch.logs}.`);
      await watch.onLook?.(batch, bar);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  } finally {
    bar.end();
  }
}

/** Why a batch will not end by itself; null while it may. */
function whyStuck({ state, state_reason }: BatchProgress, alive: number, quietMs: number): string | null {
  if (alive === 0) return 'No worker is left';
  if (state === 'paused') return `The batch is paused: ${state_reason}`;
  return quietMs > STUCK_MS ? `No step for ${STUCK_MS / 1_000} s` : null;
}
