import { numberIn } from './arguments.ts';
import { toolUse } from './plan.ts';
import { sampleArguments } from './sample-arguments.ts';
import type { ContentBlock, ModelScript } from './script.ts';
import { clientTools, taskOf } from './turns.ts';

/** Creates a thinking block; its signature is added when the answer is written. */
function thinkingBlock(display: string | undefined): ContentBlock {
  if (display === 'redacted') return { type: 'redacted_thinking' };
  return {
    type: 'thinking',
    thinking: display === 'summarized' ? 'The user wants a thing; I weigh how to do it.' : '',
  };
}

/** `thinking?display=omitted|summarized|redacted&n=1`: thinks, calls a tool n times if there is one, then answers. */
export const thinkingScript: ModelScript = ({ params, draw }, args) => {
  const { turn } = taskOf(params);
  const tool = clientTools(params)[0];
  const thought = thinkingBlock(args['display']);
  if (tool === undefined || turn >= numberIn(args, 'n', 1)) {
    return { content: [thought, { type: 'text', text: 'I thought about it.' }], stop_reason: 'end_turn' };
  }
  return {
    content: [thought, toolUse(tool.name, sampleArguments(tool.input_schema, draw))],
    stop_reason: 'tool_use',
  };
};

/** Answers like newer models: texts between two tool calls are thinking blocks without text. */
export const textBetweenToolsAsThinkingScript: ModelScript = ({ params, draw }, args) => {
  const { turn } = taskOf(params);
  const tool = clientTools(params)[0];
  if (tool === undefined || turn >= numberIn(args, 'n', 2)) {
    return { content: [{ type: 'text', text: 'These are all my findings.' }], stop_reason: 'end_turn' };
  }
  const call = (name: string): ContentBlock =>
    toolUse(
      tool.name,
      sampleArguments(tool.input_schema, (purpose) => draw(`${name} ${purpose}`)),
    );
  return {
    content: [thinkingBlock(undefined), call('first'), thinkingBlock(undefined), call('second')],
    stop_reason: 'tool_use',
  };
};
