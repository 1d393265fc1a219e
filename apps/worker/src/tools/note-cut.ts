/** Tells the model that a result was cut. */
export function noteCut<
  Reply extends { readonly status: string; readonly result: string; readonly truncated: boolean },
>(reply: Reply): Reply {
  if (reply.status !== 'succeeded' || !reply.truncated) return reply;
  const note = `... [NOTE: function output was truncated since it exceeded the character limit (${reply.result.length})]`;
  return { ...reply, result: `${reply.result}${note}` };
}
