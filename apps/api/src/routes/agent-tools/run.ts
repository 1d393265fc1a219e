import { setTimeout } from 'node:timers/promises';
import {
  CARRIED_OUT,
  createArgumentValidator,
  isError,
  NightshiftError,
  type JsonObject,
  type ToolDefinition,
} from '@nightshift/agent-core';
import {
  endTrialWait,
  newId,
  readAgent,
  readToolTrial,
  readToolsOfAgents,
  setTrialWait,
  storeToolTrial,
  type AgentToolRow,
  type NewToolTrial,
  type ToolTrialReply,
} from '@nightshift/db';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders, keyOf } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';

/** Time in which a worker takes a trial. Unit: milliseconds. */
const WORKER_WAIT_MS = 15_000;
/** Intervals between two looks at a trial. Unit: milliseconds. */
const LOOK_MS_MIN = 20;
const LOOK_MS_MAX = 500;
/** Trials that this process waits for at a time. */
const TRIALS_MAX = 64;

const input = z
  .strictObject({
    args: z.record(z.string(), z.unknown()).nullish().describe('Arguments of the call. Default: none.'),
  })
  .meta({ id: 'ToolRun', examples: [{ args: { item: 'bolts' } }] });

const executionResult = z
  .object({
    status: z.enum(['success', 'error']),
    func_return: z.string().describe('The result or the error, as a model would see it.'),
    stdout: z.array(z.string()).describe('At most 4,096 characters.'),
    stderr: z.array(z.string()).describe('At most 4,096 characters.'),
    agent_state: z.null(),
    sandbox_config_fingerprint: z.null(),
    duration_ms: z.int().describe('Beyond Letta.'),
  })
  .meta({
    id: 'ToolExecutionResult',
    examples: [
      {
        ...{ status: 'success', func_return: '7 bolts', stdout: [], stderr: [] },
        ...{ agent_state: null, sandbox_config_fingerprint: null, duration_ms: 12 },
      },
    ],
  });
type ExecutionResult = z.output<typeof executionResult>;

/** Tries a tool: a worker calls it once, and the answer waits for its reply. */
export function runAgentTool(app: App, context: Context): void {
  const validate = createArgumentValidator();
  let open = 0;
  app.post(
    '/v1/agents/:agent_id/tools/:tool_name/run',
    {
      schema: {
        operationId: 'runAgentTool',
        summary: 'Try a tool of an agent',
        description:
          'Calls the tool once, on a worker, with the secrets of the agent, and waits for its reply: at most its timeout and a ' +
          'minute. The call belongs to no run and changes no conversation. A tool that the commit of a run carries out, and ' +
          'one that needs an approval, is refused. With an `Idempotency-Key` a repeated request waits for the same call.',
        tags: ['agents'],
        headers: idempotencyHeaders,
        params: z.object({ agent_id: wireId('agent'), tool_name: z.string().min(1).max(64) }),
        body: input,
        response: { 200: executionResult, ...problems },
      },
    },
    async (request, reply) => {
      if (open >= TRIALS_MAX)
        throw new NightshiftError('not_ready', `${TRIALS_MAX} trials of tools are under way in this API.`);
      const { agent_id, tool_name } = request.params;
      const args = (request.body.args ?? {}) as JsonObject;
      open += 1;
      try {
        return await makeOnce(context, request, reply, {
          async prepare(): Promise<NewToolTrial> {
            const tool = await findTool(context, agent_id, tool_name);
            const checked = validate(tool, args);
            if (!checked.ok) throw refused('/args', `does not fit: ${checked.message}`);
            return { id: newId(), project_id: context.projectId, agent_id, tool, arguments: args };
          },
          async make(trx, trial) {
            await storeToolTrial(trx, trial, WORKER_WAIT_MS);
            return { id: trial.id };
          },
          show: ({ id }) => untilReplied(context, id, request, reply),
        });
      } catch (error) {
        // Clients repeat requests after a 5xx by themselves.
        if (isError(error, 'outcome_unknown')) void reply.header('x-should-retry', 'false');
        throw error;
      } finally {
        open -= 1;
      }
    },
  );
}

/**
 * Returns the tool of an agent as it is now.
 * Throws: `not_found` for the agent or the tool, `validation_failed` for a tool that cannot be tried.
 */
async function findTool(context: Context, agentId: string, name: string): Promise<ToolDefinition> {
  const { db, projectId } = context;
  const { tool_rules, server_tools } = await readAgent(db, projectId, agentId);
  const tool = (await readToolsOfAgents(db, [agentId])).find((each) => each.name === name);
  if (tool === undefined) {
    if (server_tools?.some((each) => each.name === name) === true)
      throw refused(
        'tool_name',
        `names the server tool '${name}', which the provider calls within a request: submit a batch`,
      );
    throw new NightshiftError('not_found', `agent-${agentId} has no tool named '${name}'. Attach it first.`);
  }
  if (CARRIED_OUT[tool.kind] !== 'worker') {
    const why = tool.kind === 'client' ? 'whose calls the caller answers' : 'which works within a run alone';
    throw refused('tool_name', `names '${name}', ${why}: submit a batch with a request that calls it`);
  }
  const isApproved = tool_rules.some(
    ({ type, tool_name }) => type === 'requires_approval' && tool_name === name,
  );
  if (tool.requires_approval || isApproved)
    throw refused(
      'tool_name',
      `names '${name}', whose calls need an approval: submit a batch, or end the approval with ` +
        `PATCH /v1/agents/agent-${agentId}/tools/approval/${name}`,
    );
  return toDefinition(tool);
}

function toDefinition(row: AgentToolRow): ToolDefinition {
  const { name, kind, description, input_schema, side_effects, return_char_limit, timeout_ms, source } = row;
  return {
    ...{ name, kind, description, input_schema, side_effects, return_char_limit, timeout_ms },
    requires_approval: false,
    ...(source === null ? {} : { source }),
  };
}

function refused(path: string, message: string): NightshiftError {
  return new NightshiftError('validation_failed', `${path} ${message}.`, { fields: [{ path, message }] });
}

/**
 * Waits until a worker has replied.
 * Throws: `no_worker` if none took the trial, which is taken back then; `not_ready` if the worker could not start the tool;
 * `outcome_unknown` if its reply is overdue, or this process stops (with a key `not_ready`). A repeated request with the key
 * waits for the same call, and starts it anew if it was not made.
 */
async function untilReplied(
  context: Context,
  id: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<ExecutionResult> {
  const { db, projectId } = context;
  const hasKey = keyOf(request) !== null;
  await setTrialWait(db, id, WORKER_WAIT_MS);
  await context.bell.ring([{ kind: 'trial', id }]);
  for (let delayMs = LOOK_MS_MIN; ; delayMs = Math.min(LOOK_MS_MAX, delayMs * 1.5)) {
    const { state, reply: given, is_untaken, is_lost } = await readToolTrial(db, projectId, id);
    if (given !== null) return toResult(given);
    if (is_untaken && (await endTrialWait(db, id)))
      throw new NightshiftError(
        'no_worker',
        `No worker took the call within ${WORKER_WAIT_MS / 1_000} seconds; it was not made.`,
      );
    if (is_lost) throw unknown('The worker that called the tool has not answered: it may have been killed.');
    const isLeft = !context.isOpen() || reply.raw.destroyed;
    // With a key another caller may wait for the call.
    if (isLeft && state === 'waiting' && !hasKey) await setTrialWait(db, id, 0);
    else if (isLeft) throw stopped(hasKey);
    else await setTimeout(delayMs);
  }
}

/** The error of a wait that this process gives up. A repeated request with its key waits for the same call. */
function stopped(hasKey: boolean): NightshiftError {
  return hasKey
    ? new NightshiftError(
        'not_ready',
        'The API stops before the tool has ended. The call is not taken back: a request with the same Idempotency-Key gets its reply.',
      )
    : unknown('The API stopped before the tool had ended.');
}

function unknown(why: string): NightshiftError {
  return new NightshiftError('outcome_unknown', `${why} The call may or may not have taken effect.`);
}

function toResult({ ok, result, stdout, stderr, duration_ms, unavailable }: ToolTrialReply): ExecutionResult {
  if (unavailable === true)
    throw new NightshiftError('not_ready', `The worker could not start the tool: ${result}`);
  return {
    status: ok ? 'success' : 'error',
    func_return: result,
    stdout: stdout === undefined ? [] : [stdout],
    stderr: stderr === undefined ? [] : [stderr],
    agent_state: null,
    sandbox_config_fingerprint: null,
    duration_ms,
  };
}
