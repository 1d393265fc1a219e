import type { BatchCreate } from '@nightshift/client';
import { parseInputs } from './parse-inputs.ts';

export type Way = 'template' | 'fleet' | 'file';

/** A batch as it stands in the form; the file is beside it, because a browser keeps no file. */
export interface BatchDraft {
  readonly way: Way;
  readonly agentId: string;
  readonly template: string;
  /** Pasted CSV or JSON lines. */
  readonly inputs: string;
  readonly kind: 'fleet' | 'memory_rewrite';
  /** Tags of agents, separated by spaces, as are `blocks` and `tags`. */
  readonly agentTags: string;
  readonly agentName: string;
  readonly input: string;
  readonly blocks: string;
  readonly instruction: string;
  readonly name: string;
  readonly tags: string;
  readonly cap: string;
  readonly maxSteps: string;
  readonly isReviewed: boolean;
  readonly pilotRuns: string;
}

export const NEW_BATCH: BatchDraft = {
  way: 'template',
  agentId: '',
  template: '',
  inputs: '',
  kind: 'fleet',
  agentTags: '',
  agentName: '',
  input: '',
  blocks: '',
  instruction: '',
  name: '',
  tags: '',
  cap: '',
  maxSteps: '',
  isReviewed: false,
  pilotRuns: '',
};

const KEPT_AS = 'nightshift-new-batch';

/** Reads the draft that this tab has kept: a reload and a look at another page lose no input. */
export function keptDraft(): BatchDraft {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT_AS) ?? '{}') as Partial<BatchDraft>;
    return { ...NEW_BATCH, ...kept };
  } catch {
    return NEW_BATCH;
  }
}

/** Keeps the draft for this tab; null forgets it. A draft beyond the browser's quota is not kept. */
export function keepDraft(draft: BatchDraft | null): void {
  try {
    if (draft === null) sessionStorage.removeItem(KEPT_AS);
    else sessionStorage.setItem(KEPT_AS, JSON.stringify(draft));
  } catch {
    // The form works without it.
  }
}

const wordsOf = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== '');

/** Makes the part of a batch that is the same for all ways. */
export function settingsOf({ name, tags, cap, isReviewed, pilotRuns }: BatchDraft): BatchCreate {
  return {
    ...(name !== '' && { name }),
    ...(wordsOf(tags).length > 0 && { tags: wordsOf(tags) }),
    ...(cap !== '' && { max_cost_usd: Number(cap) }),
    ...(isReviewed && { apply: 'review' }),
    ...(pilotRuns !== '' && { pilot: { runs: Number(pilotRuns), then: 'pause' } }),
  };
}

/**
 * Makes the batch of a template or a fleet; null while the form has too little for one.
 * Throws: an InputsError for inputs that cannot be read.
 */
export function batchOf(draft: BatchDraft): BatchCreate | null {
  const steps = draft.maxSteps === '' ? {} : { max_steps: Number(draft.maxSteps) };
  if (draft.way === 'template') {
    const { agentId, template, inputs } = draft;
    if (agentId === '' || template.trim() === '' || inputs.trim() === '') return null;
    return {
      ...settingsOf(draft),
      template: { agent_id: agentId, input: template, ...steps },
      inputs: [...parseInputs(inputs)],
    };
  }
  return draft.way === 'fleet' ? fleetOf(draft, steps) : null;
}

function fleetOf(draft: BatchDraft, steps: Pick<BatchCreate, 'max_steps'>): BatchCreate | null {
  const { kind, agentTags, agentName, input, blocks, instruction } = draft;
  const tags = wordsOf(agentTags);
  if (tags.length === 0 && agentName === '') return null;
  const agents = {
    ...(tags.length > 0 && { tags }),
    ...(agentName !== '' && { query_text: agentName }),
  };
  const common = { ...settingsOf(draft), ...steps, kind, agents };
  if (kind === 'fleet') return input.trim() === '' ? null : { ...common, input };
  if (wordsOf(blocks).length === 0) return null;
  return { ...common, blocks: wordsOf(blocks), ...(instruction !== '' && { instruction }) };
}
