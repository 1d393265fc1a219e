import { isApiError } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { nightshift } from '../api/client.ts';
import { count, counted, usd } from '../parts/numbers.tsx';
import { useSettled } from '../parts/use-settled.ts';
import { bodyOf, type ScheduleDraft } from './schedule-draft.ts';

/** Says how many agents match, why some would be skipped, and how many runs a tick would make now, at what cost. */
export function MatchingAgents({ draft }: { readonly draft: ScheduleDraft }) {
  const body = useSettled(textOf(draft), 500);
  const { data, error } = useQuery({
    queryKey: ['estimate', body],
    queryFn: () => nightshift.batches.estimate(bodyOf({ ...draft, kind: 'json', json: body })),
    enabled: body !== '',
    staleTime: 10_000,
  });
  if (body === '') return null;
  if (error !== null)
    return (
      <p className="muted" role="status">
        {isApiError(error) && error.errors[0] !== undefined ? error.errors[0].message : error.message}
      </p>
    );
  if (data === undefined) return null;
  const { runs, fleet, cost_usd } = data;
  return (
    <p role="status">
      {fleet !== null && (
        <>
          <strong>{counted(fleet.agents, 'agent')}</strong> {fleet.agents === 1 ? 'matches' : 'match'}
          {Object.entries(fleet.skipped).map(
            ([reason, agents]) => agents > 0 && ` · ${count(agents)} ${reason.replaceAll('_', ' ')}`,
          )}
          {' · '}
        </>
      )}
      <strong>{counted(runs, 'run')}</strong> now
      {cost_usd !== null && <span className="muted"> · about {usd(cost_usd.expected)} a night</span>}
    </p>
  );
}

/** The body as text; empty while there is too little of it to ask about. */
function textOf(draft: ScheduleDraft): string {
  if (draft.kind === 'rewrite' && (draft.tags === '' || draft.blocks === '')) return '';
  try {
    return JSON.stringify(bodyOf(draft));
  } catch {
    return '';
  }
}
