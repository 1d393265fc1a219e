import type { Stack } from '../stack/stack.ts';
import type { Client } from './client.ts';
import { createProgressBar, type BatchProgress, type ProgressBar } from './progress.ts';

const LOOK_MS = 100;
/** Milliseconds without a step after which a batch counts as stuck. */
const STUCK_MS = 120_000;

interface Watch {
  readonly label: string;
  readonly stepsExpected: number;
  /** Directory named in the error of a stuck batch. */
  readonly logs: string;
  /** Whether the real provider answers, which may take hours. */
  readonly mayRest?: boolean;
  /** Returns the reason for a time without a step; null without a known reason. */
  readonly waitsFor?: (quietMs: number) => string | null;
  /** Called after each look at an open batch. */
  readonly onLook?: (batch: BatchProgress, bar: ProgressBar) => Promise<void>;
}

/**
 * Shows the progress of a batch until it has ended, and returns it.
 * Throws when the batch cannot end by itself.
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

/** Returns the reason why a batch cannot end by itself, or null. */
function whyStuck({ state, state_reason }: BatchProgress, alive: number, quietMs: number): string | null {
  if (alive === 0) return 'No worker is left';
  if (state === 'paused') return `The batch is paused: ${state_reason}`;
  return quietMs > STUCK_MS ? `No step for ${STUCK_MS / 1_000} s` : null;
}
