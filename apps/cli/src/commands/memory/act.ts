import type { HeldChange } from '@nightshift/client';
import { editText, keepText } from '../../editor.ts';
import { failureOf } from '../../failure.ts';
import type { Session } from '../../session.ts';
import { isRefusal } from '../../api-refusal.ts';
import type { ChosenChanges } from './changes.ts';
import { isEditable } from './draft.ts';
import type { HeldFlags } from './held.ts';
import type { Keys } from './keys.ts';
import type { Shown } from './review-screen.ts';
import type { Effect, ReviewEvent, ReviewState, Verdict } from './review-state.ts';
import { settle, settleChosen, type OnConflict, type Stale, type Verb } from './settle.ts';

/** A review in progress. */
export interface Review {
  readonly session: Session;
  readonly batchId: string;
  readonly keys: Keys;
  readonly list: ChosenChanges;
  readonly flags: HeldFlags;
}

/** Carries out an effect. Returns what came of it; undefined if a key is next. An error becomes a notice. */
export async function act(
  on: Review,
  state: ReviewState,
  effect: Effect,
  shown: Shown,
): Promise<ReviewEvent | undefined> {
  try {
    return await carryOut(on, state, effect, shown);
  } catch (error) {
    return { kind: 'told', notice: failureOf(error, on.session.config).message };
  }
}

async function carryOut(
  on: Review,
  state: ReviewState,
  effect: Effect,
  shown: Shown,
): Promise<ReviewEvent | undefined> {
  switch (effect) {
    case 'accept':
      return settleOne(on, 'accept', shown.change, 'fail');
    case 'merge':
      return settleOne(on, 'accept', shown.change, 'rebase');
    case 'overwrite':
      return settleOne(on, 'accept', shown.change, 'force');
    case 'reject':
      return settleOne(on, 'reject', shown.change, 'fail');
    case 'edit':
      return edit(on, shown);
    case 'write-edited':
      return state.question?.kind === 'edited' ? write(on, state.at, shown, state.question.text) : undefined;
    case 'count-accept':
      return askForRest(on, state, 'accept');
    case 'count-reject':
      return askForRest(on, state, 'reject');
    case 'settle-rest':
      return state.question?.kind === 'rest' ? settleRest(on, state, state.question.verb) : undefined;
    case 'none':
    case 'show':
    case 'show-whole':
    case 'help':
    case 'quit':
    case 'interrupt':
      return undefined;
  }
}

const VERDICTS: Readonly<Record<Verb, Verdict>> = { accept: 'accepted', reject: 'rejected' };

async function settleOne(
  { session, batchId }: Review,
  verb: Verb,
  change: HeldChange,
  onConflict: OnConflict,
): Promise<ReviewEvent> {
  const elsewhere = (notice: string): ReviewEvent => ({ kind: 'settled', verdict: 'elsewhere', notice });
  try {
    const { settled, stale } = await settle(session, batchId, verb, { change_ids: [change.id] }, onConflict);
    if (stale[0] !== undefined) return { kind: 'stale', reason: stale[0].reason };
    return settled === 0
      ? elsewhere('The change before was settled by others meanwhile.')
      : { kind: 'settled', verdict: VERDICTS[verb] };
  } catch (error) {
    if (!isRefusal(error, 'conflict', 'not_found')) throw error;
    return elsewhere(error.message);
  }
}

async function edit({ session, keys }: Review, { change, draft }: Shown): Promise<ReviewEvent> {
  if (!isEditable(change) || draft === null)
    return { kind: 'told', notice: 'This change has no text to edit: accept or reject it.' };
  const text = await keys.lend(() => editText(session.config.editor, draft.after, nameOf(change)));
  if (text === draft.after) return { kind: 'told', notice: 'The text is as it was: a accepts it.' };
  return { kind: 'asked', question: { kind: 'edited', text } };
}

function nameOf({ label }: HeldChange): string {
  return `${label.replaceAll(/[^\w-]/g, '_')}.txt`;
}

/** Puts a person's text in the place of the proposed one, and accepts the change. */
async function write(
  on: Review,
  place: number,
  { change, draft }: Shown,
  text: string,
): Promise<ReviewEvent> {
  const { session, batchId, list } = on;
  try {
    const body = { value: text, ...(draft !== null && { expected: draft.after }) };
    list.replace(place, await session.client.batches.editHeldChange(batchId, change.id, body));
  } catch (error) {
    const { message } = failureOf(error, session.config);
    const kept = await keepText(text, nameOf(change));
    return { kind: 'told', notice: `${message} Your text is kept in ${kept}.` };
  }
  const event = await settleOne(on, 'accept', change, 'fail');
  return event.kind === 'settled' && event.verdict === 'accepted' ? { ...event, verdict: 'edited' } : event;
}

/** Changes from the shown one on that are undecided, by place. */
async function restOf({ list }: Review, { at, verdicts }: ReviewState): Promise<Map<number, HeldChange>> {
  const rest = new Map<number, HeldChange>();
  for (let place = at; ; place++) {
    const change = await list.at(place);
    if (change === undefined) return rest;
    if (isOpen(verdicts.get(place))) rest.set(place, change);
  }
}

function isOpen(verdict: Verdict | undefined): boolean {
  return verdict === undefined || verdict === 'skipped';
}

/** Ids of the changes before the shown one that were skipped: they stay held. */
function skippedOf({ list }: Review, { at, verdicts }: ReviewState): string[] {
  return list.known.slice(0, at).flatMap(({ id }, place) => (isOpen(verdicts.get(place)) ? [id] : []));
}

async function askForRest(on: Review, state: ReviewState, verb: Verb): Promise<ReviewEvent> {
  const except = skippedOf(on, state);
  const plan = await settleChosen(on.session, on.batchId, verb, on.flags, { except, isDry: true });
  const { passages } = plan;
  const count = plan.settled + plan.stale.length;
  if (count + passages === 0) return { kind: 'told', notice: 'Nothing is left to decide from here on.' };
  return { kind: 'asked', question: { kind: 'rest', verb, count, passages } };
}

async function settleRest(on: Review, state: ReviewState, verb: Verb): Promise<ReviewEvent> {
  const { session, batchId, list, flags } = on;
  const rest = await restOf(on, state);
  const except = skippedOf(on, state);
  session.out.draw('Working …');
  const { stale } = await settleChosen(session, batchId, verb, flags, { except });
  session.out.draw('');
  return restEvent(rest, verb, stale, list.known.length);
}

function restEvent(
  rest: ReadonlyMap<number, HeldChange>,
  verb: Verb,
  stale: readonly Stale[],
  end: number,
): ReviewEvent {
  const keyOf = ({ agent_id, block_id, label }: Pick<Stale, 'agent_id' | 'block_id' | 'label'>): string =>
    [agent_id, block_id ?? label].join(' ');
  const reasons = new Map(stale.map((change) => [keyOf(change), change.reason]));
  const verdicts = new Map<number, Verdict>();
  const held = new Map<number, Stale['reason']>();
  for (const [place, change] of rest) {
    const reason = reasons.get(keyOf(change));
    if (reason === undefined) verdicts.set(place, VERDICTS[verb]);
    else held.set(place, reason);
  }
  return { kind: 'rest', verdicts, stale: held, end };
}
