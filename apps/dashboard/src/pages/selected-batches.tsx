import type { Batch } from '@nightshift/client';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Confirm } from '../parts/confirm.tsx';
import { counted } from '../parts/numbers.tsx';
import { carryOut, failedRuns, isAllowed, type BatchAct } from './batch-acts.ts';

interface SelectedBatchesProps {
  readonly selected: readonly Batch[];
  /** Batches that are listed so far. */
  readonly listed: readonly Batch[];
  readonly onSelect: (batches: readonly Batch[]) => void;
}

/** A batch that refused an act. */
interface Refusal {
  readonly id: string;
  readonly message: string;
}

const ACTS = [
  ['pause', 'Pause'],
  ['resume', 'Resume'],
  ['retry', 'Retry failed runs of'],
] as const satisfies readonly (readonly [BatchAct, string])[];

/** Acts on the selected batches, each as far as its state allows. */
export function SelectedBatches({ selected, listed, onSelect }: SelectedBatchesProps) {
  const queries = useQueryClient();
  const act = useMutation({
    mutationFn: async (name: BatchAct): Promise<readonly Refusal[]> => {
      const refused: Refusal[] = [];
      for (const batch of selected.filter((each) => isAllowed(name, each)))
        await carryOut(name, batch).catch((error: unknown) =>
          refused.push({ id: batch.id, message: `${batch.name ?? batch.id}: ${(error as Error).message}` }),
        );
      return refused;
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ['batches'] }),
  });
  const allowed = (name: BatchAct): readonly Batch[] => selected.filter((batch) => isAllowed(name, batch));
  const cancelled = allowed('cancel');
  if (selected.length === 0 && act.data === undefined) return null;
  return (
    <div className="notice selection" role="group" aria-label="Selected batches">
      <div className="row">
        <strong role="status">{counted(selected.length, 'batch', 'batches')} selected</strong>
        {ACTS.map(([name, title]) => {
          const batches = allowed(name);
          if (batches.length === 0) return null;
          const runs = name === 'retry' ? batches.reduce((sum, batch) => sum + failedRuns(batch), 0) : null;
          return (
            <button
              key={name}
              type="button"
              className="button"
              disabled={act.isPending}
              onClick={() => act.mutate(name)}
            >
              {runs === null ? `${title} ${batches.length}` : `Retry ${counted(runs, 'run')}`}
            </button>
          );
        })}
        {cancelled.length > 0 && (
          <Confirm
            action={`Cancel ${cancelled.length}`}
            question={`Cancel ${counted(cancelled.length, 'batch', 'batches')}?`}
            isBad
            isDisabled={act.isPending}
            onConfirm={() => act.mutate('cancel')}
          >
            Runs that have ended keep their results. Answers that the provider is working on are still paid
            and kept.
          </Confirm>
        )}
        {selected.length < listed.length && (
          <button type="button" className="button" onClick={() => onSelect(listed)}>
            Select all {listed.length} listed
          </button>
        )}
        <button
          type="button"
          className="button"
          onClick={() => {
            act.reset();
            onSelect([]);
          }}
        >
          Select none
        </button>
      </div>
      {act.data?.map(({ id, message }) => (
        <p key={id} className="tone-bad small" role="alert">
          {message}
        </p>
      ))}
    </div>
  );
}
