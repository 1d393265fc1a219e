import { toWireId } from '@nightshift/agent-core';
import { claimToolTrial, commitToolTrial, type ClaimedToolTrial, type ToolTrialReply } from '@nightshift/db';
import { settledBy } from '../../flow-parts/calls/call.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { createWaker } from '../../flow-parts/waker.ts';
import type { WantedCall } from '../../tools/places.ts';
import { failed, type ToolReply, type ToolRequest } from '../../tools/runner.ts';

const FLOW = 'run-tool-trial';
/** Longest time in which a claimed trial finds a place. Unit: milliseconds. */
const PLACE_WAIT_MS = 10_000;
/** Added to a tool's timeout: the wait for a place, the start of a host, the commit. Unit: milliseconds. */
const GRACE_MS = PLACE_WAIT_MS + 20_000;
const LOOK_AGAIN_MS = 1_000;
/** Maximum length of a stored stdout and stderr each. Unit: UTF-16 code units. */
const OUTPUT_CHARS_MAX = 4_096;

/**
 * Carries out the trial of a tool that waits longest.
 * A claim is for ever: if this worker dies, no other repeats the call, and the caller is told that its outcome is unknown.
 */
export async function runToolTrial(deps: FlowDeps): Promise<FlowReport> {
  // Before the claim: if the database is away now, the trial still waits.
  await deps.grantKeeper.refresh();
  const trial = await claimToolTrial(deps.db, deps.claimant.owner, GRACE_MS);
  if (trial === null) return { flow: FLOW, worked: false };
  const reply = await runPlaced(deps, trial);
  await commitToolTrial(deps.db, trial.id, toStored(trial, reply));
  const duration_ms = Math.round(reply.duration_ms);
  return { flow: FLOW, worked: true, tool: trial.tool.name, status: reply.status, duration_ms };
}

/** Makes the call once it has a place among the calls of this worker. A stopping worker ends it early. */
async function runPlaced(
  { tools, leases, grantKeeper }: FlowDeps,
  trial: ClaimedToolTrial,
): Promise<ToolReply> {
  const signal = leases.lettingGo;
  const request = requestOf(trial);
  const { kind, name, return_char_limit, side_effects } = trial.tool;
  const call: WantedCall = {
    pool: tools.poolOf(kind, name),
    tool_name: name,
    run_id: trial.id,
    run_chars: return_char_limit,
    is_once: side_effects === 'once',
  };
  const waker = createWaker();
  const places = tools.places.open(() => waker.wake());
  try {
    const endsMs = performance.now() + PLACE_WAIT_MS;
    for (;;) {
      const [taken] = places.take([call]);
      grantKeeper.ask();
      if (taken !== undefined) return await tools.run(request, { signal });
      if (signal.aborted || performance.now() >= endsMs)
        return { ...failed(request, 'The worker has no place for the call.'), unavailable: true };
      await waker.wait(LOOK_AGAIN_MS);
    }
  } finally {
    places.close();
  }
}

/** A trial is of no run: its tool sees the id of the trial in the place of a run's. */
function requestOf({ id, agent_id, tool, arguments: args }: ClaimedToolTrial): ToolRequest {
  return {
    call_id: id,
    kind: tool.kind,
    tool_name: tool.name,
    arguments: args,
    agent_id: toWireId('agent', agent_id),
    run_id: `trial-${id}`,
    tool_use_id: `trial-${id}`,
    idempotency_key: id,
    side_effects: tool.side_effects,
    timeout_ms: tool.timeout_ms,
    result_char_limit: tool.return_char_limit,
    source: tool.source ?? null,
  };
}

function toStored({ tool }: ClaimedToolTrial, reply: ToolReply): ToolTrialReply {
  const { stdout = '', stderr = '', started, unavailable } = reply;
  return {
    ...settledBy(tool, reply).outcome,
    duration_ms: Math.round(reply.duration_ms),
    ...(stdout === '' ? {} : { stdout: stdout.slice(0, OUTPUT_CHARS_MAX) }),
    ...(stderr === '' ? {} : { stderr: stderr.slice(0, OUTPUT_CHARS_MAX) }),
    ...(unavailable === true && !started ? { unavailable } : {}),
  };
}
