import type { Batch, BatchProgress } from '@nightshift/client';
import { Bar } from './bar.tsx';
import { count } from './numbers.tsx';
import type { Tone } from './state-mark.tsx';
import { clockOf } from './time.tsx';

/** Shows how far a batch is: bar, percent, counts, rate. */
export function ProgressLine({ batch }: { readonly batch: Batch }) {
  const { counts } = batch;
  const ended = counts.completed + counts.failed + counts.cancelled + counts.expired;
  return (
    <div>
      <Bar done={ended} total={counts.total} tone={toneOf(batch)} />
      <span className="small muted">
        {count(ended)} of {count(counts.total)}
        {counts.failed + counts.expired > 0 && (
          <span className="tone-bad"> · {count(counts.failed + counts.expired)} failed</span>
        )}
      </span>
    </div>
  );
}

function toneOf({ state }: Batch): Tone {
  if (state === 'completed') return 'good';
  return state === 'paused' ? 'warn' : 'accent';
}

/** Shows the tool calls of a batch, while it has any. */
export function CallCounts({ progress: { calls } }: { readonly progress: BatchProgress }) {
  const ended = calls.done + calls.failed + calls.unknown;
  if (ended + calls.open === 0) return null;
  const amiss = [
    ...(calls.failed > 0 ? [`${count(calls.failed)} failed`] : []),
    ...(calls.unknown > 0 ? [`${count(calls.unknown)} unknown`] : []),
  ];
  return (
    <span className="muted">
      {count(ended)} of {count(ended + calls.open)} calls
      {amiss.length > 0 && <span className="tone-warn"> · {amiss.join(', ')}</span>}
    </span>
  );
}

/** Says when a batch will end, or why that is not known. */
export function etaText({ phase, eta, waiting_reason }: BatchProgress): string {
  if (phase === 'done') return 'Ended';
  if (waiting_reason !== null) return waiting_reason.message;
  if (phase === 'waiting_for_caller') return 'Waits for tool results of the caller';
  if (eta === null) return 'No estimate yet';
  const [from, to] = [clockOf(eta.earliest), clockOf(eta.latest)];
  return from === to ? `About ${to}` : `Between ${from} and ${to}`;
}
