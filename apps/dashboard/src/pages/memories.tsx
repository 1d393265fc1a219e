import type { AgentState } from '@nightshift/client';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { nightshift } from '../api/client.ts';
import { askForNext, itemsOf, nextPage, PAGE_SIZE, readPage, refreshWhileShort } from '../api/pages-of.ts';
import { ListTable, type Column } from '../parts/list-table.tsx';
import { count } from '../parts/numbers.tsx';
import { Empty } from '../parts/notices.tsx';
import { Page } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { Time } from '../parts/time.tsx';

const route = getRouteApi('/memories');

const COLUMNS: readonly Column<AgentState>[] = [
  {
    head: 'Agent',
    cell: ({ id, name }) => (
      <Link to="/memories/$agentId" params={{ agentId: id }}>
        {name}
      </Link>
    ),
  },
  {
    head: 'Blocks',
    cell: ({ blocks }) => <span className="muted">{blocks.map(({ label }) => label).join(' · ')}</span>,
  },
  {
    head: 'Characters',
    cell: ({ blocks }) => count(blocks.reduce((sum, { value }) => sum + value.length, 0)),
    isNumber: true,
    isWideOnly: true,
  },
  { head: 'Tags', cell: ({ tags }) => <span className="muted">{tags.join(' ')}</span>, isWideOnly: true },
  { head: 'Last run', cell: ({ last_run_completion }) => <Time at={last_run_completion} /> },
];

/** Lists the agents, whose memories are one step away. */
export function Memories() {
  const { q } = route.useSearch();
  const navigate = route.useNavigate();
  const agents = useInfiniteQuery({
    queryKey: ['agents', q],
    queryFn: ({ pageParam }) =>
      readPage(
        nightshift.agents.list({
          query_text: q,
          include: ['agent.blocks'],
          limit: PAGE_SIZE,
          order: 'desc',
          after: pageParam,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: nextPage,
    ...refreshWhileShort(false),
    placeholderData: keepPreviousData,
  });
  return (
    <Page title="Memories">
      <div className="filters" role="search">
        <input
          className="input"
          type="search"
          aria-label="Name of the agent"
          placeholder="Name contains"
          defaultValue={q}
          onChange={({ target }) =>
            void navigate({ search: target.value === '' ? {} : { q: target.value }, replace: true })
          }
        />
      </div>
      <QueryPart of={agents}>
        {(data) =>
          itemsOf(data).length === 0 ? (
            q === undefined ? (
              <Empty command='npx nightshift agents create --name Ada --model anthropic/claude-haiku-4-5 --block summary="New customer."'>
                There is no agent yet.
              </Empty>
            ) : (
              <Empty>No agent has “{q}” in its name.</Empty>
            )
          ) : (
            <ListTable
              label="Agents"
              items={itemsOf(data)}
              columns={COLUMNS}
              keyOf={({ id }) => id}
              onEnd={askForNext(agents)}
            />
          )
        }
      </QueryPart>
    </Page>
  );
}
