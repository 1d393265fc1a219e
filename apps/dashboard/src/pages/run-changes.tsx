import type { MemoryChange, Run } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { nightshift } from '../api/client.ts';
import { count } from '../parts/numbers.tsx';
import { Empty } from '../parts/notices.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { Time } from '../parts/time.tsx';
import { WordDiff } from '../parts/word-diff.tsx';
import { readHeld, readWritten } from './read-changes.ts';

/** Changes that are opened at first: each reads two texts. */
const OPENED = 5;

/** Shows what a run changed in memories: what is in force, and what is held for a review. */
export function RunChanges({ run }: { readonly run: Run }) {
  const changes = useQuery({
    queryKey: ['run', run.id, 'changes', run.state, run.usage.steps],
    queryFn: async () => {
      const [written, held] = await Promise.all([readWritten(run), readHeld(run)]);
      return { written, held };
    },
  });
  return (
    <QueryPart of={changes}>
      {({ written, held }) => (
        <>
          {written.length + held.length === 0 && <Empty>The run changed no memory.</Empty>}
          {held.map(({ id, state, label, values }) => (
            <section key={id} className="card change">
              <p className="row small">
                <strong>{label}</strong>
                <StateMark state={state} />
                <Link to="/review/$batchId" params={{ batchId: run.batch_id }}>
                  Review
                </Link>
              </p>
              <WordDiff before={values?.worked_from ?? ''} after={values?.proposed ?? ''} />
            </section>
          ))}
          {written.map((change, place) => (
            <Written key={change.id} change={change} isOpenAtFirst={place < OPENED} />
          ))}
        </>
      )}
    </QueryPart>
  );
}

interface WrittenProps {
  readonly change: MemoryChange;
  readonly isOpenAtFirst: boolean;
}

function Written({ change, isOpenAtFirst }: WrittenProps) {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const { block_id, label, to_revision, lines_added, lines_removed, created_at, shrunk } = change;
  return (
    <section className="card change">
      <p className="row small">
        <strong>{label}</strong>
        <Link to="/blocks/$blockId" params={{ blockId: block_id }} search={{ revision: to_revision }}>
          revision {to_revision}
        </Link>
        <span className="muted">
          {count(lines_added)} lines added, {count(lines_removed)} removed · <Time at={created_at} />
        </span>
        {shrunk && <StateMark state="warning" label="shrunk" />}
        {!isOpen && (
          <button type="button" className="button" onClick={() => setOpen(true)}>
            Show
          </button>
        )}
      </p>
      {isOpen && <Sides change={change} />}
    </section>
  );
}

function Sides({ change: { block_id, from_revision, to_revision } }: { readonly change: MemoryChange }) {
  const sides = useQuery({
    queryKey: ['block', block_id, 'sides', from_revision, to_revision],
    queryFn: async () => {
      const valueAt = async (revision: number | null): Promise<string> =>
        revision === null ? '' : (await nightshift.memory.revision(block_id, revision)).value;
      const [before, after] = await Promise.all([valueAt(from_revision), valueAt(to_revision)]);
      return { before, after };
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <QueryPart of={sides}>{({ before, after }) => <WordDiff before={before} after={after} />}</QueryPart>
  );
}
