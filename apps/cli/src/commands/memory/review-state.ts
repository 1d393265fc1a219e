import type { Stale, Verb } from './settle.ts';

/** What became of a change in this review. `elsewhere`: settled by others meanwhile. */
export type Verdict = 'accepted' | 'edited' | 'rejected' | 'skipped' | 'elsewhere';

/** A question that takes y or n. */
export type Question =
  | { readonly kind: 'rest'; readonly verb: Verb; readonly count: number; readonly passages: number }
  | { readonly kind: 'edited'; readonly text: string };

export interface ReviewState {
  /** Place of the shown change. */
  readonly at: number;
  /** Verdicts by the place of the change. */
  readonly verdicts: ReadonlyMap<number, Verdict>;
  /** Reasons for which accepted changes stayed held, by place. */
  readonly stale: ReadonlyMap<number, Stale['reason']>;
  readonly question: Question | null;
  /** Line for the user, about the last event. */
  readonly notice: string | null;
}

/** What the loop has to do. */
export type Effect =
  | 'none'
  /** Show the change of `state.at`. */
  | 'show'
  | 'show-whole'
  | 'help'
  | 'accept'
  | 'merge'
  | 'overwrite'
  | 'edit'
  | 'reject'
  | 'count-accept'
  | 'count-reject'
  | 'settle-rest'
  | 'write-edited'
  | 'quit'
  | 'interrupt';

export type ReviewEvent =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'settled'; readonly verdict: Verdict; readonly notice?: string }
  | { readonly kind: 'stale'; readonly reason: Stale['reason'] }
  /** The rest was settled, up to the place `end`; the places of `stale` stay held. */
  | {
      readonly kind: 'rest';
      readonly verdicts: ReadonlyMap<number, Verdict>;
      readonly stale: ReadonlyMap<number, Stale['reason']>;
      readonly end: number;
    }
  | { readonly kind: 'asked'; readonly question: Question }
  | { readonly kind: 'told'; readonly notice: string };

export interface Step {
  readonly state: ReviewState;
  readonly effect: Effect;
}

export const START: ReviewState = {
  at: 0,
  verdicts: new Map(),
  stale: new Map(),
  question: null,
  notice: null,
};

const INTERRUPT = '\u0003';
const END_OF_INPUT = '\u0004';

/** Keys that settle the shown change. */
const SETTLING: Readonly<Record<string, Effect>> = {
  a: 'accept',
  m: 'merge',
  o: 'overwrite',
  e: 'edit',
  r: 'reject',
};

/** Keys that change nothing. */
const OTHERS: Readonly<Record<string, Effect>> = {
  q: 'quit',
  [END_OF_INPUT]: 'quit',
  [INTERRUPT]: 'interrupt',
  '?': 'help',
  h: 'help',
  v: 'show-whole',
  A: 'count-accept',
  R: 'count-reject',
};

/** Returns the next state and what the loop has to do for it. Pure. */
export function review(state: ReviewState, event: ReviewEvent): Step {
  switch (event.kind) {
    case 'key':
      return state.question === null ? onKey(state, event.key) : onAnswer(state, state.question, event.key);
    case 'settled':
      return {
        state: move(
          { ...withVerdict(state, event.verdict), notice: event.notice ?? null, question: null },
          1,
        ),
        effect: 'show',
      };
    case 'stale':
      return {
        state: { ...state, question: null, stale: new Map(state.stale).set(state.at, event.reason) },
        effect: 'show',
      };
    case 'rest': {
      const stale = new Map([...state.stale, ...event.stale]);
      const verdicts = new Map([...state.verdicts, ...event.verdicts]);
      const notice =
        event.stale.size > 0 ? `${event.stale.size} could not be accepted; they come now.` : null;
      const at = event.stale.size > 0 ? Math.min(...event.stale.keys()) : event.end;
      return { state: { at, stale, verdicts, notice, question: null }, effect: 'show' };
    }
    case 'asked':
      return { state: { ...state, question: event.question, notice: null }, effect: 'none' };
    case 'told':
      return { state: { ...state, question: null, notice: event.notice }, effect: 'none' };
  }
}

function onKey(before: ReviewState, key: string): Step {
  const state = { ...before, notice: null };
  const other = OTHERS[key];
  if (other !== undefined) return { state, effect: other };
  const verdict = state.verdicts.get(state.at);
  const isSettled = verdict !== undefined && verdict !== 'skipped';
  if (key === 's' || key === ' ' || key === 'n')
    return { state: move(isSettled ? state : withVerdict(state, 'skipped'), 1), effect: 'show' };
  if (key === 'b')
    return state.at === 0
      ? tell(state, 'This is the first change.')
      : { state: move(state, -1), effect: 'show' };
  const settling = SETTLING[key];
  if (settling === undefined) return tell(state, 'No such key: ? lists the keys.');
  if (isSettled)
    return tell(
      state,
      verdict === 'rejected'
        ? 'This change is rejected; the agent can write it again in a later batch.'
        : 'This change is settled; nightshift memory revert takes it back.',
    );
  const isEdited = state.stale.get(state.at) === 'edited';
  if ((settling === 'merge' || settling === 'overwrite') && !isEdited)
    return tell(state, 'Only for a change whose block was edited since: a accepts it.');
  return { state, effect: settling };
}

function onAnswer(state: ReviewState, question: Question, key: string): Step {
  if (key === INTERRUPT) return { state, effect: 'interrupt' };
  const answered = { ...state, question: null };
  if (key !== 'y' && key !== 'Y') return tell(answered, 'Nothing was changed.');
  return question.kind === 'rest' ? { state, effect: 'settle-rest' } : { state, effect: 'write-edited' };
}

function tell(state: ReviewState, notice: string): Step {
  return { state: { ...state, notice }, effect: 'none' };
}

function withVerdict(state: ReviewState, verdict: Verdict): ReviewState {
  const stale = new Map(state.stale);
  if (verdict !== 'skipped') stale.delete(state.at);
  return { ...state, stale, verdicts: new Map(state.verdicts).set(state.at, verdict) };
}

function move(state: ReviewState, by: number): ReviewState {
  return { ...state, at: state.at + by };
}

/** Counts the changes by verdict. */
export function countVerdicts({ verdicts }: ReviewState): Readonly<Record<Verdict, number>> {
  const counts = { accepted: 0, edited: 0, rejected: 0, skipped: 0, elsewhere: 0 };
  for (const verdict of verdicts.values()) counts[verdict] += 1;
  return counts;
}
