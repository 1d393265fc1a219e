import { Readable } from 'node:stream';
import { listOf, NightshiftError } from '@nightshift/agent-core';
import { listAgents, type AgentFilter } from '@nightshift/db';
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { toAgentLine } from '../../agent-files/write-file.ts';
import type { App, Context } from '../../context.ts';
import { QUERY_LIST_MAX } from '../../query.ts';
import { exportedLine } from '../../schemas/agent-file.ts';
import { problems } from '../../schemas/answers.ts';
import { JSON_LINES } from '../../schemas/results.ts';
import { readAgentStates } from '../../wire/to-agent-state.ts';
import { countDownload } from '../batch-results/download.ts';

const PAGE_AGENTS = 200;
const RELATIONS = { blocks: true, tools: true } as const;

/** Streams agents, a line each. */
export function exportAgents(app: App, context: Context): void {
  app.get(
    '/v1/agents/export',
    {
      // A HEAD would read all agents.
      exposeHeadRoute: false,
      schema: {
        operationId: 'exportAgents',
        summary: 'Export agents as lines, oldest first',
        description:
          'Each line creates its agent: POST /v1/agents/import takes the lines back. Blocks stand by value with their ids; ' +
          'messages and hidden agents are left out.',
        tags: ['agents'],
        querystring: z.strictObject({
          name: z.string().optional(),
          query_text: z.string().optional().describe('Part of the name.'),
          tags: listOf(z.string(), QUERY_LIST_MAX).optional(),
          match_all_tags: z.boolean().default(false),
        }),
        response: {
          200: { description: 'A value per line.', content: { [JSON_LINES]: { schema: exportedLine } } },
          ...problems,
        },
      },
    },
    async ({ query }, reply) => {
      const filter = {
        name: query.name ?? null,
        name_part: query.query_text ?? null,
        tags: query.tags ?? [],
        all_tags: query.match_all_tags,
        block_id: null,
      };
      countDownload(context, reply);
      void reply.type(JSON_LINES);
      return send(reply, Readable.from(linesOf(context, filter), { highWaterMark: 1 }));
    },
  );
}

/** Sends a stream: the schema of the answer is that of a line. */
const send = (reply: FastifyReply, stream: Readable): FastifyReply => reply.send(stream);

/** Yields the lines of a page at once. Ends by an error when the server shuts down. */
async function* linesOf(context: Context, filter: AgentFilter): AsyncGenerator<string> {
  const { db, projectId } = context;
  for (let after: string | null = null; ;) {
    const page = { limit: PAGE_AGENTS, order: 'asc', after, before: null } as const;
    const { rows, is_cut } = await listAgents(db, projectId, page, filter, 'created_at', RELATIONS);
    const agents = await readAgentStates(db, rows, RELATIONS);
    if (agents.length > 0) yield agents.map((agent) => `${JSON.stringify(toAgentLine(agent))}\n`).join('');
    const last = rows.at(-1);
    if (last === undefined || (!is_cut && rows.length < PAGE_AGENTS)) return;
    if (!context.isOpen()) throw new NightshiftError('not_ready', 'The server is shutting down.');
    after = last.id;
  }
}
