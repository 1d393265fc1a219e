import { flagIn, numberIn } from './arguments.ts';
import { toolUse } from './plan.ts';
import { sampleArguments } from './sample-arguments.ts';
import type { ContentBlock, ModelScript } from './script.ts';
import { clientTools, lastToolResults, taskOf } from './turns.ts';

const search = (query: string): ContentBlock => ({
  type: 'server_tool_use',
  name: 'web_search',
  input: { query },
});

/** Creates a result block; it gets the id of the server tool use before it when the answer is written. */
const searchResult = (query: string): ContentBlock => ({
  type: 'web_search_tool_result',
  content: [
    {
      type: 'web_search_result',
      url: `https://example.com/${encodeURIComponent(query)}`,
      title: query,
      encrypted_content: 'c2ltdWxhdGVk',
      page_age: null,
    },
  ],
});

/** `pauseTurn?k=1&unpaired=1`: pauses k times, with (or, unpaired, without) the search results, then ends the turn. */
export const pauseTurnScript: ModelScript = ({ params }, args) => {
  const { turn } = taskOf(params);
  if (turn >= numberIn(args, 'k', 1)) {
    return { content: [{ type: 'text', text: 'The search is complete.' }], stop_reason: 'end_turn' };
  }
  const query = `part ${turn + 1}`;
  const results = flagIn(args, 'unpaired') ? [] : [searchResult(query)];
  return {
    content: [{ type: 'text', text: 'Searching.' }, search(query), ...results],
    stop_reason: 'pause_turn',
  };
};

/**
 * `webSearch?n=2&pauses=1`: searches n times an answer, at most `max_uses` of the offered tool, and pauses so often before it
 * ends the turn. Without an offered web search it says so.
 */
export const webSearchScript: ModelScript = ({ params }, args) => {
  const tool = params.tools?.find(({ type }) => typeof type === 'string' && type.startsWith('web_search_'));
  if (tool === undefined)
    return { content: [{ type: 'text', text: 'No web search is offered.' }], stop_reason: 'end_turn' };
  const { turn } = taskOf(params);
  const { max_uses } = tool as { max_uses?: unknown };
  const uses = Math.min(numberIn(args, 'n', 1), typeof max_uses === 'number' ? max_uses : Infinity);
  const searches = Array.from({ length: uses }, (_, index) => `part ${turn + 1}.${index + 1}`);
  const isPaused = turn < numberIn(args, 'pauses', 0);
  return {
    content: [
      ...searches.flatMap((query) => [search(query), searchResult(query)]),
      ...(isPaused ? [] : [{ type: 'text', text: `Searched ${uses} times.` }]),
    ],
    stop_reason: isPaused ? 'pause_turn' : 'end_turn',
  };
};

/** Leaves a server tool use open beside a client tool call, so that the reply must hold only tool results; then ends. */
export const mixedServerClientToolsScript: ModelScript = ({ params, draw }, args) => {
  if (lastToolResults(params).length > 0) {
    return {
      content: [{ type: 'text', text: 'Both kinds of tool have answered.' }],
      stop_reason: 'end_turn',
    };
  }
  const tool = params.tools?.find(({ name }) => name === args['tool']) ?? clientTools(params)[0];
  const schema = (tool as { input_schema?: unknown } | undefined)?.input_schema;
  return {
    content: [search('both kinds'), toolUse(tool?.name ?? 'no_tool_given', sampleArguments(schema, draw))],
    stop_reason: 'tool_use',
  };
};
