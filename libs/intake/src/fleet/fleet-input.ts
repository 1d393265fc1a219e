import type { FleetAgent, NewMessage } from '@nightshift/db';
import { parseWithVariables, unusable, type TextTemplate, type VariablePath } from '../template.ts';

/** The variables of a fleet's input and their properties; `any` has properties of the caller. */
const VARIABLES: Readonly<Record<string, readonly string[] | 'any'>> = {
  agent: ['id', 'name', 'description', 'tags', 'metadata'],
  blocks: 'any',
  last_run: ['id', 'state', 'stop_reason', 'ended_at', 'result'],
  tick: ['due_at'],
  new_messages: 'any',
  new_messages_text: 'any',
};

/** Variables that need a cursor. */
const OF_CURSOR: ReadonlySet<unknown> = new Set(['new_messages', 'new_messages_text']);

/** The input template of a fleet, and the facts that it shows. */
export interface FleetInput {
  readonly fill: TextTemplate;
  /** Labels of the blocks it names; null: it reads all blocks. */
  readonly labels: readonly string[] | null;
  readonly shows_last_run: boolean;
}

/**
 * Parses the input of a fleet, at `/input`.
 * Throws: `validation_failed` for a template that cannot be parsed, an unknown variable, or new messages without a cursor.
 */
export function parseFleetInput(input: string, hasCursor: boolean): FleetInput {
  const path = '/input';
  const { fill, variables } = parseWithVariables(input, path);
  const labels = new Set<string>();
  let readsAllBlocks = false;
  for (const variable of variables) {
    const problem = problemOf(variable, hasCursor);
    if (problem !== null) throw unusable(path, problem);
    const [name, label] = variable;
    if (name !== 'blocks') continue;
    if (typeof label === 'string') labels.add(label);
    else readsAllBlocks = true;
  }
  return {
    fill,
    labels: readsAllBlocks ? null : [...labels],
    shows_last_run: variables.some(([name]) => name === 'last_run'),
  };
}

function problemOf([name, property]: VariablePath, hasCursor: boolean): string | null {
  const known = typeof name === 'string' && Object.hasOwn(VARIABLES, name) ? VARIABLES[name] : undefined;
  if (known === undefined)
    return `has the unknown variable '${String(name)}'; known are ${Object.keys(VARIABLES).join(', ')}`;
  if (OF_CURSOR.has(name) && !hasCursor)
    return `reads ${String(name)}, which needs a cursor: name one in /cursor`;
  if (known !== 'any' && typeof property === 'string' && !known.includes(property))
    return `has the unknown variable '${String(name)}.${property}'; known are ${known.map((one) => `${String(name)}.${one}`).join(', ')}`;
  return null;
}

/** Fills in the input for an agent. Throws: `validation_failed`. */
export function fillFleetInput(
  { fill }: FleetInput,
  agent: FleetAgent,
  messages: readonly NewMessage[] | null,
  tickDueAt: Date | null,
): string {
  const { id, name, description, tags, metadata, blocks, last_run } = agent;
  return fill(
    {
      agent: { id: `agent-${id}`, name, description, tags, metadata: metadata ?? {} },
      blocks: Object.fromEntries(blocks.map(({ label, value }) => [label, value])),
      last_run:
        last_run === null
          ? null
          : {
              ...last_run,
              id: `run-${last_run.id}`,
              ended_at: new Date(last_run.ended_at).toISOString(),
            },
      tick: { due_at: tickDueAt?.toISOString() ?? null },
      ...(messages === null
        ? {}
        : { new_messages: messages.map(toVariable), new_messages_text: messages.map(toLine).join('\n') }),
    },
    '/input',
  );
}

function toVariable({ role, text, at, name }: NewMessage): object {
  return { role, text, at: at.toISOString(), name };
}

function toLine({ role, text, at, name }: NewMessage): string {
  return `[${at.toISOString()}] ${name === null ? role : `${role} ${name}`}: ${text}`;
}
