import { idFrom } from '../draws.ts';
import { callArgumentsIn, flagIn, numberIn, stepsIn } from './arguments.ts';
import type { ScriptArguments } from './arguments.ts';
import { plannedCall, toolUse } from './plan.ts';
import { badArguments, sampleArguments, schemaOf } from './sample-arguments.ts';
import type {
  ContentBlock,
  JsonValue,
  MessageParams,
  ModelScript,
  ScriptReply,
  ScriptRequest,
} from './script.ts';
import { clientTools, lastToolResults, taskOf, textOf } from './turns.ts';

const done = (text: string): ScriptReply => ({ content: [{ type: 'text', text }], stop_reason: 'end_turn' });
const calling = (content: ContentBlock[]): ScriptReply => ({ content, stop_reason: 'tool_use' });

/** Returns the tool of a script: the argument `tool`, else the first of the request, else a fixed name. */
const toolIn = ({ params }: ScriptRequest, args: ScriptArguments): string =>
  args['tool'] ?? clientTools(params)[0]?.name ?? 'no_tool_given';

const argsFor = (request: ScriptRequest, args: ScriptArguments, tool: string, call: string): ContentBlock =>
  toolUse(
    tool,
    callArgumentsIn(args) ??
      sampleArguments(schemaOf(request.params, tool), (purpose) => request.draw(`${call} ${purpose}`)),
  );

/** `toolLoop?tool=…&n=3&args={…}`: n turns with one call each, then the end. */
export const toolLoopScript: ModelScript = (request, args) => {
  const { turn } = taskOf(request.params);
  const n = numberIn(args, 'n', 3);
  if (turn >= n) return done(`Finished after ${n} calls.`);
  return calling([argsFor(request, args, toolIn(request, args), `turn ${turn}`)]);
};

/** `parallel?k=3&tools=a,b`: k calls in the first turn, over the named tools in rotation, then the end. */
export const parallelScript: ModelScript = (request, args) => {
  if (taskOf(request.params).turn > 0) return done('All calls are answered.');
  const named = args['tools']?.split(',') ?? clientTools(request.params).map(({ name }) => name);
  const tools = named.length > 0 ? named : ['no_tool_given'];
  const k = numberIn(args, 'k', 3);
  return calling(
    Array.from({ length: k }, (_, i) =>
      argsFor(request, args, tools[i % tools.length] ?? 'no_tool_given', `call ${i}`),
    ),
  );
};

/**
 * `sequence?steps=[…]&since=directive`: a JSON list with one entry per turn: `{"tool","args"}`, a list of such entries for
 * parallel calls, or `{"text"}`, which ends the turn. Turns are counted from the user's last text, or from the message
 * with the directive, so that a later remark does not restart the sequence.
 */
export const sequenceScript: ModelScript = ({ params }, args) => {
  const turn = args['since'] === 'directive' ? turnsSinceDirective(params) : taskOf(params).turn;
  const step = stepsIn(args)[turn];
  if (step === undefined) return done('The sequence is over.');
  const text = typeof step === 'object' && step !== null && 'text' in step ? step.text : undefined;
  if (typeof text === 'string') return done(text);
  const calls = (Array.isArray(step) ? step : [step]).map(plannedCall).filter((call) => call !== undefined);
  return calls.length === 0
    ? done('The sequence is over.')
    : calling(calls.map((call) => toolUse(call.tool, call.args)));
};

function turnsSinceDirective({ messages }: MessageParams): number {
  const from = messages.findLastIndex(
    (message) => message.role === 'user' && textOf(message).includes('⟦sim:'),
  );
  return messages.slice(from + 1).filter(({ role }) => role === 'assistant').length;
}

/** `badArgs?tool=…&n=1`: calls with arguments that break the tool's schema n times, then correctly once, then ends. */
export const badArgsScript: ModelScript = (request, args) => {
  const { turn } = taskOf(request.params);
  const n = numberIn(args, 'n', 1);
  const tool = toolIn(request, args);
  if (turn < n) return calling([toolUse(tool, badArguments(schemaOf(request.params, tool)))]);
  if (turn === n) return calling([argsFor(request, args, tool, 'corrected')]);
  return done('The call was corrected.');
};

/** `unknownTool?tool=…`: calls a tool that the request does not offer, then ends. */
export const unknownToolScript: ModelScript = ({ params }, args) => {
  if (taskOf(params).turn > 0) return done('There is no such tool.');
  return calling([toolUse(args['tool'] ?? 'summon_daemon', { name: 'Maxwell' })]);
};

/** `hugeArgs?bytes=N&tool=…`: one call whose arguments take N bytes (default 1,000,000), then the end. */
export const hugeArgsScript: ModelScript = (request, args) => {
  if (taskOf(request.params).turn > 0) return done('That was large.');
  const tool = toolIn(request, args);
  const schema = (schemaOf(request.params, tool) ?? {}) as {
    properties?: Record<string, { type?: unknown }>;
  };
  const name =
    Object.entries(schema.properties ?? {}).find(([, { type }]) => type === 'string')?.[0] ?? 'data';
  const sampled = sampleArguments(schema, request.draw);
  return calling([toolUse(tool, { ...sampled, [name]: 'x'.repeat(numberIn(args, 'bytes', 1_000_000)) })]);
};

/** `duplicateToolUse?ids=same|distinct`: the same call twice in one turn. Default: with the same id. */
export const duplicateToolUseScript: ModelScript = (request, args) => {
  if (taskOf(request.params).turn > 0) return done('Once would have been enough.');
  const call = argsFor(request, args, toolIn(request, args), 'twice');
  const id = args['ids'] === 'distinct' ? {} : { id: idFrom('toolu_01', 22, request.draw('duplicate')) };
  return calling([
    { ...call, ...id },
    { ...call, ...id },
  ]);
};

/** `deepArgs?levels=200`: one call with arguments of this nesting depth, then the end. */
export const deepArgsScript: ModelScript = (request, args) => {
  if (taskOf(request.params).turn > 0) return done('That was deep enough.');
  let deep: JsonValue = 'the end';
  for (let level = numberIn(args, 'levels', 200); level > 0; level--) deep = [deep];
  return calling([toolUse(toolIn(request, args), { deep })]);
};

/** Calls a tool, if any, then ends, with blank texts around its content, which no client may send back. */
export const blankTextsScript: ModelScript = (request, args) => {
  const blank = (text: string): ContentBlock => ({ type: 'text', text });
  if (clientTools(request.params).length === 0 || taskOf(request.params).turn > 0)
    return { content: [blank(' \n'), blank('Done.'), blank('')], stop_reason: 'end_turn' };
  return calling([blank(''), argsFor(request, args, toolIn(request, args), 'call'), blank('\n')]);
};

/** Stops at max_tokens inside a tool call, whose incomplete input must not be executed. */
export const maxTokensMidToolUseScript: ModelScript = (request, args) => ({
  content: [{ type: 'text', text: 'Let me look.' }, toolUse(toolIn(request, args), {})],
  stop_reason: 'max_tokens',
  outputTokens: request.params.max_tokens,
});

/** Calls a tool in every turn, for ever; `same=1` with the same arguments each time. */
export const infiniteToolsScript: ModelScript = (request, args) => {
  const call = flagIn(args, 'same') ? 'again' : `turn ${taskOf(request.params).turn}`;
  const tool = toolIn(request, args);
  const draw = (purpose: string): number => (flagIn(args, 'same') ? 0.5 : request.draw(`${call} ${purpose}`));
  const input = callArgumentsIn(args) ?? sampleArguments(schemaOf(request.params, tool), draw);
  return calling([toolUse(tool, input)]);
};

/** `reactsToIsError?tool=…`: calls a tool until a result is no error, at most five times, with a remark on each error. */
export const reactsToIsErrorScript: ModelScript = (request, args) => {
  const { turn } = taskOf(request.params);
  const results = lastToolResults(request.params);
  if (turn > 0 && results.every((result) => result['is_error'] !== true)) return done('The call succeeded.');
  if (turn >= 5) return done('I give up after five errors.');
  const call = argsFor(request, args, toolIn(request, args), `try ${turn}`);
  const remark = turn === 0 ? [] : [{ type: 'text', text: 'That failed; I will try again.' }];
  return calling([...remark, call]);
};
