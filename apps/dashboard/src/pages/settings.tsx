import type { Check } from '@nightshift/client';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { nightshift } from '../api/client.ts';
import { sessionQuery, signOut } from '../api/session.ts';
import { count } from '../parts/numbers.tsx';
import { Page, Section } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { Time } from '../parts/time.tsx';
import { checksQuery } from '../api/checks.ts';

/** Shows what is in force: version, models with their limits, and what the service finds about its own installation. */
export function Settings() {
  const queries = useQueryClient();
  const leave = async (): Promise<void> => {
    await signOut();
    // What was read with the session goes with it.
    queries.clear();
    window.location.assign('/');
  };
  return (
    <Page
      title="Settings"
      actions={
        <button type="button" className="button" onClick={() => void leave()}>
          Sign out
        </button>
      }
    >
      <p className="muted">
        What is in force. Environment variables of the service change it; <code>docs/OPERATING.md</code> lists
        them.
      </p>
      <Service />
      <Installation />
      <Models />
    </Page>
  );
}

function Service() {
  const session = useQuery(sessionQuery);
  if (session.data === undefined || session.data === null) return null;
  const { version, model, expires_at } = session.data;
  return (
    <Section title="Service">
      <dl className="facts">
        <div>
          <dt>Version</dt>
          <dd>{version}</dd>
        </div>
        <div>
          <dt>Answers come from</dt>
          <dd>{model === 'simulator' ? 'the simulator' : 'Anthropic'}</dd>
        </div>
        <div>
          <dt>This session ends</dt>
          <dd>
            <Time at={expires_at} />
          </dd>
        </div>
      </dl>
    </Section>
  );
}

function Installation() {
  const checks = useQuery(checksQuery);
  return (
    <Section title="Installation">
      <QueryPart of={checks}>
        {(data) => (
          <div className="table">
            <table aria-label="Checks of the installation">
              <tbody>
                {data.checks.map((check) => (
                  <CheckRow key={check.name} check={check} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </QueryPart>
    </Section>
  );
}

function CheckRow({ check: { name, status, finding, advice } }: { readonly check: Check }) {
  return (
    <tr>
      <th scope="row">{name.replaceAll('_', ' ')}</th>
      <td>
        <StateMark state={status} />
      </td>
      <td>
        {finding}
        {advice !== null && <div className="small muted">{advice}</div>}
      </td>
    </tr>
  );
}

function Models() {
  const models = useQuery({
    queryKey: ['models'],
    queryFn: () => nightshift.admin.models(),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Section title="Models">
      <QueryPart of={models}>
        {(list) => (
          <div className="table">
            <table aria-label="Models">
              <thead>
                <tr>
                  <th scope="col">Handle</th>
                  <th scope="col" className="number">
                    Context
                  </th>
                  <th scope="col" className="number wide-only">
                    Longest answer
                  </th>
                  <th scope="col" className="wide-only">
                    Prices of
                  </th>
                </tr>
              </thead>
              <tbody>
                {list.map((model) => (
                  <tr key={model.handle}>
                    <td className="mono">{model.handle}</td>
                    <td className="number" data-head="Context">
                      {count(model.context_window)}
                    </td>
                    <td className="number wide-only">{count(model.max_output_tokens)}</td>
                    <td className="muted wide-only">{model.price_table}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </QueryPart>
    </Section>
  );
}
