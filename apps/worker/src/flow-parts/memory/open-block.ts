import type { BlockView, ConflictPolicy, HeldBlock } from '@nightshift/agent-core';
import type { RunToDecide } from '@nightshift/db';

/** A block while the memory calls of a chunk are carried out. */
export interface OpenBlock extends BlockView {
  readonly policy: ConflictPolicy;
  /** The run that wrote the present revision; null for a person. */
  readonly writer_run_id: string | null;
}

export type Seen = NonNullable<HeldBlock['seen']>;

/** Names what a run knows of a block. */
export function seenKey(runId: string, blockId: string): string {
  return `${runId}/${blockId}`;
}

/** Names whose list of blocks a run works on: its agent's, or its agent's in a batch under review. */
export function ownerOf(run: Pick<RunToDecide, 'agent_id' | 'batch_id' | 'batch_apply'>): string {
  return run.batch_apply === 'review' ? `${run.batch_id}/${run.agent_id}` : run.agent_id;
}
