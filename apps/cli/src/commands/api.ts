import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { isApiError } from '@nightshift/client';
import { CommandError } from '../failure.ts';
import { gather } from '../parse.ts';
import type { Define, Session } from '../session.ts';

interface Flags {
  readonly data?: string;
  readonly query?: readonly string[];
  readonly header?: readonly string[];
}

/** Sends any request to the API. */
export const define: Define = (command, run) => {
  command
    .argument('<method>', 'GET, POST, PUT, PATCH or DELETE')
    .argument('<path>', 'path, such as /v1/agents')
    .option('-d, --data <body>', 'body: JSON, @FILE, or - for standard input')
    .option('-q, --query <name=value>', 'parameter of the query; may be repeated', gather)
    .option('-H, --header <name: value>', 'header; may be repeated', gather)
    .addHelpText(
      'after',
      '\nExample: nightshift api POST /v1/tools/add-base-tools\nThe answer is written as it comes.',
    )
    .action(run<Flags>(api));
};

async function api(session: Session, flags: Flags, method: string, path: string): Promise<undefined> {
  const { client, config, out, signal } = session;
  if (!path.startsWith('/'))
    throw new CommandError(`A path begins with a slash, such as /v1/agents, and ${path} does not.`);
  const body = bodyOf(flags.data);
  const response = await client
    .request(method.toUpperCase(), path, {
      query: queryOf(flags.query ?? []),
      headers: {
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headersOf(flags.header ?? []),
      },
      ...(body !== undefined && { body }),
      ...(body instanceof ReadableStream && { retriesMax: 0 }),
      signal,
      isStream: true,
    })
    .catch((error: unknown) => {
      if (!isApiError(error, 'unknown_path', 'method_not_allowed')) throw error;
      throw new CommandError(
        `${error.message} nightshift api GET /openapi.json lists the paths of ${config.url.value}.`,
      );
    });
  let last: Uint8Array | undefined;
  for await (const part of response.body ?? []) {
    await out.write(part as Uint8Array);
    last = part as Uint8Array;
  }
  // A shell's prompt stands on a line of its own.
  if (last !== undefined && last.at(-1) !== 0x0a) await out.write('\n');
}

function bodyOf(data: string | undefined): string | ReadableStream<Uint8Array> | undefined {
  if (data === '-') return Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>;
  if (data?.startsWith('@'))
    return Readable.toWeb(createReadStream(data.slice(1))) as ReadableStream<Uint8Array>;
  return data;
}

function queryOf(pairs: readonly string[]): Record<string, string[]> {
  const query: Record<string, string[]> = {};
  for (const pair of pairs) {
    const [name, value] = split(pair, '=', '-q');
    (query[name] ??= []).push(value);
  }
  return query;
}

function headersOf(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [name, value] = split(pair, ':', '-H');
      return [name.toLowerCase(), value.trim()];
    }),
  );
}

function split(pair: string, separator: string, flag: string): readonly [string, string] {
  const at = pair.indexOf(separator);
  if (at < 1) throw new CommandError(`${flag} takes a name${separator}value, and '${pair}' is none.`);
  return [pair.slice(0, at), pair.slice(at + 1)];
}
