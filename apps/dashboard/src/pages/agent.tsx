import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { nightshift } from '../api/client.ts';
import { count } from '../parts/numbers.tsx';
import { Empty } from '../parts/notices.tsx';
import { Page, Section } from '../parts/page.tsx';
import { QueryPage } from '../parts/query-page.tsx';
import { SameAs } from './same-as.tsx';

const route = getRouteApi('/memories/$agentId');

/** Shows the memory blocks of an agent. */
export function AgentPage() {
  const { agentId } = route.useParams();
  const agent = useQuery({
    queryKey: ['agent', agentId],
    queryFn: () => nightshift.agents.retrieve(agentId),
  });
  return (
    <QueryPage
      of={agent}
      title="Agent"
      gone="There is no such agent. It was deleted. Memories lists those that are there."
    >
      {({ id, name, model, tags, blocks, system }) => (
        <Page title={name} aside={<span className="muted">{[model, ...tags].join(' · ')}</span>}>
          {blocks.length === 0 && <Empty>This agent has no memory block.</Empty>}
          {blocks.map((block) => (
            <Section key={block.id} title={block.label}>
              <div className="card">
                <p className="row small muted">
                  <Link to="/blocks/$blockId" params={{ blockId: block.id }}>
                    revision {block.revision}
                  </Link>
                  <span>
                    {count(block.value.length)} of {count(block.limit)} characters
                  </span>
                  {block.read_only && <span>read only</span>}
                </p>
                <p className="prose below">{block.value}</p>
              </div>
            </Section>
          ))}
          <Section title="System prompt">
            <details>
              <summary className="muted">{count(system.length)} characters</summary>
              <pre className="code">{system}</pre>
            </details>
          </Section>
          <SameAs command={`npx nightshift memory show ${id}`} path={`/v1/agents/${id}/core-memory/blocks`} />
        </Page>
      )}
    </QueryPage>
  );
}
