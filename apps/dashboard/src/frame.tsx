import { Link, Outlet } from '@tanstack/react-router';
import type { Session } from './api/session.ts';
import { useLive } from './api/live.ts';
import { ShellKeys } from './shell-keys.tsx';
import { ReviewCount } from './parts/review-count.tsx';

const LINKS = [
  { to: '/', name: 'Overview' },
  { to: '/batches', name: 'Batches' },
  { to: '/review', name: 'Review' },
  { to: '/memories', name: 'Memories' },
  { to: '/schedules', name: 'Schedules' },
  { to: '/workers', name: 'Workers', isWideOnly: true },
  { to: '/settings', name: 'Settings', isWideOnly: true },
] as const;

/** Stands around every page: the rail with the links, and the state of the connection. */
export function Frame({ session }: { readonly session: Session }) {
  const isConnected = useLive();
  return (
    <div className="frame">
      <a className="button skip" href="#content">
        Skip to the content
      </a>
      <nav className="rail" aria-label="Pages">
        <Link to="/" className="rail-name">
          <img src="/icon.svg" alt="" />
          Nightshift
        </Link>
        {LINKS.map(({ to, name, ...link }) => (
          <Link
            key={to}
            to={to}
            className={'isWideOnly' in link ? 'rail-link wide-only' : 'rail-link'}
            activeOptions={{ exact: to === '/' }}
          >
            {name}
            {to === '/review' && <ReviewCount />}
          </Link>
        ))}
        <ShellKeys />
        <p className="rail-foot">
          {session.model === 'simulator' ? 'Model: simulated' : 'Model: Anthropic'}
          <br />
          Version {session.version}
        </p>
      </nav>
      <div>
        {!isConnected && (
          <p className="notice-bar" role="status">
            The connection to the API is lost. It is tried again; what you see may be old.
          </p>
        )}
        {session.version !== NIGHTSHIFT_VERSION && (
          <p className="notice-bar row" role="status">
            The service is now of version {session.version}, this page of {NIGHTSHIFT_VERSION}.
            <button type="button" className="button" onClick={() => window.location.reload()}>
              Load the page again
            </button>
          </p>
        )}
        <Outlet />
      </div>
    </div>
  );
}
