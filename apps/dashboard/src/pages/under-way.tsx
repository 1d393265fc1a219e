import type { Batch } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { nightshift } from '../api/client.ts';
import { BatchName } from '../parts/batch-name.tsx';
import { etaText, ProgressLine } from '../parts/batch-progress.tsx';
import { usd } from '../parts/numbers.tsx';
import { Empty } from '../parts/notices.tsx';
import { Section } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';

/** Batches that are listed. */
const LISTED = 8;

/** Lists the newest batches under way, each with its progress. */
export function UnderWay() {
  const batches = useQuery({
    queryKey: ['overview', 'batches'],
    queryFn: async () => {
      const found: Batch[] = [];
      for await (const batch of nightshift.batches.list({ state: 'running', limit: LISTED, order: 'desc' }))
        if (found.push(batch) === LISTED) break;
      return found;
    },
    refetchInterval: 5_000,
  });
  return (
    <Section title="Under way">
      <QueryPart of={batches}>
        {(list) =>
          list.length === 0 ? (
            <Empty command="npx nightshift submit tasks.jsonl">No batch is under way.</Empty>
          ) : (
            <>
              <ul className="card under-way">
                {list.map((batch) => (
                  <Row key={batch.id} batch={batch} />
                ))}
              </ul>
              {list.length === LISTED && (
                <p className="small more">
                  <Link to="/batches" search={{ state: 'running' }}>
                    All batches under way
                  </Link>
                </p>
              )}
            </>
          )
        }
      </QueryPart>
    </Section>
  );
}

function Row({ batch }: { readonly batch: Batch }) {
  const { id, usage, limits } = batch;
  const progress = useQuery({
    queryKey: ['batch', id, 'progress'],
    queryFn: () => nightshift.batches.progress(id),
    refetchInterval: 5_000,
  });
  return (
    <li>
      <Link to="/batches/$batchId" params={{ batchId: id }} className="cut">
        <BatchName batch={batch} />
      </Link>
      <ProgressLine batch={batch} />
      <span className={progress.data?.waiting_reason ? 'tone-warn small' : 'muted small'}>
        {progress.data !== undefined && etaText(progress.data)}
      </span>
      <span className="number">
        {usd(usage.cost_usd)}
        {limits.max_cost_usd !== null && <span className="muted"> of {usd(limits.max_cost_usd)}</span>}
      </span>
    </li>
  );
}
