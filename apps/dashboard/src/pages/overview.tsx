import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Checks } from '@nightshift/client';
import { checksQuery } from '../api/checks.ts';
import { sessionQuery } from '../api/session.ts';
import { counted } from '../parts/numbers.tsx';
import { Page } from '../parts/page.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { detailsOf } from './check-details.ts';
import { NeedsYou } from './needs-you.tsx';
import { Spend } from './spend.tsx';
import { Tonight } from './tonight.tsx';
import { UnderWay } from './under-way.tsx';
import '../style/overview.css';

/** Shows what needs a person, what is under way, what comes, and what it costs. */
export function Overview() {
  const checks = useQuery(checksQuery);
  return (
    <Page
      title="Overview"
      aside={checks.data !== undefined && <WorkersAlive checks={checks.data} />}
      actions={
        <Link to="/batches/new" className="button button-main">
          New batch
        </Link>
      }
    >
      <NeedsYou checks={checks} />
      <UnderWay />
      <div className="overview-columns">
        <Tonight checks={checks} />
        <Spend />
      </div>
      <NarrowFoot />
    </Page>
  );
}

/** Has what the rail lacks on narrow screens. */
function NarrowFoot() {
  const { data: session } = useQuery(sessionQuery);
  return (
    <div className="narrow-only row small muted more">
      <Link to="/workers">Workers</Link>
      <Link to="/settings">Settings</Link>
      {session?.model === 'simulator' ? 'Model: simulated' : 'Model: Anthropic'}
    </div>
  );
}

function WorkersAlive({ checks }: { readonly checks: Checks }) {
  const workers = detailsOf(checks, 'workers')?.workers.filter(({ is_alive }) => is_alive).length;
  if (workers === undefined) return null;
  return (
    <Link to="/workers">
      <StateMark
        state={workers === 0 ? 'dead' : 'alive'}
        label={workers === 0 ? 'no worker is alive' : `${counted(workers, 'worker')} alive`}
      />
    </Link>
  );
}
