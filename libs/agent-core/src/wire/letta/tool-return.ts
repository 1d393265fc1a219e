import { toLettaTime } from '../../base/letta-time.ts';
import type { ReturnView } from './blocks.ts';

/**
 * Packs a tool result as Letta does: JSON text of status, message and time.
 * `createdAt` is the time of the message, as ISO 8601.
 */
export function packToolReturn(value: ReturnView, createdAt: string): string {
  const status = value.status === 'success' ? 'OK' : 'Failed';
  return JSON.stringify({ status, message: value.text, time: toLettaTime(new Date(createdAt)) });
}

/**
 * Formats the `date` of a union message, in whole seconds: `2026-11-20T09:05:09.123Z` → `2026-11-20T09:05:09+00:00`.
 */
export function toLettaDate(createdAt: string): string {
  return `${new Date(createdAt).toISOString().slice(0, 19)}+00:00`;
}
