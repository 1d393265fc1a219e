import { queryOptions } from '@tanstack/react-query';
import { nightshift } from './client.ts';

/** Reads what the service finds about its own installation. */
export const checksQuery = queryOptions({
  queryKey: ['checks'],
  queryFn: () => nightshift.admin.checks(),
  refetchInterval: 15_000,
});
