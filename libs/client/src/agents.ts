import { dataOf, itemsOf, type Call } from './call.ts';
import * as sdk from './generated/sdk.gen.ts';
import {
  exportLines,
  importFile,
  importLines,
  type ImportOptions,
  type ImportQuery,
  type LineSource,
  type TransferOptions,
} from './agent-files.ts';
import type * as types from './generated/types.gen.ts';
import { onceOnly, type OnceOptions } from './once.ts';
import type { Send } from './send.ts';

/** Options of an export. */
export interface ExportOptions {
  readonly legacy?: boolean;
  /** Leaves the messages out. */
  readonly stripMessages?: boolean;
}

/** The operations of agents. */
export function agentsOf(on: Call, send: Send) {
  const at = (id: string) => ({ ...on, path: { agent_id: id } });
  return {
    create: (body: types.AgentCreate) => dataOf(sdk.createAgent({ ...on, body })),
    retrieve: (id: string) => dataOf(sdk.retrieveAgent(at(id))),
    list: (query: types.ListAgentsData['query'] = {}) =>
      itemsOf((after) => sdk.listAgents({ ...on, query: { ...query, ...after } })),
    update: (id: string, body: types.AgentUpdate) => dataOf(sdk.updateAgent({ ...at(id), body })),
    delete: (id: string) => dataOf(sdk.deleteAgent(at(id))),
    messages: (id: string, query: types.ListAgentMessagesData['query'] = {}) =>
      itemsOf((after) => sdk.listAgentMessages({ ...at(id), query: { ...query, ...after } })),
    appendMessages: (id: string, body: types.MessagesAppend, { idempotencyKey }: OnceOptions = {}) =>
      dataOf(sdk.appendMessages({ ...at(id), body, headers: onceOnly(idempotencyKey) })),
    appendMessagesOfMany: (body: types.BulkMessagesAppend) =>
      dataOf(sdk.appendMessagesOfAgents({ ...on, body })),
    resetMessages: (id: string, body: types.ResetMessagesData['body'] = {}) =>
      dataOf(sdk.resetMessages({ ...at(id), body })),
    tools: (id: string, query: types.ListAgentToolsData['query'] = {}) =>
      itemsOf((after) => sdk.listAgentTools({ ...at(id), query: { ...query, ...after } })),
    attachTool: (id: string, toolId: string) =>
      dataOf(sdk.attachTool({ ...on, path: { agent_id: id, tool_id: toolId } })),
    detachTool: (id: string, toolId: string) =>
      dataOf(sdk.detachTool({ ...on, path: { agent_id: id, tool_id: toolId } })),
    /** Calls a tool once, outside any run. A repeated request waits for the same call. */
    runTool: (id: string, toolName: string, body: types.ToolRun = {}) =>
      dataOf(sdk.runAgentTool({ ...on, path: { agent_id: id, tool_name: toolName }, body })),
    requireApproval: (id: string, toolName: string, requiresApproval: boolean) =>
      dataOf(
        sdk.updateToolApproval({
          ...on,
          path: { agent_id: id, tool_name: toolName },
          body: { requires_approval: requiresApproval },
        }),
      ),
    /** Reads an agent as a file. `legacy`: in Letta's older format. */
    exportFile: (id: string, { legacy = false, stripMessages = false }: ExportOptions = {}) =>
      dataOf(
        sdk.exportAgent({
          ...at(id),
          query: { use_legacy_format: legacy, strip_messages: stripMessages },
        }),
      ),
    /** Makes the agents of a file in either format of Letta: all or none. */
    importFile: (file: Blob | string, options: ImportOptions = {}, transfer: TransferOptions = {}) =>
      importFile(send, file, options, transfer),
    /** Yields agents as bodies of `create`, oldest first. */
    exportLines: (
      query: NonNullable<types.ExportAgentsData['query']> = {},
      { signal }: Pick<TransferOptions, 'signal'> = {},
    ) => exportLines(send, query, signal),
    /** Makes agents of lines: all or none. */
    importLines: (source: LineSource, query: ImportQuery = {}, transfer: TransferOptions = {}) =>
      importLines(send, source, query, transfer),
    cursors: (id: string) => dataOf(sdk.listCursors(at(id))),
    rewindCursor: (id: string, name: string, body: types.RewindCursorData['body'] = {}) =>
      dataOf(sdk.rewindCursor({ ...on, path: { agent_id: id, name }, body })),
  };
}
