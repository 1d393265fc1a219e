import type { HeldFilter, ListHeldChangesData } from '@nightshift/client';

type Query = NonNullable<ListHeldChangesData['query']>;

/** Filters of the held changes, as in the address and in the API. */
export type ReviewFilters = {
  readonly [
    Name in
      | 'state'
      | 'label'
      | 'shrunk'
      | 'stale'
      | 'run_state'
      | 'ended_reason'
      | 'q'
      | 'change_group'
      | 'agent_id'
  ]?: Query[Name] | undefined;
};

/** Reads the filters of an address. Others stay: the API says that it does not know them. */
export function readReviewFilters(search: Readonly<Record<string, unknown>>): ReviewFilters {
  return search;
}

/** Returns the filters with changes; an empty value removes a filter. */
export function changeFilters(filters: ReviewFilters, changes: ReviewFilters): ReviewFilters {
  const all = Object.entries<string | boolean | undefined>({ ...filters, ...changes });
  return Object.fromEntries(all.filter(([, value]) => value !== undefined && value !== ''));
}

/** Returns the filters of the list: without a state, what is still to review. */
export const listedFilters = (filters: ReviewFilters): ReviewFilters => ({ state: 'held', ...filters });

/** Returns the filters of an accept or a reject, which settle only held changes. */
export function settledFilters({ state: _state, agent_id, ...filters }: ReviewFilters): HeldFilter {
  return { ...filters, ...(agent_id !== undefined && { agent_ids: [agent_id] }) };
}
