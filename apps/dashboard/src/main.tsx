import { CSPProvider } from '@base-ui/react/csp-provider';
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { isApiError } from '@nightshift/client';
import { sessionQuery } from './api/session.ts';
import { router } from './router.tsx';
import './style/tokens.css';
import './style/base.css';
import './style/frame.css';
import './style/parts.css';
import './style/shell.css';
import './style/forms.css';
import './style/sign-in.css';

/** Asks for the session again when a request was refused for want of one. */
const onError = (error: unknown): void => {
  if (isApiError(error) && error.status === 401) void queries.invalidateQueries(sessionQuery);
};

const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: {
    queries: {
      // A refusal stays one; the client has tried again already where that helps.
      retry: (failures, error) => !isApiError(error) && failures < 3,
      refetchIntervalInBackground: false,
      staleTime: 1_000,
    },
  },
});

const root = document.getElementById('root');
if (root !== null)
  createRoot(root).render(
    <StrictMode>
      <CSPProvider disableStyleElements>
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </CSPProvider>
    </StrictMode>,
  );
