import type { PlannedCall } from '../model/planned-call.ts';
import type { DraftLabels } from './draft.ts';

/** A label used by an agent. */
export interface UsedLabel {
  readonly agent_id: string;
  readonly block_id: string;
  readonly label: string;
}

/** The labels of agents, while the calls of a chunk rename, create and detach blocks. */
export interface LabelsInUse {
  /** Returns whether an agent with the block has another block of this label, after the draft of `agentId`. */
  isTaken(agentId: string, blockId: string, label: string, drafted: DraftLabels): boolean;
  put(agentId: string, blockId: string, label: string): void;
  rename(blockId: string, label: string): void;
  remove(agentId: string, blockId: string): void;
}

/** Returns whether a call may rename a block, which needs the labels of other agents. */
export function mayRename({ tool_name, args }: PlannedCall): boolean {
  if (tool_name === 'memory') return args['command'] === 'rename';
  const { patch } = args;
  return tool_name === 'memory_apply_patch' && typeof patch === 'string' && patch.includes('*** Move to:');
}

/** Opens the stored labels. */
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
