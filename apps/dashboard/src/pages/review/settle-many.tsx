import { AlertDialog } from '@base-ui/react/alert-dialog';
import type { AcceptReport } from '@nightshift/client';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { nightshift } from '../../api/client.ts';
import { count, counted } from '../../parts/numbers.tsx';
import { ErrorNotice } from '../../parts/notices.tsx';
import { QueryPart } from '../../parts/query-part.tsx';
import { settledFilters } from './filters.ts';
import { reloadList } from './held-list.ts';
import type { ReviewState } from './use-review.ts';

interface SettleManyProps {
  readonly review: ReviewState;
  /** Changes that stay as they are. */
  readonly exceptIds: readonly string[];
  /** Names the action, with the expected number. */
  readonly action: string;
  readonly onDone: () => void;
}

/** Accepts all held changes that match the filters. Asks first, with the counts of a dry run. */
export function AcceptMany({ review, exceptIds, action, onDone }: SettleManyProps) {
  const queries = useQueryClient();
  const [isOpen, setOpen] = useState(false);
  const { batchId, filters, settle } = review;
  const body = { ...settledFilters(filters), ...(exceptIds.length > 0 && { except_ids: [...exceptIds] }) };
  const dryRun = useQuery({
    queryKey: ['review', batchId, 'dry-run', body],
    queryFn: () => nightshift.batches.acceptHeldChanges(batchId, { ...body, dry_run: true }),
    enabled: isOpen,
    gcTime: 0,
    staleTime: 0,
  });
  const accept = useMutation({
    mutationFn: () => nightshift.batches.acceptHeldChanges(batchId, body),
    onSuccess: async () => {
      setOpen(false);
      onDone();
      settle.countAgain();
      await reloadList(queries, batchId);
    },
  });
  return (
    <AlertDialog.Root open={isOpen} onOpenChange={setOpen}>
      <AlertDialog.Trigger className="button">{action}</AlertDialog.Trigger>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="backdrop" />
        <AlertDialog.Popup className="popup dialog">
          <AlertDialog.Title>{action}?</AlertDialog.Title>
          <AlertDialog.Description className="muted" render={<div />}>
            <QueryPart of={dryRun}>
              {(report) => <Effect report={report} left={exceptIds.length} />}
            </QueryPart>
          </AlertDialog.Description>
          {accept.error !== null && <ErrorNotice error={accept.error} />}
          <div className="row">
            <button
              type="button"
              className="button button-main"
              disabled={dryRun.data === undefined || dryRun.data.accepted === 0 || accept.isPending}
              onClick={() => accept.mutate()}
            >
              {accept.isPending ? 'Accepting …' : `Accept ${count(dryRun.data?.accepted ?? 0)}`}
            </button>
            <AlertDialog.Close className="button">Keep it as it is</AlertDialog.Close>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}

/** Says what an accept would do. */
function Effect({ report, left }: { readonly report: AcceptReport; readonly left: number }) {
  const { accepted, passages, stale } = report;
  return (
    <ul>
      <li>{counted(accepted, 'change')} come into force, all or none of them.</li>
      {passages > 0 && (
        <li>{counted(passages, 'archival passage')} can be found by the agents from then on.</li>
      )}
      {stale.length > 0 && <li>{counted(stale.length, 'stale change')} stay held.</li>}
      {left > 0 && <li>{counted(left, 'change')} that you rejected or skipped are left out.</li>}
    </ul>
  );
}
