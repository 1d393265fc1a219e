import type * as types from './generated/types.gen.ts';
import { linesOf } from './lines.ts';
import { onceOnly, type OnceOptions } from './once.ts';
import type { Send, SendOptions } from './send.ts';

/** Options of an import: the fields of its form beside the file. */
export type ImportOptions = Omit<
  types.AgentImport,
  'file' | 'strict' | 'strip_messages' | 'append_copy_suffix' | 'project_id'
> & {
  /** Refuses a file of which a part would be left out. */
  readonly strict?: boolean;
  readonly strip_messages?: boolean;
  readonly append_copy_suffix?: boolean;
};

/** Options of an upload. It has no timeout. */
export interface TransferOptions extends OnceOptions {
  readonly signal?: AbortSignal;
}

export type ImportQuery = NonNullable<types.ImportAgentsData['query']>;

/** Agents to import: JSONL, or a body per agent. */
export type LineSource = Blob | string | AsyncIterable<unknown> | Iterable<unknown>;

/** Sends an agent file as a form. */
export function importFile(
  send: Send,
  file: Blob | string,
  options: ImportOptions,
  transfer: TransferOptions,
): Promise<types.AgentImportReport> {
  const form = new FormData();
  for (const [name, value] of Object.entries<string | boolean | null | undefined>(options))
    if (value !== undefined) form.set(name, String(value));
  form.set('file', typeof file === 'string' ? new Blob([file]) : file, 'agents.af');
  // The type of a form names its boundary, so `fetch` sets it.
  return upload(send, { body: form }, transfer);
}

/** Sends agents as lines. */
export async function importLines(
  send: Send,
  source: LineSource,
  query: ImportQuery,
  transfer: TransferOptions,
): Promise<types.AgentImportReport> {
  const isText = typeof source === 'string' || source instanceof Blob;
  const body = isText ? source : await toLines(source);
  return upload(send, { query, body, headers: { 'content-type': 'application/jsonl' } }, transfer);
}

async function toLines(source: AsyncIterable<unknown> | Iterable<unknown>): Promise<Blob> {
  const lines: string[] = [];
  for await (const agent of source) lines.push(`${JSON.stringify(agent)}\n`);
  return new Blob(lines);
}

async function upload(
  send: Send,
  { headers, ...sent }: Pick<SendOptions, 'body' | 'query' | 'headers'>,
  { idempotencyKey, signal }: TransferOptions,
): Promise<types.AgentImportReport> {
  const answer = await send('POST', '/v1/agents/import', {
    ...sent,
    headers: { ...headers, ...onceOnly(idempotencyKey) },
    signal,
    timeoutMs: Infinity,
  });
  return (await answer.json()) as types.AgentImportReport;
}

/** Yields the agents of a download as they come. Throws an error for a download that is cut. */
export async function* exportLines(
  send: Send,
  query: NonNullable<types.ExportAgentsData['query']>,
  signal: AbortSignal | undefined,
): AsyncGenerator<types.ExportedAgent, void, undefined> {
  const answer = await send('GET', '/v1/agents/export', { query, signal, isStream: true });
  for await (const line of linesOf(answer.body)) yield JSON.parse(line) as types.ExportedAgent;
}
