import type { Block, BlockRevision } from '@nightshift/client';
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { nightshift } from '../api/client.ts';
import { askForNext, itemsOf, PAGE_SIZE, readPage } from '../api/pages-of.ts';
import { Confirm } from '../parts/confirm.tsx';
import { counted } from '../parts/numbers.tsx';
import { ErrorNotice } from '../parts/notices.tsx';
import { Page, Section } from '../parts/page.tsx';
import { QueryPage } from '../parts/query-page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { Time } from '../parts/time.tsx';
import { WordDiff } from '../parts/word-diff.tsx';

const route = getRouteApi('/blocks/$blockId');

/** Shows the revisions of a block, what each changed, and takes it back to one. */
export function BlockPage() {
  const { blockId } = route.useParams();
  const block = useQuery({
    queryKey: ['block', blockId],
    queryFn: () => nightshift.memory.retrieve(blockId),
  });
  return (
    <QueryPage
      of={block}
      title="Block"
      gone="There is no such block. It was deleted. Memories lists the agents with their blocks."
    >
      {(data) => <Shown block={data} />}
    </QueryPage>
  );
}

function Shown({ block }: { readonly block: Block }) {
  const { revision: chosen = block.revision } = route.useSearch();
  const revisions = useInfiniteQuery({
    queryKey: ['block', block.id, 'revisions', block.revision],
    queryFn: ({ pageParam }) =>
      readPage(nightshift.memory.revisions(block.id, { order: 'desc', limit: PAGE_SIZE, after: pageParam })),
    initialPageParam: undefined as number | undefined,
    getNextPageParam: (page) => (page.length === PAGE_SIZE ? page.at(-1)?.revision : undefined),
  });
  const readEarlier = askForNext(revisions);
  const agents = useQuery({
    queryKey: ['block', block.id, 'agents'],
    queryFn: () => readPage(nightshift.memory.agents(block.id)),
  });
  return (
    <Page
      title={block.label}
      aside={
        <span className="muted">
          {agents.data?.map(({ id, name }) => (
            <Link key={id} to="/memories/$agentId" params={{ agentId: id }}>
              {name}{' '}
            </Link>
          ))}
        </span>
      }
      actions={chosen === block.revision ? undefined : <Revert block={block} revision={chosen} />}
    >
      {(agents.data?.length ?? 0) > 1 && (
        <p className="notice">
          {counted(agents.data?.length ?? 0, 'agent')} share this block: a revert changes it for all.
        </p>
      )}
      <div className="columns section">
        <QueryPart of={revisions}>
          {(data) => (
            <Section title="Revisions">
              <Revisions list={itemsOf(data)} chosen={chosen} current={block.revision} />
              {readEarlier !== undefined && (
                <button type="button" className="button more" onClick={readEarlier}>
                  Show earlier revisions
                </button>
              )}
            </Section>
          )}
        </QueryPart>
        <div>
          <Difference
            title={`What revision ${chosen} changed`}
            blockId={block.id}
            from={chosen - 1}
            to={chosen}
          />
          {chosen !== block.revision && (
            <Difference
              title="What a revert to it would change now"
              blockId={block.id}
              from={block.revision}
              to={chosen}
            />
          )}
        </div>
      </div>
    </Page>
  );
}

interface RevisionsProps {
  readonly list: readonly BlockRevision[];
  readonly chosen: number;
  readonly current: number;
}

function Revisions({ list, chosen, current }: RevisionsProps) {
  return (
    <ul className="steps" aria-label="Revisions">
      {list.map(({ block_id, revision, created_at, job_id, resolution }) => (
        <li key={revision}>
          <Link
            to="/blocks/$blockId"
            params={{ blockId: block_id }}
            search={{ revision }}
            aria-current={revision === chosen ? 'true' : undefined}
          >
            Revision {revision}
            {revision === current && ' · in force'}
          </Link>
          <div className="small muted">
            <Time at={created_at} /> · {job_id === null ? 'by a person' : 'by a run'}
            {resolution !== null && resolution !== 'clean' && ` · ${resolution}`}
          </div>
        </li>
      ))}
    </ul>
  );
}

interface DifferenceProps {
  readonly title: string;
  readonly blockId: string;
  /** Revisions; before the first there is no text. */
  readonly from: number;
  readonly to: number;
}

/** Shows the difference of two revisions by words. */
function Difference({ title, blockId, from, to }: DifferenceProps) {
  const sides = useQuery({
    queryKey: ['block', blockId, 'difference', from, to],
    queryFn: async () => {
      const valueAt = async (revision: number): Promise<string> =>
        revision < 1 ? '' : (await nightshift.memory.revision(blockId, revision)).value;
      const [before, after] = await Promise.all([valueAt(from), valueAt(to)]);
      return { before, after };
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Section title={title}>
      <QueryPart of={sides}>{({ before, after }) => <WordDiff before={before} after={after} />}</QueryPart>
    </Section>
  );
}

function Revert({ block, revision }: { readonly block: Block; readonly revision: number }) {
  const queries = useQueryClient();
  const navigate = route.useNavigate();
  const revert = useMutation({
    mutationFn: () => nightshift.memory.revert(block.id, { revision, expected_revision: block.revision }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['block', block.id] });
      await navigate({ search: {} });
    },
  });
  return (
    <>
      <Confirm
        action="Revert to this"
        question={`Revert ${block.label} to revision ${revision}?`}
        onConfirm={() => revert.mutate()}
      >
        A new revision with its text comes into force. The next request of each agent holds it.
      </Confirm>
      {revert.error !== null && <ErrorNotice error={revert.error} />}
    </>
  );
}
