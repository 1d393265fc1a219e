import { pipeline, Readable } from 'node:stream';
import { constants, createGzip } from 'node:zlib';
import { NightshiftError } from '@nightshift/agent-core';
import { readBatch, readRetryChain, type BatchRow, type ResultFilter } from '@nightshift/db';
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { ENDED_STATES } from '../../schemas/failure.ts';
import {
  JSON_LINES,
  resultLine,
  resultsQuery,
  type ResultsEnd,
  type ResultsQuery,
} from '../../schemas/results.ts';
import { yieldEvery } from '../../yielding.ts';
import {
  downloadKey,
  FIRST_END,
  FIRST_IN_INPUT,
  fromEndCursor,
  fromInputCursor,
  toEndCursor,
  toInputCursor,
  type ResultsCursor,
} from './cursor.ts';
import { toRunLines, type Included } from './lines.ts';
import { pagesByEnd, pagesInOrder, readAhead, type ReadBatch, type ResultPage } from './pages.ts';

/** Characters of lines that are sent together. */
const CHUNK_CHARS = 64 * 1024;

/** Streams the results of a batch's ended runs, a line each. */
export function downloadResults(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id/results`,
    {
      // A HEAD would read all runs.
      exposeHeadRoute: false,
      schema: {
        operationId: 'downloadResults',
        summary: 'Download the results of a batch, a JSON line per ended run',
        description:
          'At any time: runs that have ended so far. The last line is `{"end": …}` with the count of runs; a file without it ' +
          'was cut. Drop the part of a line at its end, and continue with `after`. Compressed by gzip if the client accepts it.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        querystring: resultsQuery,
        response: {
          200: {
            description: 'A value per line.',
            content: { [JSON_LINES]: { schema: resultLine } },
          },
          ...problems,
        },
      },
    },
    async (request, reply) => {
      const { query } = request;
      const batch = await readBatch(context.db, context.projectId, request.params.job_id);
      const results = await openResults(context, batch, query);
      countDownload(context, reply);
      const lines = Readable.from(results, { highWaterMark: 1 });
      void reply.type(JSON_LINES).header('vary', 'accept-encoding');
      if (!acceptsGzip(request.headers['accept-encoding'])) return send(reply, lines);
      void reply.header('content-encoding', 'gzip');
      // The answer reports errors, and destroys both if the client disconnects.
      const zipped = pipeline(lines, createGzip({ level: constants.Z_BEST_SPEED }), () => undefined);
      return send(reply, zipped);
    },
  );
}

/** Counts a download until its connection is done with it. Throws: `not_ready` beyond the limit of downloads. */
export function countDownload({ downloads }: Context, reply: FastifyReply): void {
  if (downloads.open >= downloads.max) {
    throw new NightshiftError(
      'not_ready',
      `This process sends ${downloads.max} downloads, its limit. Ask again when one has ended.`,
    );
  }
  downloads.open += 1;
  reply.raw.once('close', () => {
    downloads.open -= 1;
  });
}

/** Sends a stream: the schema of the answer is that of a line. */
const send = (reply: FastifyReply, stream: Readable): FastifyReply => reply.send(stream);

/** Returns whether a client accepts gzip, by its `Accept-Encoding`. */
function acceptsGzip(header: string | readonly string[] | undefined): boolean {
  const codings = String(header ?? '')
    .toLowerCase()
    .split(',')
    .map((coding) => coding.trim());
  const weightOf = (name: string): boolean | undefined => {
    const found = codings.find((coding) => coding.split(';', 1)[0]?.trim() === name);
    return found === undefined ? undefined : !/;\s*q=0(\.0*)?$/.test(found);
  };
  return weightOf('gzip') ?? weightOf('*') ?? false;
}

/** Throws: `validation_failed` for a cursor of another download, and for retries in the order of ends. */
async function openResults(
  context: Context,
  { id, state, accepted }: BatchRow,
  query: ResultsQuery,
): Promise<AsyncGenerator<string>> {
  const { db, projectId } = context;
  const include: Included = new Set(query.include);
  const hasRetries = include.has('retries');
  if (hasRetries && query.order === 'finished') throw retriesByEnd();
  const retries = hasRetries ? await readRetryChain(db, projectId, id) : [];
  const has_ended =
    ['completed', 'failed', 'cancelled'].includes(state) && retries.every((batch) => batch.has_ended);
  const batch: ReadBatch = { id, accepted, has_ended, retries: retries.map((retry) => retry.id) };
  const filter: ResultFilter = {
    states: query.state ?? ENDED_STATES,
    stop_reasons: query.ended_reason ?? null,
    error_group: query.error_group ?? null,
    messages: include.has('messages'),
  };
  const key = downloadKey(id, query);
  const { after } = query;
  if (query.order === 'finished') {
    const from = after === undefined ? FIRST_END : fromEndCursor(key, after);
    const isComplete = (): boolean => has_ended;
    const pages = pagesByEnd(db, batch, filter, from.position);
    return toFile(context, batch, include, pages, from, { write: (at) => toEndCursor(key, at), isComplete });
  }
  const from = after === undefined ? FIRST_IN_INPUT : fromInputCursor(key, after);
  const pages = pagesInOrder(db, batch, filter, from.position);
  return toFile(context, batch, include, pages, from, {
    write: (at) => toInputCursor(key, at),
    isComplete: (position) => !position.is_partial,
  });
}

interface Cursors<Position> {
  write(cursor: ResultsCursor<Position>): string;
  isComplete(position: Position): boolean;
}

/**
 * Yields the lines of the pages, and the last line. Ends without a last line, by an error, when the batch is deleted meanwhile or
 * the server shuts down.
 */
async function* toFile<Position>(
  context: Context,
  batch: ReadBatch,
  include: Included,
  pages: AsyncGenerator<ResultPage<Position>>,
  from: ResultsCursor<Position>,
  cursors: Cursors<Position>,
): AsyncGenerator<string> {
  let { count, position } = from;
  const yieldIfDue = yieldEvery();
  for await (const page of readAhead(context.db, pages)) {
    const positions = page.runs.values();
    let text = '';
    const rows = page.runs.map(({ row }) => row);
    for await (const line of toRunLines(context.db, rows, page.usages, include)) {
      await yieldIfDue();
      count += 1;
      const at = positions.next().value?.position ?? page.position;
      text += `${JSON.stringify({ ...line, cursor: cursors.write({ count, position: at }) })}\n`;
      if (text.length < CHUNK_CHARS) continue;
      yield text;
      text = '';
    }
    position = page.position;
    if (text !== '') yield text;
    if (!context.isOpen()) throw new NightshiftError('not_ready', 'The server is shutting down.');
  }
  await readBatch(context.db, context.projectId, batch.id);
  const end = { count, complete: cursors.isComplete(position), cursor: cursors.write({ count, position }) };
  yield `${JSON.stringify({ end } satisfies ResultsEnd)}\n`;
}

function retriesByEnd(): NightshiftError {
  const message = 'cannot hold retries with order=finished: ask for order=input';
  return new NightshiftError('validation_failed', `?include ${message}.`, {
    fields: [{ path: '?include', message }],
  });
}
