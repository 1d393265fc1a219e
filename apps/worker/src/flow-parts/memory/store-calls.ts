import {
  ARCHIVAL_INSERTED,
  archivalResult,
  conversationResult,
  isStoreCall,
  readStoreCall,
  type BlockWriterCall,
  type KeptPassage,
  type PlannedCall,
  type StoreCall,
  type ToolOutcome,
} from '@nightshift/agent-core';
import {
  newId,
  readTimeZones,
  searchMessages,
  searchPassages,
  type RunToDecide,
  type MessageSearch,
  type PassageSearch,
  type Tx,
} from '@nightshift/db';

/** The calls of a chunk that the store answers, answered. */
export interface StoreAnswers {
  /** Null for a call of any other tool. */
  outcomeOf(call: PlannedCall): ToolOutcome | null;
  /** What the call keeps in archival memory, if it does. */
  passageOf(call: PlannedCall, writer: BlockWriterCall): KeptPassage | null;
}

const NO_STORE_ANSWERS: StoreAnswers = { outcomeOf: () => null, passageOf: () => null };

interface RunWithStoreCalls {
  readonly run: Pick<RunToDecide, 'id' | 'agent_id' | 'batch_id' | 'conversation_id' | 'step_number'>;
  readonly calls: readonly PlannedCall[];
}

/**
 * Answers the searches of all runs of a chunk, many with one statement, and reads what is to be kept. A search
 * finds nothing of its own step, neither the answer nor what other calls of it have kept, also when it is carried out later.
 */
export async function answerStoreCalls(trx: Tx, runs: readonly RunWithStoreCalls[]): Promise<StoreAnswers> {
  const asked = runs.flatMap(({ run, calls }) =>
    calls.filter((call) => isStoreCall(call.tool_name)).map((call) => ({ run, call })),
  );
  if (asked.length === 0) return NO_STORE_ANSWERS;
  const { now, zones } = await readTimeZones(trx, [...new Set(asked.map(({ run }) => run.agent_id))]);
  const outcomes = new Map<PlannedCall, ToolOutcome>();
  const inserts = new Map<PlannedCall, Extract<StoreCall, { readonly kind: 'archival_insert' }>>();
  const passages: { readonly call: PlannedCall; readonly search: PassageSearch }[] = [];
  const messages: { readonly call: PlannedCall; readonly search: MessageSearch }[] = [];
  for (const { run, call } of asked) {
    const step = { run_id: run.id, step_number: run.step_number };
    const read = readStoreCall(call.tool_name, call.args, zones.get(run.agent_id) ?? 'UTC');
    if (!read.ok) outcomes.set(call, read.outcome);
    else if (read.call.kind === 'archival_insert') {
      inserts.set(call, read.call);
      outcomes.set(call, ARCHIVAL_INSERTED);
    } else if (read.call.kind === 'archival_search') {
      const { agent_id, batch_id } = run;
      passages.push({ call, search: { ...read.call, ...step, agent_id, batch_id } });
    } else messages.push({ call, search: { ...read.call, ...step, conversation_id: run.conversation_id } });
  }
  const found = await searchPassages(
    trx,
    passages.map(({ search }) => search),
  );
  for (const [index, { call }] of passages.entries()) outcomes.set(call, archivalResult(found[index] ?? []));
  const said = await searchMessages(
    trx,
    messages.map(({ search }) => search),
  );
  for (const [index, { call }] of messages.entries())
    outcomes.set(call, conversationResult(said[index] ?? [], now));
  return {
    outcomeOf: (call) => outcomes.get(call) ?? null,
    passageOf(call, writer) {
      const insert = inserts.get(call);
      if (insert === undefined) return null;
      return { ...writer, kind: 'kept', passage_id: newId(), content: insert.content, tags: insert.tags };
    },
  };
}
