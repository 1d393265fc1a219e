import type { HeldChange } from '@nightshift/client';
import { count } from '../../parts/numbers.tsx';
import type { Tone } from '../../parts/state-mark.tsx';

/** A change in the list, without its texts: ten thousand of them stay small. */
export type Change = Omit<HeldChange, 'diff' | 'values'>;

/** Removes the texts. */
export const withoutTexts = ({ diff: _diff, values: _values, ...change }: HeldChange): Change => change;

/** Why a stale change cannot simply be accepted. */
export const STALE_REASONS = {
  edited: 'The block was written after the agent read it.',
  deleted: 'The block was deleted after the agent read it.',
  read_only: 'The block no longer accepts writes.',
  over_limit: 'The limit of the block is now below the proposed text.',
} as const satisfies Readonly<Record<NonNullable<HeldChange['stale_because']>['reason'], string>>;

const STALE_SHORT = {
  edited: 'stale: written since',
  deleted: 'stale: block deleted',
  read_only: 'stale: block read-only',
  over_limit: 'stale: over its limit',
};

const KINDS = { revised: null, created: 'new block', detached: 'gives up the block', dropped: 'no effect' };

/** Says why a change needs a look, in a few words. */
export function riskOf({
  stale_because,
  run_state,
  shrunk,
  kind,
  chars_before,
  chars_after,
}: Change): string {
  const size = chars_after - chars_before;
  const sizeText = size === 0 ? 'same length' : `${size > 0 ? '+' : '−'}${count(Math.abs(size))} characters`;
  const risks = [
    stale_because !== null && STALE_SHORT[stale_because.reason],
    run_state !== 'completed' && `run ${run_state.replaceAll('_', ' ')}`,
    shrunk && `shrunk to ${Math.round((100 * chars_after) / Math.max(1, chars_before))} %`,
    KINDS[kind],
  ].filter((risk) => typeof risk === 'string');
  return risks.length === 0 ? sizeText : risks.join(' · ');
}

/** The shape and the colour of a change: what became of it, else its risk. */
export function markOf({ state, stale, run_state, shrunk }: Change): readonly [mark: string, tone: Tone] {
  if (state === 'accepted') return ['✓', 'good'];
  if (state === 'rejected') return ['✕', 'muted'];
  if (stale) return ['◆', 'warn'];
  if (run_state !== 'completed') return ['✕', 'bad'];
  return shrunk ? ['◆', 'warn'] : ['○', 'muted'];
}
