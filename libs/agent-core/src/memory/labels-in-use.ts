import type { PlannedCall } from '../model/planned-call.ts';
import type { DraftLabels } from './draft.ts';

/** A label that an agent uses. */
export interface UsedLabel {
  readonly agent_id: string;
  readonly block_id: string;
  readonly label: string;
}

/** Which labels agents use, while the calls of a chunk rename, make and give up blocks. */
export interface LabelsInUse {
  /** Whether an agent that has the block has another block of this label, after what `agentId` has drafted. */
  isTaken(agentId: string, blockId: string, label: string, drafted: DraftLabels): boolean;
  put(agentId: string, blockId: string, label: string): void;
  rename(blockId: string, label: string): void;
  remove(agentId: string, blockId: string): void;
}

/** True for a call that may rename a block: only then is it asked what other agents use. */
export function mayRename({ tool_name, args }: PlannedCall): boolean {
  if (tool_name === 'memory') return args['command'] === 'rename';
  const { patch } = args;
  return tool_name === 'memory_apply_patch' && typeof patch === 'string' && patch.includes('*** Move to:');
}

/** The labels as stored. */
export function labelsInUse(used: readonly UsedLabel[]): LabelsInUse {
  const labelsOf = new Map<string, Map<string, string>>();
  const put = (agentId: string, blockId: string, label: string): void => {
    const labels = labelsOf.get(agentId);
    if (labels === undefined) labelsOf.set(agentId, new Map([[blockId, label]]));
    else labels.set(blockId, label);
  };
  const holdersOf = (blockId: string): readonly (readonly [string, Map<string, string>])[] =>
    [...labelsOf].filter(([, labels]) => labels.has(blockId));
  for (const { agent_id, block_id, label } of used) put(agent_id, block_id, label);
  return {
    put,
    isTaken: (agentId, blockId, label, { detached, renamed }) =>
      holdersOf(blockId).some(([holder, labels]) =>
        [...labels].some(
          ([id, stored]) =>
            id !== blockId &&
            (renamed.get(id) ?? stored) === label &&
            !(holder === agentId && detached.has(id)),
        ),
      ),
    rename(blockId, label) {
      for (const [, labels] of holdersOf(blockId)) labels.set(blockId, label);
    },
    remove(agentId, blockId) {
      labelsOf.get(agentId)?.delete(blockId);
    },
  };
}
