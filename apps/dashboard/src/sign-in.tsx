import { useQueryClient } from '@tanstack/react-query';
import { useState, type SubmitEvent } from 'react';
import { sessionQuery, signIn } from './api/session.ts';
import { ErrorNotice } from './parts/notices.tsx';

/** Asks for an API key. `reason` says why a sign-in link did not work. */
export function SignIn({ reason }: { readonly reason: Error | null }) {
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>(reason);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      const key = new FormData(event.currentTarget).get('key');
      await signIn({ api_key: typeof key === 'string' ? key.trim() : '' });
      await queries.invalidateQueries(sessionQuery);
    } catch (refusal) {
      setError(refusal);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="sign-in">
      <img src="/icon.svg" alt="" width="40" height="40" />
      <h1>Nightshift</h1>
      <form className="card" onSubmit={(event) => void submit(event)}>
        <label className="field">
          <span>API key</span>
          <input
            className="input mono"
            name="key"
            type="password"
            autoComplete="current-password"
            required
            autoFocus
          />
        </label>
        <button className="button button-main" disabled={isBusy}>
          Sign in
        </button>
        <p className="muted small">
          The key stands in <code>.data/api-key</code>, or in <code>NIGHTSHIFT_API_KEY</code> of the service.
          The link that <code>npm start</code> prints signs in without it.
        </p>
      </form>
      {error !== null && <ErrorNotice error={error} />}
    </main>
  );
}
