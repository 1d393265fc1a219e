import type { PlannedCall } from '../model/planned-call.ts';
import type { ToolOutcome } from '../model/tool.ts';
import type { RememberingRun, RunWithCalls } from './open-blocks.ts';
import {
  ARCHIVAL_INSERTED,
  archivalResult,
  conversationResult,
  readStoreCall,
  type ArchivalHit,
  type ArchivalInsert,
  type ArchivalSearch,
  type ConversationHit,
  type ConversationSearch,
} from './store-calls.ts';
import { isStoreCall } from './store-tools.ts';

/** A call of a tool that the store answers, with its run. */
export interface AskedCall {
  readonly run: RememberingRun;
  readonly call: PlannedCall;
}

interface SearchingStep {
  readonly run_id: string;
  readonly step_number: number;
}

/** A search of an agent's archival memory. */
export type PassageSearch = ArchivalSearch &
  SearchingStep & { readonly agent_id: string; readonly batch_id: string };

/** A search of a run's conversation. */
export type MessageSearch = ConversationSearch & SearchingStep & { readonly conversation_id: string };

/** A call with its search. */
interface Asked<Search> {
  readonly call: PlannedCall;
  readonly search: Search;
}

/** The store's answer to a call, and the passage that the call adds. */
export interface StoreAnswer {
  readonly outcome: ToolOutcome;
  readonly keeps: ArchivalInsert | null;
}

export type StoreAnswers = ReadonlyMap<PlannedCall, StoreAnswer>;

/** Parsed calls of a chunk: open searches, and answers without a search. */
export interface StoreQuestions {
  readonly passages: readonly Asked<PassageSearch>[];
  readonly messages: readonly Asked<MessageSearch>[];
  readonly answered: StoreAnswers;
}

/** Returns the calls of a chunk that the store answers. */
export function storeCallsOf(runs: readonly RunWithCalls[]): readonly AskedCall[] {
  return runs.flatMap(({ run, calls }) =>
    calls.filter((call) => isStoreCall(call.tool_name)).map((call) => ({ run, call })),
  );
}

/** Reads the arguments of calls. `zones`: the time zones of their agents. */
export function readStoreCalls(
  asked: readonly AskedCall[],
  zones: ReadonlyMap<string, string>,
): StoreQuestions {
  const passages: Asked<PassageSearch>[] = [];
  const messages: Asked<MessageSearch>[] = [];
  const answered = new Map<PlannedCall, StoreAnswer>();
  for (const { run, call } of asked) {
    const { id: run_id, step_number, agent_id, batch_id, conversation_id } = run;
    const read = readStoreCall(call.tool_name, call.args, zones.get(agent_id) ?? 'UTC');
    if (!read.ok) answered.set(call, { outcome: read.outcome, keeps: null });
    else if (read.call.kind === 'archival_insert')
      answered.set(call, { outcome: ARCHIVAL_INSERTED, keeps: read.call });
    else if (read.call.kind === 'archival_search')
      passages.push({ call, search: { ...read.call, run_id, step_number, agent_id, batch_id } });
    else messages.push({ call, search: { ...read.call, run_id, step_number, conversation_id } });
  }
  return { passages, messages, answered };
}

/** Answers calls with the hits of their searches, given in the order of the questions. */
export function answerStoreCalls(
  { passages, messages, answered }: StoreQuestions,
  found: readonly (readonly ArchivalHit[])[],
  said: readonly (readonly ConversationHit[])[],
  now: Date,
): StoreAnswers {
  const answers = new Map(answered);
  for (const [index, { call }] of passages.entries())
    answers.set(call, { outcome: archivalResult(found[index] ?? []), keeps: null });
  for (const [index, { call }] of messages.entries())
    answers.set(call, { outcome: conversationResult(said[index] ?? [], now), keeps: null });
  return answers;
}
