import type { HeldChange } from '@nightshift/client';
import { isRefusal } from '../../api-refusal.ts';
import { paintOf } from '../../diff-view.ts';
import { EXIT } from '../../failure.ts';
import type { Session } from '../../session.ts';
import { countOfNoun } from '../../words.ts';
import { act, type Review } from './act.ts';
import { listChosen } from './changes.ts';
import { draftOf } from './draft.ts';
import { countHeld, type HeldFlags } from './held.ts';
import { openKeys } from './keys.ts';
import {
  HELP,
  renderChange,
  renderPrompt,
  renderVerdicts,
  type Known,
  type ScreenOptions,
  type Shown,
} from './review-screen.ts';
import { settleChosen } from './settle.ts';
import { countVerdicts, review, START, type Effect, type ReviewState } from './review-state.ts';

/** Reviews the held changes of a batch by keys. Returns the exit code. */
export async function reviewInTerminal(session: Session, batchId: string, flags: HeldFlags): Promise<number> {
  const list = listChosen(session, batchId, flags);
  if ((await list.at(0)) === undefined) {
    session.out.note('No such changes are held.');
    return EXIT.ok;
  }
  const keys = openKeys(process.stdin, session.signal);
  try {
    return await loop({ session, batchId, keys, list, flags });
  } finally {
    keys.close();
  }
}

async function loop(on: Review): Promise<number> {
  let state: ReviewState = START;
  let effect: Effect = 'show';
  let shown: Shown | undefined;
  for (;;) {
    if (effect === 'show') {
      const change = await on.list.at(state.at);
      if (change === undefined) return finish(on, state, EXIT.ok);
      shown = await readShown(on.session, change);
      state = withStaleness(state, change);
    }
    if (effect === 'quit') return finish(on, state, EXIT.ok);
    if (effect === 'interrupt') return finish(on, state, EXIT.interrupted);
    if (shown !== undefined && (effect === 'show' || effect === 'show-whole'))
      print(renderChange(state, shown, knownOf(on), screenOf(on.session, effect === 'show-whole')));
    if (effect === 'help') print(HELP);
    const event = shown === undefined ? undefined : await act(on, state, effect, shown);
    if (event === undefined) print(`\r${renderPrompt(state, screenOf(on.session, false).paint)}`);
    const next = event ?? { kind: 'key' as const, key: await on.keys.next() };
    if (event === undefined) print('\n');
    ({ state, effect } = review(state, next));
  }
}

const print = (text: string): void => {
  process.stderr.write(text);
};

function knownOf({ list }: Review): Known {
  return { count: list.known.length, isAll: list.isAll() };
}

function screenOf({ config, out }: Session, isWhole: boolean): ScreenOptions {
  const rows = process.stderr.rows || 24;
  return {
    paint: paintOf(config.hasColor),
    hasColor: config.hasColor,
    columns: out.columns,
    rows,
    isWhole,
  };
}

/** Adds the reason for which an accept would be refused, as the list tells it. */
function withStaleness(state: ReviewState, { stale_because }: HeldChange): ReviewState {
  if (stale_because === null || state.verdicts.has(state.at) || state.stale.has(state.at)) return state;
  return { ...state, stale: new Map(state.stale).set(state.at, stale_because.reason) };
}

async function readShown(session: Session, change: HeldChange): Promise<Shown> {
  const agentName = await session.client.agents.retrieve(change.agent_id).then(
    ({ name }) => name,
    (error: unknown) => {
      if (isRefusal(error, 'not_found')) return null;
      throw error;
    },
  );
  return { change, draft: draftOf(change), agentName };
}

/** Says what was decided, and how many changes stay held. */
async function finish(
  { session, batchId, flags }: Review,
  state: ReviewState,
  exitCode: number,
): Promise<number> {
  const held = await countHeld(session, batchId, flags);
  const passages = await countHeldPassages(session, batchId, flags);
  const report = { job_id: batchId, ...countVerdicts(state), held, passages };
  await session.out.record(report, () => renderVerdicts(state));
  if (held > 0)
    session.out.warn(
      `${countOfNoun(held, 'change')} ${held === 1 ? 'stays' : 'stay'} held. nightshift memory review ${batchId} goes on.`,
    );
  if (held === 0 && passages > 0)
    session.out.warn(
      `${countOfNoun(passages, 'archival passage')} ${passages === 1 ? 'stays' : 'stay'} held. nightshift memory review ${batchId} --accept-all or --reject-all settles them.`,
    );
  return exitCode;
}

/** Counts the archival passages beside the chosen changes. Nothing is settled while the batch runs: 0 then. */
async function countHeldPassages(session: Session, batchId: string, flags: HeldFlags): Promise<number> {
  try {
    return (await settleChosen(session, batchId, 'accept', flags, { isDry: true })).passages;
  } catch (error) {
    if (isRefusal(error, 'batch_running')) return 0;
    throw error;
  }
}
