import { answerIn, planIn, planLeft, toolUse, type PlannedCall } from './plan.ts';
import { labelsToRewrite, planRewrite } from './rewriter.ts';
import { sampleArguments } from './sample-arguments.ts';
import type { ContentBlock, ModelScript, ScriptRequest } from './script.ts';
import { blocksOf, clientTools, lastToolResults, taskOf } from './turns.ts';
import type { Task } from './turns.ts';

const cut = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length)}…`;

function resultText(block: ContentBlock): string {
  const content = block['content'];
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .map((part) => (typeof part === 'object' && part !== null && 'text' in part ? part.text : ''))
    .filter((text) => typeof text === 'string')
    .join(' ');
}

function summary(task: Task): string {
  const results = task.messages
    .filter((message) => message.role === 'user')
    .flatMap((message) => blocksOf(message).filter((block) => block.type === 'tool_result'));
  if (results.length === 0) {
    if (labelsToRewrite(task.text) !== null) return 'Nothing changed.';
    const firstLine = task.text.split('\n').find((line) => line.trim() !== '') ?? '';
    return firstLine === '' ? 'Done.' : `Understood: ${cut(firstLine.trim(), 120)}`;
  }
  const failed = results.filter((result) => result['is_error'] === true).length;
  const last = results.at(-1);
  const told = last === undefined ? '' : cut(resultText(last).replaceAll('\n', ' ').trim(), 160);
  return `Done after ${results.length} tool ${results.length === 1 ? 'result' : 'results'}${failed > 0 ? `, ${failed} of them errors` : ''}.${told === '' ? '' : ` The last one said: ${told}`}`;
}

function thoughtsOf({ params }: ScriptRequest): ContentBlock[] {
  const type = (params['thinking'] as { type?: unknown } | undefined)?.type;
  return type === 'adaptive' || type === 'enabled' ? [{ type: 'thinking', thinking: '' }] : [];
}

/** Returns the plan in the task's lines; for a memory rewrite without such lines, the rewriter's. */
function planOf({ params }: ScriptRequest, { text, turn }: Task): readonly (readonly PlannedCall[])[] {
  const planned = planIn(text);
  const labels = labelsToRewrite(text);
  if (planned.length > 0 || turn > 0 || labels === null) return planned;
  const calls = planRewrite(params, text, labels);
  return calls.length === 0 ? [] : [calls];
}

/**
 * The default script: it carries out the plan in the user's last message. Lines that are JSON objects with a `tool` are called
 * in order, one per turn, a tool forced by the request first. Then it ends the turn with the JSON of a line's `answer`, or
 * with a short text.
 */
export const obeyScript: ModelScript = (request) => {
  const { params } = request;
  const task = taskOf(params);
  const choice = params['tool_choice'] as
    { type?: unknown; name?: unknown; disable_parallel_tool_use?: unknown } | undefined;
  const thoughts = thoughtsOf(request);
  const planned = choice?.type === 'none' ? [] : planOf(request, task);
  const turns = choice?.disable_parallel_tool_use === true ? planned.flat().map((call) => [call]) : planned;
  const left = planLeft(turns, task.messages);
  const calls = choice?.type === 'tool' ? forcedTurn(left, choice.name) : left[0];
  if (calls !== undefined) {
    return {
      content: [...thoughts, ...calls.map(({ tool, args }) => toolUse(tool, args))],
      stop_reason: 'tool_use',
    };
  }
  const tool =
    choice?.type === 'tool'
      ? params.tools?.find(({ name }) => name === choice.name)
      : choice?.type === 'any' && planned.length === 0 && lastToolResults(params).length === 0
        ? clientTools(params)[0]
        : undefined;
  if (tool !== undefined) {
    const call = toolUse(tool.name, sampleArguments(tool['input_schema' as keyof typeof tool], request.draw));
    return { content: [...thoughts, call], stop_reason: 'tool_use' };
  }
  const wanted = answerIn(task.text);
  const text = wanted === undefined ? summary(task) : JSON.stringify(wanted);
  return { content: [...thoughts, { type: 'text', text }], stop_reason: 'end_turn' };
};

/** Returns the calls of a turn that must call `name`: the next planned turn if it calls it, else that call alone. */
function forcedTurn(
  left: readonly (readonly PlannedCall[])[],
  name: unknown,
): readonly PlannedCall[] | undefined {
  const isForced = ({ tool }: PlannedCall): boolean => tool === name;
  const [due = []] = left;
  if (due.some(isForced)) return due.toSorted((a, b) => Number(isForced(b)) - Number(isForced(a)));
  const call = left.flat().find(isForced);
  return call === undefined ? undefined : [call];
}
