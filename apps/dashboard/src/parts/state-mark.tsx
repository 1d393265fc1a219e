/** Colours of a state. */
export type Tone = 'accent' | 'good' | 'warn' | 'bad' | 'muted';

interface Look {
  readonly mark: string;
  readonly tone: Tone;
}

const OPEN: Look = { mark: '○', tone: 'muted' };
const MOVING: Look = { mark: '◐', tone: 'accent' };
const WAITING: Look = { mark: '◆', tone: 'warn' };
const GOOD: Look = { mark: '✓', tone: 'good' };
const BAD: Look = { mark: '✕', tone: 'bad' };
const GONE: Look = { mark: '−', tone: 'muted' };

/** Marks of the states of batches, runs, steps, tool calls, changes, schedules and workers: a shape beside the colour. */
const LOOKS: Readonly<Record<string, Look>> = {
  ...{ receiving: OPEN, queued: OPEN, ready: OPEN, pending: OPEN, sealed: OPEN },
  ...{ running: MOVING, in_flight: MOVING, acting: MOVING, answered: MOVING, active: MOVING, alive: GOOD },
  ...{ waiting_for_provider: WAITING, waiting_for_caller: WAITING, requires_action: WAITING },
  ...{ paused: WAITING, held: WAITING, stale: WAITING, warning: WAITING, draining: WAITING },
  ...{ cancelling: GONE, cancelled: GONE, canceled: GONE, skipped: GONE, lost: GONE },
  ...{ completed: GOOD, done: GOOD, succeeded: GOOD, accepted: GOOD, ok: GOOD, started: GOOD },
  ...{ failed: BAD, failing: BAD, expired: BAD, errored: BAD, unknown: BAD, rejected: BAD, dead: BAD },
  ...{ waiting: WAITING, missed: BAD, refused: BAD },
};

/** Returns the colour of a state. */
export const toneOf = (state: string): Tone => (LOOKS[state] ?? OPEN).tone;

/** Shows a state by a mark and a word. */
export function StateMark({ state, label }: { readonly state: string; readonly label?: string }) {
  const { mark, tone } = LOOKS[state] ?? OPEN;
  return (
    <span className={`state tone-${tone}`}>
      <span className="state-mark" aria-hidden>
        {mark}
      </span>
      {label ?? state.replaceAll('_', ' ')}
    </span>
  );
}
