import type { LettaMessage, Run, Step } from '@nightshift/client';
import { plainOf } from './table.ts';
import { countOf, dollarsOf, durationOf } from './words.ts';

/** An entry of the log of a run. */
export interface Entry {
  /** Tells entries apart when a run is followed. */
  readonly key: string;
  readonly at: string;
  readonly kind:
    'request' | 'answer' | 'system' | 'user' | 'thought' | 'call' | 'result' | 'assistant' | 'wait' | 'end';
  readonly text: string;
}

/** Returns the log of a run in the order of time. */
export function entriesOf(run: Run, messages: readonly LettaMessage[], steps: readonly Step[]): Entry[] {
  const answeredAt = new Map(steps.map((step) => [step.id, step.completed_at]));
  const entries = [
    ...steps.flatMap(entriesOfStep),
    ...messages.flatMap((message) => entriesOfMessage(message, answeredAt.get(message.step_id ?? ''))),
    ...endOf(run),
  ];
  // The sort is stable: at one moment an answer comes before its messages.
  return entries.sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

function entriesOfStep(step: Step): Entry[] {
  const name = `step ${step.number}${step.attempt > 1 ? `, attempt ${step.attempt}` : ''}`;
  const request: Entry = {
    key: `${step.id}/request`,
    at: step.created_at,
    kind: 'request',
    text: `${name} to ${step.model_handle}`,
  };
  if (step.completed_at === null) return [request];
  const took = durationOf(Date.parse(step.completed_at) - Date.parse(step.created_at));
  const tokens = `${countOf(step.prompt_tokens)} tokens in, ${countOf(step.completion_tokens)} out, ${dollarsOf(step.cost_usd)}`;
  const failure = step.error_data?.message;
  return [
    request,
    {
      key: `${step.id}/answer`,
      at: step.completed_at,
      kind: 'answer',
      text: `${name} ${step.state} after ${took}${failure === undefined ? `: ${tokens}` : `: ${plainOf(failure)}`}`,
    },
  ];
}

/** Messages have whole seconds: those of an answer stand at its time. */
function entriesOfMessage(message: LettaMessage, answeredAt: string | null | undefined): Entry[] {
  const at = new Date(answeredAt ?? message.date).toISOString();
  const entry = (kind: Entry['kind'], text: string): Entry[] => [
    { key: message.otid, at, kind, text: plainOf(text) },
  ];
  switch (message.message_type) {
    case 'system_message':
      return entry('system', message.content);
    case 'user_message':
      return entry('user', contentOf(message.content));
    case 'assistant_message':
      return entry('assistant', message.content);
    case 'reasoning_message':
      return entry('thought', message.reasoning);
    case 'hidden_reasoning_message':
      return entry('thought', `(${message.state})`);
    case 'tool_call_message':
      return entry('call', message.tool_calls.map((call) => `${call.name}(${call.arguments})`).join('\n'));
    case 'tool_return_message':
      return entry('result', `${message.status === 'error' ? 'error: ' : ''}${message.tool_return}`);
  }
}

function contentOf(content: string | readonly { readonly type: string; readonly text?: string }[]): string {
  if (typeof content === 'string') return content;
  return content.map((part) => part.text ?? `(${part.type})`).join('\n');
}

function endOf(run: Run): Entry[] {
  if (run.completed_at !== null) {
    const error = run.error === null ? '' : `: ${plainOf(run.error.message)}`;
    return [
      {
        key: 'end',
        at: run.completed_at,
        kind: 'end',
        text: `${run.state}, ${run.ended_reason ?? ''}${error}`,
      },
    ];
  }
  const text = waitOf(run);
  const at = new Date().toISOString();
  return text === undefined ? [] : [{ key: `wait/${text}`, at, kind: 'wait', text }];
}

function waitOf({ waits_for: waitsFor, last_error: error, next_attempt_at: next }: Run): string | undefined {
  if (waitsFor?.type === 'run') return `for its conversation, which ${waitsFor.run_id} holds`;
  if (waitsFor?.type === 'caller')
    return `for the results of ${plainOf(waitsFor.tool_calls.map((call) => call.tool_name).join(', '))} from its caller`;
  if (next !== null) return `until ${next}, to try the step again: ${plainOf(error?.message ?? '')}`;
  return undefined;
}
