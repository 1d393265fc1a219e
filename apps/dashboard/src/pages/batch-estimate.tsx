import { isApiError, type BatchEstimate } from '@nightshift/client';
import { count, counted, usd } from '../parts/numbers.tsx';

const VERDICTS: Readonly<Record<NonNullable<BatchEstimate['verdict']>, string>> = {
  fits: 'The worst case fits under the cap.',
  may_pause: 'The worst case exceeds the cap: the batch may pause.',
  will_pause: 'The expected cost exceeds the cap: the batch will pause.',
  cannot_start: 'No request fits under the cap: raise it.',
  unknown: 'A model has no price, so the cap cannot be checked.',
};

interface EstimatePanelProps {
  readonly estimate: BatchEstimate | undefined;
  readonly error: Error | null;
  readonly isAsking: boolean;
  /** What is still missing; or what the estimate does not cover. */
  readonly note?: string | undefined;
}

/** Shows what the batch would cost, as the form stands. */
export function EstimatePanel({ estimate, error, isAsking, note }: EstimatePanelProps) {
  return (
    <aside className="card estimate" aria-live="polite" aria-busy={isAsking}>
      <h2>Estimate</h2>
      {error !== null ? (
        <p className="tone-bad">
          {isApiError(error) && error.errors.length > 0 ? 'See the marked fields.' : error.message}
        </p>
      ) : (
        estimate !== undefined && <Figures estimate={estimate} />
      )}
      {note !== undefined && <p className="small muted">{note}</p>}
    </aside>
  );
}

function Figures({ estimate }: { readonly estimate: BatchEstimate }) {
  const { runs, cost_usd, requests, input_tokens, output_tokens, realtime_cost_usd, verdict, fleet } =
    estimate;
  const skipped = Object.entries(fleet?.skipped ?? {});
  return (
    <>
      <p className="estimate-cost">
        {usd(cost_usd?.expected ?? null)}
        <span className="small muted">
          {' '}
          expected{cost_usd !== null && `, ${usd(cost_usd.low)} to ${usd(cost_usd.worst)}`}
        </span>
      </p>
      <dl className="pairs small">
        <dt>Runs</dt>
        <dd>{count(runs)}</dd>
        <dt>Steps</dt>
        <dd>{count(requests.expected)}</dd>
        <dt>Tokens in, out</dt>
        <dd>
          {count(input_tokens.expected)} · {count(output_tokens.expected)}
        </dd>
        {realtime_cost_usd !== null && (
          <>
            <dt>Without batches</dt>
            <dd>{usd(realtime_cost_usd.cached)}</dd>
          </>
        )}
        {skipped.map(([reason, agents]) => (
          <div key={reason} className="pair">
            <dt>Skipped: {reason.replaceAll('_', ' ')}</dt>
            <dd>{counted(agents, 'agent')}</dd>
          </div>
        ))}
      </dl>
      {verdict !== null && (
        <p className={verdict === 'fits' ? 'small tone-good' : 'small tone-warn'}>{VERDICTS[verdict]}</p>
      )}
    </>
  );
}
