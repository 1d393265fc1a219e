import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ErrorNotice, Loading } from './notices.tsx';

interface QueryPartProps<Data> {
  readonly of: UseQueryResult<Data>;
  readonly children: (data: Data) => ReactNode;
}

/** Shows what a query has: its data, also old data with a newer error above it, or that it is loading. */
export function QueryPart<Data>({ of, children }: QueryPartProps<Data>) {
  const { data, error, refetch } = of;
  return (
    <>
      {error !== null && <ErrorNotice error={error} onRetry={() => void refetch()} />}
      {data !== undefined ? children(data) : error === null && <Loading />}
    </>
  );
}
