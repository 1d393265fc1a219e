import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { counted } from '../parts/numbers.tsx';
import { heldCountsQuery } from './review/summaries.ts';

/** Leads from a batch to its review, with the number of its held changes. */
export function ReviewLink({ batchId }: { readonly batchId: string }) {
  const held = useQuery(heldCountsQuery(batchId)).data?.states.held;
  return (
    <Link to="/review/$batchId" params={{ batchId }} className={held === 0 ? 'button' : 'button button-main'}>
      Review {held === undefined || held === 0 ? 'changes' : counted(held, 'change')}
    </Link>
  );
}
