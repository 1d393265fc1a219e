import { cutNote } from '@nightshift/agent-core';

/** Tells the model that a result was cut. */
export function noteCut<
  Reply extends { readonly status: string; readonly result: string; readonly truncated: boolean },
>(reply: Reply): Reply {
  if (reply.status !== 'succeeded' || !reply.truncated) return reply;
  return { ...reply, result: reply.result + cutNote(String(reply.result.length)) };
}
