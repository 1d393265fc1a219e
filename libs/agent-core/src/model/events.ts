/** Events that the callback of a batch may report beside its end. */
export const CALLBACK_EVENTS = ['requires_action', 'paused', 'review_ready'] as const;
export type CallbackEventName = (typeof CALLBACK_EVENTS)[number];

/** Types of events: states that batches reach, calls that wait, changes that are held, ticks of schedules. */
export const EVENT_TYPES = [
  'batch.receiving',
  'batch.running',
  'batch.paused',
  'batch.cancelling',
  'batch.completed',
  'batch.cancelled',
  'batch.failed',
  'batch.review_ready',
  'batch.requires_action',
  'schedule.tick',
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** Returns the id of an event, which is also its place in the order of events. */
export function toEventId({ xid, id }: { readonly xid: string; readonly id: number }): string {
  return `event-${xid}-${id}`;
}

/** Parses the id of an event; null for any other text. Both numbers are below 2^63. */
export function fromEventId(text: string): { readonly xid: string; readonly id: number } | null {
  const [, xid, id] = /^event-(\d{1,18})-(\d{1,15})$/.exec(text) ?? [];
  return xid === undefined || id === undefined ? null : { xid, id: Number(id) };
}
