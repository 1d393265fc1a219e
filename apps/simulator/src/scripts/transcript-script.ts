import { numberIn } from './arguments.ts';
import type { MessageParams, ModelScript } from './script.ts';
import { blocksOf, taskOf, textOf } from './turns.ts';
import { obeyScript } from './obey.ts';
import type { ScriptArguments } from './arguments.ts';

function flawIn(params: MessageParams, args: ScriptArguments): string | undefined {
  const answered = new Map<string, number>();
  for (const [at, message] of params.messages.entries()) {
    const before = params.messages[at - 1];
    if (before?.role === message.role) return `messages.${at}: two ${message.role} messages in a row`;
    const blocks = blocksOf(message);
    if (message.role === 'user') {
      const asked = before === undefined ? [] : blocksOf(before).filter((block) => block.type === 'tool_use');
      const results = blocks.filter((block) => block.type === 'tool_result');
      const order = JSON.stringify(results.map((block) => block['tool_use_id']));
      if (order !== JSON.stringify(asked.map((block) => block['id']))) {
        return `messages.${at}: the tool results are not in the order of the calls`;
      }
      for (const result of results) {
        const id = JSON.stringify(result['tool_use_id'] ?? null);
        answered.set(id, (answered.get(id) ?? 0) + 1);
        if (result['content'] === undefined || result['content'] === '') {
          return `messages.${at}: the result of ${id} says nothing`;
        }
      }
    }
  }
  const twice = [...answered].find(([, times]) => times > 1);
  if (twice !== undefined) return `the call ${twice[0]} was answered ${twice[1]} times`;
  const contains = args['contains'];
  if (contains !== undefined && !params.messages.some((message) => textOf(message).includes(contains))) {
    return `no message contains "${contains}"`;
  }
  const maxTurn = numberIn(args, 'max_turn', Number.MAX_SAFE_INTEGER);
  return taskOf(params).turn > maxTurn
    ? `this is turn ${taskOf(params).turn}, the last allowed is ${maxTurn}`
    : undefined;
}

/**
 * `assertTranscript?contains=…&max_turn=…`: answers with an error for a transcript that a correct client would not send;
 * otherwise it obeys.
 */
export const assertTranscriptScript: ModelScript = (request, args) => {
  const flaw = flawIn(request.params, args);
  if (flaw === undefined) return obeyScript(request, args);
  return {
    content: [],
    stop_reason: 'end_turn',
    error: { type: 'invalid_request_error', message: `transcript: ${flaw}` },
  };
};
