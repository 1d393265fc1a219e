import type { Run } from '@nightshift/client';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { nightshift } from '../api/client.ts';
import { Confirm } from '../parts/confirm.tsx';
import { ErrorNotice } from '../parts/notices.tsx';

/** Cancels an open run, or tries an ended one again. */
export function RunActions({ run }: { readonly run: Run }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const cancel = useMutation({
    mutationFn: () => nightshift.runs.cancel(run.id),
    onSettled: () => queries.invalidateQueries({ queryKey: ['run', run.id] }),
  });
  const retry = useMutation({
    mutationFn: () => nightshift.batches.retry(run.batch_id, { run_ids: [run.id] }),
    onSuccess: ({ id }) => navigate({ to: '/batches/$batchId', params: { batchId: id } }),
  });
  const error = cancel.error ?? retry.error;
  const isOpen = run.completed_at === null;
  return (
    <>
      {isOpen ? (
        <Confirm
          action="Cancel run"
          question="Cancel this run?"
          isBad
          isDisabled={cancel.isPending}
          onConfirm={() => cancel.mutate()}
        >
          It takes no further step. An answer that the provider is working on is still paid and kept.
        </Confirm>
      ) : (
        run.state !== 'completed' && (
          <button type="button" className="button" disabled={retry.isPending} onClick={() => retry.mutate()}>
            Retry run
          </button>
        )
      )}
      {error !== null && <ErrorNotice error={error} />}
    </>
  );
}
