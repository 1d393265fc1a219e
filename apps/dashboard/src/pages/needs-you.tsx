import type { Checks } from '@nightshift/client';
import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Section } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { attentionOfChecks, readAttention, type Attention } from './overview-attention.ts';

/** Lists what needs a person, or says that nothing does. */
export function NeedsYou({ checks }: { readonly checks: UseQueryResult<Checks> }) {
  const batches = useQuery({
    queryKey: ['overview', 'attention'],
    queryFn: readAttention,
    refetchInterval: 15_000,
  });
  return (
    <Section title="Needs you">
      <QueryPart of={checks}>
        {(found) => (
          <QueryPart of={batches}>
            {(waiting) => <Items items={[...attentionOfChecks(found), ...waiting]} />}
          </QueryPart>
        )}
      </QueryPart>
    </Section>
  );
}

function Items({ items }: { readonly items: readonly Attention[] }) {
  if (items.length === 0)
    return <p className="calm">Nothing waits for you. The checks are fine, and all changes are settled.</p>;
  return (
    <ul className="needs card">
      {items.map(({ key, isBad, text, advice, at }) => (
        <li key={key}>
          <StateMark state={isBad ? 'failed' : 'warning'} label={isBad ? 'act now' : 'look'} />
          <div>
            <p>{text}</p>
            {advice !== undefined && <p className="small muted">{advice}</p>}
          </div>
          {at !== undefined && <Open at={at} text={text} />}
        </li>
      ))}
    </ul>
  );
}

interface OpenProps {
  readonly at: NonNullable<Attention['at']>;
  readonly text: string;
}

function Open({ at: { to, batchId }, text }: OpenProps) {
  return to === 'review' ? (
    <Link to="/review/$batchId" params={{ batchId }} className="button" aria-label={`Review: ${text}`}>
      Review
    </Link>
  ) : (
    <Link to="/batches/$batchId" params={{ batchId }} className="button" aria-label={`Open: ${text}`}>
      Open
    </Link>
  );
}
