import { isApiError } from '@nightshift/client';
import type { ReactNode } from 'react';

/** Shows an error: what is wrong, where, and what to do. */
export function ErrorNotice({ error, onRetry }: { readonly error: unknown; readonly onRetry?: () => void }) {
  const fields = isApiError(error) ? error.errors : [];
  return (
    <div className="notice notice-bad" role="alert">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {fields.length > 1 && (
        <ul className="small">
          {fields.map(({ path, message }) => (
            <li key={path}>
              <code>{path}</code> {message}
            </li>
          ))}
        </ul>
      )}
      {onRetry !== undefined && (
        <p>
          <button type="button" className="button" onClick={onRetry}>
            Try again
          </button>
        </p>
      )}
    </div>
  );
}

/** Stands where a list is empty, and names the next command. */
export function Empty({ children, command }: { readonly children: ReactNode; readonly command?: string }) {
  return (
    <div className="empty">
      <p>{children}</p>
      {command !== undefined && <pre>{command}</pre>}
    </div>
  );
}

/** Stands for what is being loaded, without a jump of the page when it comes. */
export function Loading() {
  return (
    <p className="muted" role="status">
      Loading …
    </p>
  );
}
