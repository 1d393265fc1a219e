import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { sessionQuery, signIn, takeTokenOfLink, type Session } from './api/session.ts';
import { Frame } from './frame.tsx';
import { ErrorNotice, Loading } from './parts/notices.tsx';
import { SignIn } from './sign-in.tsx';

const token = takeTokenOfLink();

/**
 * Shows the pages to a browser that is signed in, else the sign-in. A link with a token signs in by itself. When a session ends,
 * the sign-in stands over the page, which keeps its address and what was typed.
 */
export function App() {
  const queries = useQueryClient();
  const [linkError, setLinkError] = useState<Error | null>(null);
  const [isLinking, setLinking] = useState(token !== null);
  useEffect(() => {
    if (token === null) return;
    signIn({ token })
      .catch((error: unknown) => setLinkError(error as Error))
      .finally(() => {
        void queries.invalidateQueries(sessionQuery).then(() => setLinking(false));
      });
  }, [queries]);
  const { data: session, error } = useQuery({ ...sessionQuery, enabled: !isLinking });
  const [lastSession, setLastSession] = useState<Session | null>(null);
  if (session !== undefined && session !== null && session !== lastSession) setLastSession(session);
  if (session === undefined)
    return <main className="page">{error === null ? <Loading /> : <ErrorNotice error={error} />}</main>;
  if (session !== null) return <Frame session={session} />;
  return lastSession === null ? (
    <SignIn reason={linkError} />
  ) : (
    <>
      <Frame session={lastSession} />
      <div className="backdrop sign-in-again">
        <SignIn reason={new Error('The session has ended. Sign in again; what you typed is kept.')} />
      </div>
    </>
  );
}
