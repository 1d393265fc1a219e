import { isApiError, type BatchCreate, type Schedule, type ScheduleCreate } from '@nightshift/client';

/** A schedule as it stands in the form. */
export interface ScheduleDraft {
  readonly name: string;
  readonly cron: string;
  readonly timeZone: string;
  readonly kind: 'rewrite' | 'json';
  /** Separated by spaces, as are `blocks`. */
  readonly tags: string;
  readonly blocks: string;
  readonly instruction: string;
  readonly isReviewed: boolean;
  readonly cap: string;
  readonly json: string;
}

/** Fields of a body that the form has; a body with others is shown as JSON. */
const FORM_FIELDS = new Set(['kind', 'agents', 'blocks', 'instruction', 'apply', 'max_cost_usd']);

export const NEW_DRAFT: ScheduleDraft = {
  name: '',
  cron: '0 2 * * *',
  timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  kind: 'rewrite',
  tags: '',
  blocks: '',
  instruction: '',
  isReviewed: true,
  cap: '',
  json: JSON.stringify(
    { agents: { tags: ['customer'] }, input: 'What is new since {{ last_run }}?', max_cost_usd: 25 },
    null,
    2,
  ),
};

const wordsOf = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== '');

/**
 * Makes the body of the batch.
 * Throws: a SyntaxError for text that is no JSON.
 */
export function bodyOf(draft: ScheduleDraft): BatchCreate {
  // The API says what is wrong with a body; a wrong type cannot get further.
  if (draft.kind === 'json') return JSON.parse(draft.json) as BatchCreate;
  return {
    kind: 'memory_rewrite',
    agents: { tags: wordsOf(draft.tags) },
    blocks: wordsOf(draft.blocks),
    ...(draft.instruction !== '' && { instruction: draft.instruction }),
    apply: draft.isReviewed ? 'review' : 'auto',
    ...(draft.cap !== '' && { max_cost_usd: Number(draft.cap) }),
  };
}

/**
 * Makes the request that stores the draft.
 * Throws: a SyntaxError for text that is no JSON.
 */
export function scheduleOf(draft: ScheduleDraft): ScheduleCreate {
  const { name, cron, timeZone } = draft;
  return { name, cron, time_zone: timeZone, body: bodyOf(draft) };
}

/** Reads a stored schedule into the form. */
export function draftOf({ name, cron, time_zone, body }: Schedule): ScheduleDraft {
  const common = { ...NEW_DRAFT, name, cron, timeZone: time_zone, json: JSON.stringify(body, null, 2) };
  const { kind, agents, blocks, instruction, apply, max_cost_usd } = body as BatchCreate;
  const isForm =
    kind === 'memory_rewrite' &&
    Object.entries(body).every(([key, value]) => value === null || FORM_FIELDS.has(key)) &&
    Object.entries(agents ?? {}).every(([key, value]) => value === null || key === 'tags');
  if (!isForm) return { ...common, kind: 'json' };
  return {
    ...common,
    tags: (agents?.tags ?? []).join(' '),
    blocks: (blocks ?? []).join(' '),
    instruction: instruction ?? '',
    isReviewed: apply === 'review',
    cap: max_cost_usd?.toString() ?? '',
  };
}

/** Returns what the API said of a field and of what is in it; undefined if nothing. */
export function errorAt(error: unknown, path: string): string | undefined {
  if (error instanceof SyntaxError)
    return path === '/body' ? `This is no JSON: ${error.message}.` : undefined;
  if (!isApiError(error)) return undefined;
  const found = error.errors.filter((field) => field.path === path || field.path.startsWith(`${path}/`));
  return found.length === 0 ? undefined : found.map(({ message }) => message).join(' ');
}
