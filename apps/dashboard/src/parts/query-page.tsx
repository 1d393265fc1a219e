import { isApiError } from '@nightshift/client';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Empty } from './notices.tsx';
import { Page } from './page.tsx';
import { QueryPart } from './query-part.tsx';

interface QueryPageProps<Data> {
  readonly of: UseQueryResult<Data>;
  /** Title until there is data. */
  readonly title: string;
  /** What to do if the API has no such thing. */
  readonly gone: string;
  /** Shows the page, with its own title. */
  readonly children: (data: Data) => ReactNode;
}

/** Shows the page of something, or says that it is being loaded, or gone. */
export function QueryPage<Data>({ of, title, gone, children }: QueryPageProps<Data>) {
  if (of.data === undefined || isGone(of.error))
    return (
      <Page title={title}>
        {isGone(of.error) ? <Empty>{gone}</Empty> : <QueryPart of={of}>{() => null}</QueryPart>}
      </Page>
    );
  return <QueryPart of={of}>{children}</QueryPart>;
}

const isGone = (error: unknown): boolean => isApiError(error) && error.status === 404;
